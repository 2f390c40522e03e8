//! Chips of captured machines: keys hold whatever the system's order, absence has a reason.

use siliconroute_core::Reading;

use super::*;
use crate::fixture::Tree;
use crate::host::HostProbe;
use crate::processor::Processor;

fn host() -> HostFacts {
    let processor = Processor {
        name: Reading::Available("Intel(R) Core(TM) Ultra 7 155H".to_owned()),
        vendor: Reading::Available("Intel".to_owned()),
        architecture: "x86_64".to_owned(),
        vector_extensions: Vec::new(),
        hypervisor: Reading::Available(None),
    };
    HostProbe::new(Tree::new().roots()).with_processor(processor).facts()
}

fn pci_node(tree: Tree, node: &str, driver: &str, id: &str, slot: &str) -> Tree {
    tree.file(
        &format!("sys/class/{node}/device/uevent"),
        &format!(
            "DRIVER={driver}\nPCI_CLASS=30000\nPCI_ID={id}\nPCI_SUBSYS_ID=17AA:3C9D\nPCI_SLOT_NAME={slot}\n"
        ),
    )
}

fn keys(findings: &[ChipFinding]) -> Vec<String> {
    findings.iter().filter_map(|finding| Some(finding.chip.available()?.key.to_string())).collect()
}

fn hybrid_laptop(intel: &str, nvidia: &str) -> Tree {
    let tree = pci_node(Tree::new(), intel, "i915", "8086:7D55", "0000:00:02.0");
    let tree = pci_node(tree, nvidia, "nvidia", "10DE:2D18", "0000:01:00.0");
    pci_node(tree, "accel/accel0", "intel_vpu", "8086:7D1D", "0000:00:0b.0")
        .directory(&format!("sys/class/{intel}-eDP-1"))
        .file("sys/module/nvidia/version", "570.86.16\n")
        .file(
            "proc/driver/nvidia/gpus/0000:01:00.0/information",
            "Model: \t\t NVIDIA GeForce RTX 5070 Laptop GPU\nIRQ:   \t\t 123\nGPU UUID: \t GPU-1234-5678\nBus Location: \t 0000:01:00.0\n",
        )
        .file("usr/share/hwdata/pci.ids", "8086  Intel Corporation\n\t7d55  Meteor Lake-P [Intel Arc Graphics]\n")
}

#[test]
fn keys_of_a_hybrid_laptop_do_not_depend_on_the_order() {
    let first = ChipProbe::new(hybrid_laptop("drm/card0", "drm/card1").roots()).findings(&host());
    let second = ChipProbe::new(hybrid_laptop("drm/card1", "drm/card0").roots()).findings(&host());
    assert_eq!(
        keys(&first),
        ["cpu", "gpu:10de:2d18@0000:01:00.0", "gpu:8086:7d55@0000:00:02.0", "npu:8086:7d1d@0000:00:0b.0"]
    );
    assert_eq!(keys(&first), keys(&second));
    let nvidia = first[1].chip.available().unwrap();
    assert_eq!(nvidia.name, "NVIDIA GeForce RTX 5070 Laptop GPU");
    assert_eq!(nvidia.driver.as_deref(), Some("nvidia 570.86.16"));
    assert_eq!(nvidia.identity.uuid.as_deref(), Some("GPU-1234-5678"));
    assert_eq!(nvidia.identity.pci_subsystem, Some(0x3c9d_17aa));
    let intel = first[2].chip.available().unwrap();
    assert_eq!((intel.name.as_str(), intel.vendor.as_str()), ("Intel Arc Graphics", "Intel"));
    assert_eq!(first[3].chip.available().unwrap().name, "8086:7d1d");
}

#[test]
fn attributes_count_before_events() {
    let tree = Tree::new().files(&[
        ("sys/class/drm/card0/device/vendor", "0x1002\n"),
        ("sys/class/drm/card0/device/device", "0x744c\n"),
        ("sys/class/drm/card0/device/subsystem_vendor", "0x1eae\n"),
        ("sys/class/drm/card0/device/subsystem_device", "0x7901\n"),
        ("sys/class/drm/card0/device/mem_info_vram_total", "25753026560\n"),
        ("sys/class/drm/card0/device/product_name", "\n"),
        ("sys/class/drm/card0/device/unique_id", "8c1f2d3e4a5b6c7d\n"),
        ("sys/class/drm/card0/device/uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n"),
    ]);
    let findings = ChipProbe::new(tree.roots()).findings(&host());
    let chip = findings[1].chip.available().unwrap();
    assert_eq!(chip.key.as_str(), "gpu:1002:744c@0000:03:00.0");
    assert_eq!(chip.memory_bytes, Some(25_753_026_560));
    assert_eq!(chip.identity.pci_subsystem, Some(0x7901_1eae));
    assert_eq!(chip.identity.uuid.as_deref(), Some("8c1f2d3e4a5b6c7d"));
    assert_eq!(chip.driver.as_deref(), Some("amdgpu"));
    assert!(!chip.software);
}

#[test]
fn twenty_adapters_are_all_found() {
    let tree = (0..20).fold(Tree::new(), |tree, n| {
        pci_node(tree, &format!("drm/card{n}"), "amdgpu", "1002:744C", &format!("0000:{n:02x}:00.0"))
    });
    let findings = ChipProbe::new(tree.roots()).findings(&host());
    let mut keys = keys(&findings);
    keys.dedup();
    assert_eq!(keys.len(), 21);
}

#[test]
fn absence_has_reasons() {
    let findings = ChipProbe::new(Tree::new().directory("sys/class/drm").roots()).findings(&host());
    assert_eq!(keys(&findings), ["cpu"]);
    let reasons: Vec<(ChipKind, bool)> = findings[1..]
        .iter()
        .map(|finding| match &finding.chip {
            Reading::Unavailable(reason) => {
                (finding.kind, reason.contains("no GPU in") || reason.contains("does not exist"))
            }
            Reading::Available(chip) => panic!("found {chip:?}"),
        })
        .collect();
    assert_eq!(reasons, [(ChipKind::Gpu, true), (ChipKind::Npu, true)]);
}

#[test]
fn the_gpu_of_wsl_is_left_to_its_provider() {
    let findings = ChipProbe::new(Tree::new().file("dev/dxg", "").roots()).findings(&host());
    assert!(matches!(&findings[1].chip, Reading::Unavailable(reason) if reason.contains("WSL")));
}

#[test]
fn software_displays_are_marked() {
    let tree = pci_node(Tree::new(), "drm/card0", "virtio-pci", "1AF4:1050", "0000:00:02.0").file(
        "sys/class/drm/card1/device/uevent",
        "DRIVER=simple-framebuffer\nMODALIAS=platform:simple-framebuffer\n",
    );
    let findings = ChipProbe::new(tree.roots()).findings(&host());
    assert!(findings[1..3].iter().all(|finding| finding.chip.available().unwrap().software));
}

#[test]
fn compute_cards_without_a_display_node_are_found() {
    let tree = Tree::new()
        .file(
            "proc/driver/nvidia/gpus/0000:17:00.0/information",
            "Model: NVIDIA H200\nGPU UUID: GPU-????????\n",
        )
        .file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n")
        .file("sys/bus/pci/devices/0000:17:00.0/device", "0x2335\n")
        .file("proc/driver/nvidia/gpus/0000:18:00.0/information", "Bus Location: ../../../etc\n");
    let findings = ChipProbe::new(tree.roots()).findings(&host());
    let chip =
        findings.iter().find(|finding| finding.source.contains("17:00")).unwrap().chip.available().unwrap();
    assert_eq!((chip.key.as_str(), chip.name.as_str()), ("gpu:10de:2335@0000:17:00.0", "NVIDIA H200"));
    assert_eq!(chip.identity.uuid, None);
}

#[cfg(unix)]
#[test]
fn a_driver_of_nvidias_that_hangs_leaves_the_other_chips() {
    let event = "DRIVER=i915\nPCI_ID=8086:7D55\nPCI_SLOT_NAME=0000:00:02.0\n";
    let tree = Tree::new()
        .file("sys/class/drm/card0/device/uevent", event)
        .hanging("proc/driver/nvidia/gpus/0000:17:00.0/information");
    let limit = std::time::Duration::from_millis(100);
    let (adapters, _) = linux::devices::find_adapters_within(&tree.roots(), limit);
    assert_eq!(adapters.len(), 1);
    // The second question is answered at once; with no other GPU the reason is what is found.
    let tree = tree.without("sys/class/drm");
    let (adapters, gaps) = linux::devices::find_adapters_within(&tree.roots(), limit);
    assert!(adapters.is_empty());
    assert!(gaps[0].reason.contains("NVIDIA's driver below "), "{}", gaps[0].reason);
    assert!(gaps[0].reason.contains("has not answered for"), "{}", gaps[0].reason);
}

#[test]
fn qualcomm_npu_and_platform_gpu_have_places() {
    let tree = Tree::new()
        .directory("sys/class/misc/fastrpc-cdsp")
        .file("sys/class/drm/card0/device/uevent", "DRIVER=adreno\nOF_COMPATIBLE_0=qcom,adreno-43050a01\n");
    let findings = ChipProbe::new(tree.roots()).findings(&host());
    assert_eq!(keys(&findings), ["cpu", "gpu", "npu@fastrpc-cdsp"]);
    assert_eq!(findings[1].chip.available().unwrap().name, "adreno-43050a01");
}

#[test]
fn findings_survive_json() {
    let findings = ChipProbe::new(hybrid_laptop("drm/card0", "drm/card1").roots()).findings(&host());
    let text = serde_json::to_string(&findings).unwrap();
    assert_eq!(serde_json::from_str::<Vec<ChipFinding>>(&text).unwrap(), findings);
}

fn unplaced(luid: u64, instance: Option<&str>, subsystem: Option<u32>) -> Adapter {
    let ids = ChipIdentity::of_ids(0x10de, 1);
    Adapter {
        kind: ChipKind::Gpu,
        name: Some("Adapter".to_owned()),
        vendor: None,
        identity: ChipIdentity {
            luid: Some(luid),
            instance: instance.map(str::to_owned),
            pci_subsystem: subsystem,
            ..ids
        },
        memory_bytes: Some(0),
        software: false,
        driver: None,
        source: "test".to_owned(),
        position: None,
    }
}

#[test]
fn equal_adapters_without_a_place_are_told_apart_by_what_lasts() {
    #[track_caller]
    fn check(adapters: &[Adapter], expected: &[&str]) {
        let found = assemble(&host(), adapters.to_vec(), Vec::new());
        assert_eq!(keys(&found)[1..], *expected);
        // Another order and, as after a restart, other LUIDs.
        let mut later = adapters.to_vec();
        later.reverse();
        for adapter in &mut later {
            adapter.identity.luid = adapter.identity.luid.map(|luid| luid ^ 0xffff);
        }
        assert_eq!(keys(&assemble(&host(), later, Vec::new()))[1..], *expected);
    }
    check(&[unplaced(7, None, None)], &["gpu:10de:0001"]);
    check(&[unplaced(7, Some("A\\1"), None), unplaced(8, Some("A\\1"), None)], &["gpu:10de:0001"]);
    check(
        &[unplaced(7, Some("A\\1"), None), unplaced(8, Some("A\\2"), None)],
        &["gpu:10de:0001@a/1", "gpu:10de:0001@a/2"],
    );
    check(
        &[unplaced(7, None, Some(2)), unplaced(8, None, Some(1))],
        &["gpu:10de:0001@subsystem-00000001", "gpu:10de:0001@subsystem-00000002"],
    );
    let twins = [unplaced(7, None, Some(2)), unplaced(8, None, Some(2))];
    check(&twins, &[]);
    let found = assemble(&host(), twins.to_vec(), Vec::new());
    assert_eq!(found.len(), 3);
    let told = found[1].chip.clone().map(|chip| chip.name).to_string();
    assert!(told.contains("2 adapters gpu:10de:0001"), "{told}");
    let listed = listed(twins.to_vec());
    assert!(listed.iter().all(|adapter| adapter.chip.available().is_none()));
}

#[test]
fn a_chip_told_of_twice_counts_once() {
    let placed = |luid| {
        let mut adapter = unplaced(luid, None, None);
        adapter.identity.bus_address = Some("0000:01:00.0".to_owned());
        adapter
    };
    let findings = assemble(&host(), vec![placed(7), placed(7), placed(8)], Vec::new());
    assert_eq!(keys(&findings), ["cpu", "gpu:10de:0001@0000:01:00.0"]);
    assert_eq!(findings[1].chip.available().unwrap().memory_bytes, None);
    let luids: Vec<_> = listed(vec![placed(7), placed(8)])
        .into_iter()
        .map(|adapter| (adapter.identity.luid, adapter.chip))
        .collect();
    assert_eq!(luids[0].1, luids[1].1);
    assert_eq!((luids[0].0, luids[1].0), (Some(7), Some(8)));
}

#[test]
fn the_running_machine_has_a_cpu() {
    let host = crate::host::detect_host();
    let findings = detect_chips(&host);
    assert_eq!(findings[0].chip.available().unwrap().key.as_str(), "cpu");
}
