//! Adapters of made-up Windows machines: the same chips in every order and after every restart.

use siliconroute_core::Chip;

use super::*;
use crate::chips::{ChipFinding, assemble};
use crate::fixture::windows_machines::{
    self as machines, FakeWindows, basic_render_driver, display, dxgi, host,
};

fn findings(machine: &FakeWindows) -> Vec<ChipFinding> {
    let (adapters, gaps) = machine.adapters.adapters();
    assemble(&host(), adapters, gaps)
}

fn chips(machine: &FakeWindows) -> Vec<Chip> {
    findings(machine).into_iter().filter_map(|finding| finding.chip.available().cloned()).collect()
}

fn keys(machine: &FakeWindows) -> Vec<String> {
    chips(machine).iter().map(|chip| chip.key.to_string()).collect()
}

/// Why there is no chip of `kind`.
#[track_caller]
fn absence(machine: &FakeWindows, kind: ChipKind) -> String {
    let findings = findings(machine);
    let finding = findings.iter().find(|finding| finding.kind == kind).unwrap();
    match &finding.chip {
        Reading::Unavailable(reason) => reason.clone(),
        Reading::Available(chip) => panic!("found {chip:?}"),
    }
}

/// The chip and the position behind each LUID.
fn by_luid(machine: &FakeWindows) -> Vec<(u64, String, Option<u32>)> {
    let listed = machine.adapters.listed();
    let listed = listed.available().unwrap().iter();
    listed
        .filter_map(|adapter| Some((adapter.identity.luid?, adapter.chip.to_string(), adapter.position)))
        .collect()
}

#[test]
fn a_hybrid_laptop_has_the_same_chips_in_both_orders_and_after_a_restart() {
    let expected = ["cpu", "gpu:1002:164e@0000:08:00.0", "gpu:10de:2d18@0000:01:00.0", "gpu:1414:008c"];
    let mut positions = Vec::new();
    for discrete_first in [true, false] {
        for start in [1, 2] {
            let machine = machines::fake_hybrid_laptop(discrete_first, start);
            assert_eq!(keys(&machine), expected, "{discrete_first} {start}");
            let luids = by_luid(&machine);
            let nvidia = luids.iter().find(|(_, chip, _)| chip == expected[2]).unwrap();
            assert_eq!(nvidia.0, machines::luid(start, 2));
            positions.push(nvidia.2);
        }
    }
    assert_eq!(positions, [Some(0), Some(0), Some(1), Some(1)]);
    let machine = machines::fake_hybrid_laptop(true, 1);
    let nvidia = &chips(&machine)[2];
    assert_eq!(nvidia.name, "NVIDIA GeForce RTX 5070 Laptop GPU");
    assert_eq!((nvidia.vendor.as_str(), nvidia.driver.as_deref()), ("NVIDIA", Some("32.0.15.6203")));
    assert_eq!(nvidia.identity.pci_subsystem, Some(0x3c9d_17aa));
    assert_eq!(nvidia.memory_bytes, Some(8_300 << 20));
    assert!(!nvidia.software);
}

#[test]
fn a_copilot_laptop_on_arm_has_chips_without_a_pci_bus() {
    let machine = machines::fake_copilot_arm64(1);
    assert_eq!(keys(&machine), ["cpu", "gpu:1414:008c", "gpu:qcom0c36", "npu:qcom0d0a"]);
    assert_eq!(keys(&machine), keys(&machines::fake_copilot_arm64(2)));
    let chips = chips(&machine);
    assert!(chips[2..].iter().all(|chip| chip.vendor == "Qualcomm" && !chip.software));
    assert_eq!(chips[2].name, "Qualcomm(R) Adreno(TM) X1-85 GPU");
    assert_eq!(chips[3].identity.instance.as_deref(), Some(r"ACPI\QCOM0D0A\2&DABA3FF&0"));
}

#[test]
fn a_core_ultra_has_an_npu_beside_its_gpu() {
    let machine = machines::fake_core_ultra(1);
    let expected = ["cpu", "gpu:1414:008c", "gpu:8086:7d55@0000:00:02.0", "npu:8086:7d1d@0000:00:0b.0"];
    assert_eq!(keys(&machine), expected);
    let npu = &chips(&machine)[3];
    assert_eq!((npu.name.as_str(), npu.driver.as_deref()), ("Intel(R) AI Boost", Some("32.0.100.3104")));
}

#[test]
fn a_software_adapter_is_known_where_the_flag_lies() {
    #[track_caller]
    fn check(adapter: &DxgiAdapter, software: bool) {
        assert_eq!(describe_adapter(adapter, &[]).unwrap().software, software);
    }
    check(&DxgiAdapter { flags: 0, ..basic_render_driver(0, 1) }, true);
    check(&DxgiAdapter { device: 0xff, ..basic_render_driver(0, 1) }, true);
    check(&dxgi(0, "Some rasteriser", 0x1234, 1, 7).flagged(SOFTWARE_FLAG), true);
    check(&dxgi(0, "Microsoft Virtual Render Driver", 0x1414, 0x8e, 7), false);
    let machine = machines::fake_without_gpu(1);
    let chips = chips(&machine);
    assert_eq!(chips[1].key.as_str(), "gpu:1414:008c");
    assert!(chips[1].software);
    assert!(absence(&machine, ChipKind::Npu).contains("ComputeAccelerator"));
}

#[test]
fn a_remote_session_lists_no_chip_twice() {
    let machine = machines::fake_remote_session(1);
    assert_eq!(keys(&machine), ["cpu", "gpu:10de:2d18@0000:01:00.0", "gpu:1414:008c"]);
    // Both of the adapter's numbers lead to the chip.
    let nvidia = "gpu:10de:2d18@0000:01:00.0";
    let luids = by_luid(&machine);
    assert_eq!(luids.iter().filter(|(_, chip, _)| chip == nvidia).count(), 2, "{luids:?}");
}

#[test]
fn two_equal_gpus_are_told_apart_by_their_place() {
    let expected = ["cpu", "gpu:10de:2684@0000:01:00.0", "gpu:10de:2684@0000:41:00.0"];
    for swapped in [false, true] {
        for start in [1, 2] {
            let machine = machines::fake_two_equal_gpus(swapped, start);
            assert_eq!(keys(&machine), expected);
            let at_one =
                by_luid(&machine).into_iter().find(|(luid, ..)| *luid == machines::luid(start, 1)).unwrap();
            assert_eq!(at_one.1, expected[1]);
        }
    }
}

#[test]
fn the_device_manager_places_an_adapter_where_the_kernel_does_not() {
    let mut machine = machines::fake_hybrid_laptop(true, 1);
    let whole = keys(&machine);
    if let Reading::Available(adapters) = &mut machine.adapters.dxgi {
        for adapter in adapters {
            (adapter.place, adapter.registry_key) = (None, None);
        }
    }
    assert_eq!(keys(&machine), whole);
    // And the kernel does where the device manager does not answer.
    let mut machine = machines::fake_hybrid_laptop(true, 1);
    machine.adapters.displays = Reading::unavailable("the Plug and Play manager is off");
    assert_eq!(keys(&machine), whole);
}

#[test]
fn twenty_adapters_are_twenty_chips() {
    let many = |reversed: bool| {
        let mut adapters: Vec<DxgiAdapter> = (0..20)
            .map(|n| DxgiAdapter {
                place: Some((n + 1, 0, 0)),
                ..dxgi(n, "NVIDIA H200", 0x10de, 0x2335, u64::from(n))
            })
            .collect();
        if reversed {
            adapters.reverse();
        }
        FakeWindows::of(adapters, Vec::new(), Vec::new())
    };
    let found = keys(&many(false));
    assert_eq!(found.len(), 21);
    assert_eq!(found, keys(&many(true)));
}

#[test]
fn without_an_adapter_or_an_answer_there_is_a_reason() {
    let mut machine = FakeWindows::of(Vec::new(), Vec::new(), Vec::new());
    assert_eq!(absence(&machine, ChipKind::Gpu), "DXGI lists no adapter");
    assert_eq!(machine.adapters.listed(), Reading::Available(Vec::new()));
    machine.adapters.dxgi = Reading::unavailable("DXGI did not answer within 3 seconds");
    machine.adapters.accelerators = Reading::unavailable("the Plug and Play manager is off");
    assert_eq!(absence(&machine, ChipKind::Gpu), "DXGI did not answer within 3 seconds");
    assert_eq!(absence(&machine, ChipKind::Npu), "the Plug and Play manager is off");
    assert_eq!(machine.adapters.listed(), Reading::unavailable("DXGI did not answer within 3 seconds"));
    assert_eq!(keys(&machine), ["cpu"]);
}

#[test]
fn a_device_that_windows_does_not_run_is_named() {
    let mut machine = machines::fake_core_ultra(1);
    machine.adapters.dxgi = Reading::Available(Vec::new());
    for devices in [&mut machine.adapters.displays, &mut machine.adapters.accelerators] {
        if let Reading::Available(devices) = devices {
            devices[0].problem = Some(22);
        }
    }
    let told = absence(&machine, ChipKind::Gpu);
    assert!(told.contains("problem 22 (it is disabled) with Intel(R) Arc(TM) Graphics"), "{told}");
    assert!(absence(&machine, ChipKind::Npu).contains("Intel(R) AI Boost"));
}

#[test]
fn an_adapter_that_vanishes_leaves_the_others_as_they_were() {
    let mut machine = machines::fake_hybrid_laptop(true, 1);
    let before = keys(&machine);
    if let Reading::Available(adapters) = &mut machine.adapters.dxgi {
        adapters.remove(0);
        (0..).zip(adapters).for_each(|(position, adapter)| adapter.position = position);
    }
    let after = keys(&machine);
    assert_eq!(after, [before[0].as_str(), &before[1], &before[3]]);
}

#[test]
fn a_compute_accelerator_of_a_gpu_maker_is_a_gpu() {
    let device =
        display(r"PCI\VEN_10DE&DEV_2335&SUBSYS_18BE10DE&REV_A1\4&1&0&0008", "NVIDIA H200", (0x17, 0));
    assert_eq!(describe_accelerator(&device).kind, ChipKind::Gpu);
}

#[test]
fn ids_are_read_from_instances() {
    #[track_caller]
    fn check(instance: &str, key: &str) {
        assert_eq!(identity_of_instance(instance).key(ChipKind::Npu).as_str(), key);
    }
    check(r"PCI\VEN_8086&DEV_7D1D&SUBSYS_3C9D17AA&REV_04\3&11583659&0&58", "npu:8086:7d1d");
    check(r"pci\ven_1022&dev_17f0\4", "npu:1022:17f0");
    check(r"ACPI\QCOM0D0A\2&DABA3FF&0", "npu:qcom0d0a");
    check(r"ACPI\VEN_QCOM&DEV_0C36&SUBSYS_CRD08380&REV_0000\2&DABA3FF&0", "npu:qcom0c36");
    for odd in
        ["", "\\", "PCI", "PCI\\VEN_", "PCI\\VEN_é086&DEV_12", "é", "ACPI\\", "ACPI\\A B\\", "ACPI\\VEN_QCé"]
    {
        check(odd, "npu");
    }
    let unknown = PnpDevice { instance: r"USB\VID_1A6E&PID_089A\5&1".to_owned(), ..PnpDevice::default() };
    let npu = describe_accelerator(&unknown);
    assert_eq!(npu.identity.key(ChipKind::Npu).as_str(), "npu@usb/vid_1a6e&pid_089a/5&1");
}

#[test]
fn instances_are_read_from_registry_keys() {
    #[track_caller]
    fn check(key: &str, instance: Option<&str>) {
        assert_eq!(instance_of_key(key).as_deref(), instance);
    }
    let device = r"PCI\VEN_10DE&DEV_2D18&SUBSYS_3C9D17AA&REV_A1\4&17F0A2C3&0&0008";
    check(
        &format!(r"\Registry\Machine\System\CurrentControlSet\Enum\{device}\Device Parameters"),
        Some(device),
    );
    check(&format!(r"\REGISTRY\MACHINE\SYSTEM\ControlSet001\ENUM\{device}"), Some(device));
    for odd in ["", "\\", "Enum", r"Enum\PCI", r"Enum\PCI\\x", "é\\Enum\\é"] {
        check(odd, None);
    }
}

#[test]
fn versions_and_segments_have_all_their_parts() {
    assert_eq!(version_text(0x0020_0000_000f_183b), "32.0.15.6203");
    assert_eq!(bus_address(0x1_0003, 31, 7), "0100:03:1f.7");
    assert_eq!(place_text(Some((1, 0, 0)), None).as_deref(), Some("0000:01:00.0"));
    assert_eq!(place_text(None, Some(r"x\Enum\ACPI\QCOM0D0A\2&1")).as_deref(), Some(r"ACPI\QCOM0D0A\2&1"));
}
