//! Names and versions of a Linux machine: processor, board, system, hypervisor, container.
//!
//! Invariant: `/proc/cpuinfo` is opened only where the processor cannot name itself, since on large x86
//! machines the kernel measures every clock before it answers.

use siliconroute_core::Reading;

use crate::processor::{Processor, clean_spaces, hypervisor_of_board, vendor_name};
use crate::roots::{Roots, list_names, read_text, read_value, read_word};

/// The processor's name and maker.
#[derive(Debug, PartialEq)]
pub(crate) struct CpuLabel {
    pub(crate) name: Reading<String>,
    pub(crate) vendor: Reading<String>,
}

/// Names the processor: its own instruction, else `/proc/cpuinfo`, with the board's name on ARM.
pub(crate) fn cpu_label(roots: &Roots, processor: &Processor) -> CpuLabel {
    if let (Reading::Available(_), Reading::Available(_)) = (&processor.name, &processor.vendor) {
        return CpuLabel { name: processor.name.clone(), vendor: processor.vendor.clone() };
    }
    let path = roots.proc.join("cpuinfo");
    let (text, reason) = match read_text(&path) {
        Reading::Available(text) => (text, format!("{} names no processor", path.display())),
        Reading::Unavailable(reason) => (String::new(), reason),
    };
    let board = ["sys/firmware/devicetree/base/model", "proc/device-tree/model"].iter().find_map(|path| {
        let full = match path.split_once('/') {
            Some(("sys", rest)) => roots.sys.join(rest),
            Some((_, rest)) => roots.proc.join(rest),
            None => return None,
        };
        clean_spaces(read_text(&full).available()?)
    });
    let named = field(&text, "model name").or_else(|| field(&text, "Model Name")).and_then(clean_spaces);
    let name = named.or(board).or_else(|| arm_cores(&text));
    let vendor = field(&text, "vendor_id")
        .map(vendor_name)
        .or_else(|| Some(arm_maker(hexadecimal(field(&text, "CPU implementer")?)?).to_owned()));
    CpuLabel { name: Reading::from_option(name, &reason), vendor: Reading::from_option(vendor, &reason) }
}

/// The value of the first line `key : value`.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
    })
}

fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// The designs of the cores, most capable first, such as `Cortex-A76 + Cortex-A55`.
fn arm_cores(cpuinfo: &str) -> Option<String> {
    let mut implementer = None;
    let mut cores: Vec<String> = Vec::new();
    for line in cpuinfo.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key.trim() {
            "CPU implementer" => implementer = hexadecimal(value),
            "CPU part" => {
                let (Some(implementer), Some(part)) = (implementer, hexadecimal(value)) else { continue };
                let name = arm_core(implementer, part)
                    .map_or_else(|| format!("{} core {part:#05x}", arm_maker(implementer)), str::to_owned);
                if !cores.contains(&name) && cores.len() < 8 {
                    cores.push(name);
                }
            }
            _ => {}
        }
    }
    // The kernel numbers the small cores first.
    cores.reverse();
    (!cores.is_empty()).then(|| cores.join(" + "))
}

/// The maker behind the implementer code of the register `MIDR_EL1` (ARM's reference manual).
fn arm_maker(implementer: u32) -> &'static str {
    match implementer {
        0x41 => "ARM",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "APM",
        0x51 => "Qualcomm",
        0x53 => "Samsung",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        _ => "unknown ARM maker",
    }
}

fn arm_core(implementer: u32, part: u32) -> Option<&'static str> {
    Some(match (implementer, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse-N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd40) => "Neoverse-V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd42) => "Cortex-A78AE",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd48) => "Cortex-X2",
        (0x41, 0xd49) => "Neoverse-N2",
        (0x41, 0xd4d) => "Cortex-A715",
        (0x41, 0xd4e) => "Cortex-X3",
        (0x41, 0xd4f) => "Neoverse-V2",
        (0x41, 0xd80) => "Cortex-A520",
        (0x41, 0xd81) => "Cortex-A720",
        (0x41, 0xd82) => "Cortex-X4",
        (0x51, 0x001) => "Qualcomm Oryon",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1a",
        _ => return None,
    })
}

/// The mode of transparent huge pages: the word in brackets.
pub(crate) fn huge_pages(roots: &Roots) -> Reading<String> {
    let path = roots.sys.join("kernel/mm/transparent_hugepage/enabled");
    read_value(&path, "a mode in brackets", |text| {
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    })
}

/// The name that the distribution gives itself.
pub(crate) fn os_version(roots: &Roots) -> Reading<String> {
    let pretty = |path: &std::path::Path| {
        read_value(path, "a line PRETTY_NAME", |text| {
            let value = text.lines().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
            clean_spaces(value.trim_matches(['"', '\'']))
        })
    };
    let fallback = pretty(&roots.root.join("usr/lib/os-release"));
    match pretty(&roots.etc.join("os-release")) {
        Reading::Unavailable(reason) if fallback.available().is_none() => Reading::Unavailable(reason),
        Reading::Unavailable(_) => fallback,
        found @ Reading::Available(_) => found,
    }
}

/// The kernel's release.
pub(crate) fn kernel_version(roots: &Roots) -> Reading<String> {
    read_word(&roots.proc.join("sys/kernel/osrelease"))
}

/// The hypervisor below the machine: the processor's word, else the firmware's and the kernel's.
pub(crate) fn virtual_machine(roots: &Roots, processor: &Processor) -> Reading<Option<String>> {
    if let found @ Reading::Available(_) = &processor.hypervisor {
        return found.clone();
    }
    if let Reading::Available(kind) = read_word(&roots.sys.join("hypervisor/type")) {
        return Reading::Available(Some(kind));
    }
    let device_tree = roots.proc.join("device-tree");
    if let Reading::Available(kind) = read_text(&device_tree.join("hypervisor/compatible")) {
        let first = kind.split('\0').next().unwrap_or_default();
        return Reading::Available(Some(first.rsplit(',').next().unwrap_or(first).to_lowercase()));
    }
    let dmi = |name: &str| read_word(&roots.sys.join("class/dmi/id").join(name)).available().cloned();
    let board: Vec<String> =
        ["sys_vendor", "product_name", "bios_vendor"].iter().filter_map(|name| dmi(name)).collect();
    if let Some(name) = hypervisor_of_board(&board.join(" ")) {
        return Reading::Available(Some(name));
    }
    if board.is_empty() && list_names(&device_tree).available().is_none() {
        return Reading::unavailable(
            "neither the processor nor the firmware tells whether this is a virtual machine",
        );
    }
    Reading::Available(None)
}

/// The container around the process, told by the marks that its makers leave.
pub(crate) fn container(roots: &Roots) -> Option<String> {
    let named = |name: &str| Some(name.to_owned());
    if let Reading::Available(text) = read_word(&roots.root.join("run/systemd/container")) {
        return Some(text);
    }
    if roots.root.join("run/.containerenv").exists() {
        return named("podman");
    }
    let groups = read_text(&roots.proc.join("self/cgroup"));
    let groups = groups.available().map(String::as_str).unwrap_or_default();
    if groups.contains("/kubepods") || roots.root.join("run/secrets/kubernetes.io").exists() {
        return named("kubernetes");
    }
    if roots.root.join(".dockerenv").exists() || groups.contains("/docker") {
        return named("docker");
    }
    if groups.contains("/lxc") {
        return named("lxc");
    }
    let kernel = kernel_version(roots);
    if kernel.available().is_some_and(|kernel| kernel.to_lowercase().contains("microsoft")) {
        return named("wsl");
    }
    None
}

/// The musl C library of the system, told by its loader.
pub(crate) fn musl(roots: &Roots) -> Option<String> {
    let names = list_names(&roots.root.join("lib"));
    names.available()?.iter().any(|name| name.starts_with("ld-musl-")).then(|| "musl".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn silent_processor() -> Processor {
        Processor {
            name: Reading::unavailable("none"),
            vendor: Reading::unavailable("none"),
            architecture: "arm64".to_owned(),
            vector_extensions: Vec::new(),
            hypervisor: Reading::unavailable("none"),
        }
    }

    const PI: &str = "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n";
    const ROCK: &str =
        "CPU implementer : 0x41\nCPU part : 0xd05\n\nCPU implementer : 0x41\nCPU part : 0xd0b\n";

    #[test]
    fn arm_processors_are_named_by_board_or_by_cores() {
        #[track_caller]
        fn check(files: &[(&str, &str)], name: &str, vendor: &str) {
            let label = cpu_label(&Tree::new().files(files).roots(), &silent_processor());
            assert_eq!(label.name, Reading::Available(name.to_owned()));
            assert_eq!(label.vendor, Reading::Available(vendor.to_owned()));
        }
        check(
            &[("proc/cpuinfo", PI), ("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")],
            "Raspberry Pi 5 Model B Rev 1.0",
            "ARM",
        );
        check(&[("proc/cpuinfo", ROCK)], "Cortex-A76 + Cortex-A55", "ARM");
        check(
            &[("proc/cpuinfo", "CPU implementer: 0x51\nCPU part: 0x777\n")],
            "Qualcomm core 0x777",
            "Qualcomm",
        );
        check(&[("proc/cpuinfo", "vendor_id : GenuineIntel\nmodel name : Some  CPU\n")], "Some CPU", "Intel");
    }

    #[test]
    fn a_machine_without_names_says_so() {
        let label = cpu_label(&Tree::new().file("proc/cpuinfo", "gibberish\n").roots(), &silent_processor());
        assert!(matches!(label.name, Reading::Unavailable(reason) if reason.ends_with("names no processor")));
        let label = cpu_label(&Tree::new().roots(), &silent_processor());
        assert!(matches!(label.vendor, Reading::Unavailable(reason) if reason.ends_with("does not exist")));
    }

    #[test]
    fn virtual_machines_are_told_from_bare_metal() {
        #[track_caller]
        fn check(files: &[(&str, &str)], expected: Option<&str>) {
            let found = virtual_machine(&Tree::new().files(files).roots(), &silent_processor());
            assert_eq!(found, Reading::Available(expected.map(str::to_owned)));
        }
        check(&[("sys/class/dmi/id/sys_vendor", "QEMU\n")], Some("qemu"));
        check(&[("sys/class/dmi/id/product_name", "KVM Virtual Machine\n")], Some("kvm"));
        check(&[("sys/class/dmi/id/product_name", "Virtual Machine\n")], Some("hyper-v"));
        check(
            &[
                ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
                ("sys/class/dmi/id/product_name", "m7g.metal\n"),
            ],
            None,
        );
        check(&[("sys/class/dmi/id/sys_vendor", "LENOVO\n")], None);
        check(&[("proc/device-tree/hypervisor/compatible", "linux,kvm\0")], Some("kvm"));
        check(&[("proc/device-tree/model", "Raspberry Pi 5\0")], None);
        check(&[("sys/hypervisor/type", "xen\n")], Some("xen"));
        assert!(virtual_machine(&Tree::new().roots(), &silent_processor()).available().is_none());
    }

    #[test]
    fn containers_are_told_by_their_marks() {
        #[track_caller]
        fn check(files: &[(&str, &str)], expected: Option<&str>) {
            assert_eq!(container(&Tree::new().files(files).roots()).as_deref(), expected);
        }
        check(&[(".dockerenv", "")], Some("docker"));
        check(&[("run/.containerenv", "engine=podman\n")], Some("podman"));
        check(&[("run/systemd/container", "systemd-nspawn\n")], Some("systemd-nspawn"));
        check(
            &[("proc/self/cgroup", "0::/kubepods/besteffort/pod1\n"), (".dockerenv", "")],
            Some("kubernetes"),
        );
        check(&[("proc/self/cgroup", "3:cpu:/lxc/name\n")], Some("lxc"));
        check(&[("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n")], Some("wsl"));
        check(&[("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")], None);
    }

    #[test]
    fn systems_name_themselves() {
        let tree = Tree::new()
            .file("usr/lib/os-release", "NAME=Fedora\nPRETTY_NAME='Fedora Linux 41'\n")
            .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
            .file("lib/ld-musl-x86_64.so.1", "");
        let roots = tree.roots();
        assert_eq!(os_version(&roots), Reading::Available("Fedora Linux 41".to_owned()));
        assert_eq!(huge_pages(&roots), Reading::Available("madvise".to_owned()));
        assert_eq!(musl(&roots).as_deref(), Some("musl"));
        let empty = Tree::new();
        assert!(os_version(&empty.roots()).available().is_none());
        assert!(huge_pages(&empty.roots()).available().is_none());
        assert_eq!(musl(&empty.roots()), None);
    }
}
