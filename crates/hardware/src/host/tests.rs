//! Whole machines: facts of captured trees, and of the machine that runs the test.

use siliconroute_core::Reading;

use super::*;
use crate::fixture::Tree;
use crate::hardware_id::hardware_id;

fn epyc() -> Processor {
    Processor {
        name: Reading::Available("AMD EPYC".to_owned()),
        vendor: Reading::Available("AMD".to_owned()),
        architecture: "x86_64".to_owned(),
        vector_extensions: vec!["avx2".to_owned()],
        hypervisor: Reading::Available(Some("kvm".to_owned())),
    }
}

#[test]
fn reads_a_virtual_machine_in_a_container() {
    let tree = Tree::new()
        .cpus(2, 1)
        .file("proc/meminfo", "MemTotal:       24684092 kB\n")
        .file("proc/self/status", "Cpus_allowed_list:\t0-1\n")
        .file("proc/sys/kernel/osrelease", "6.18.44\n")
        .file("etc/os-release", "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
        .file(".dockerenv", "");
    let facts = HostProbe::new(tree.roots()).with_processor(epyc()).facts();
    assert_eq!(facts.usable_cores, Reading::Available(2.0));
    assert_eq!(facts.physical_cores, Reading::Available(2));
    assert_eq!(facts.os_version, Reading::Available("Debian GNU/Linux 12 (bookworm)".to_owned()));
    assert_eq!(facts.virtual_machine, Reading::Available(Some("kvm".to_owned())));
    assert_eq!(facts.container.as_deref(), Some("docker"));
    assert_eq!(hardware_id(&facts), "x86_64_amd_epyc_2c_24gh");
}

#[test]
fn an_empty_tree_gives_reasons_and_no_panic() {
    let silent = Processor {
        name: Reading::unavailable("silent"),
        vendor: Reading::unavailable("silent"),
        hypervisor: Reading::unavailable("silent"),
        ..epyc()
    };
    let facts = HostProbe::new(Tree::new().roots()).with_processor(silent).facts();
    assert!(facts.cpu_name.available().is_none());
    assert!(facts.ram_bytes.available().is_none());
    assert!(facts.logical_cores >= 1);
    assert!(hardware_id(&facts).starts_with("x86_64_unknown_"));
    assert!(hardware_id(&facts).ends_with("c_unknowngh"));
}

#[test]
fn facts_survive_json() {
    let mut facts = detect_host();
    for machine in
        [Reading::Available(None), Reading::Available(Some("kvm".to_owned())), Reading::unavailable("x")]
    {
        facts.virtual_machine = machine;
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts);
    }
}

#[test]
fn the_running_machine_has_a_stable_id() {
    let (first, second) = (detect_host(), detect_host());
    assert!(first.logical_cores >= 1);
    assert!(first.ram_bytes.available().is_some_and(|bytes| *bytes > 0));
    assert!(first.page_bytes.available().is_some_and(|bytes| bytes.is_power_of_two()));
    assert_eq!(hardware_id(&first), hardware_id(&second));
}
