//! Host facts from what Windows answers: registry, processor layout, groups, memory.
//!
//! Invariant: pure; the answers come from `os::windows` or from a test, and a value that the registry does not hold
//! is a reason that names it.

use siliconroute_core::Reading;

use crate::host::HostFacts;
use crate::processor::{Processor, clean_spaces, hypervisor_of_board, vendor_name};
use crate::topology::{CpuTraits, group_cores};
use crate::windows_topology::WindowsLayout;

const CPU_KEY: &str = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0";
const BIOS_KEY: &str = r"HARDWARE\DESCRIPTION\System\BIOS";
const VERSION_KEY: &str = r"SOFTWARE\Microsoft\Windows NT\CurrentVersion";
/// The first build that is called Windows 11; the registry's product name still says 10.
const WINDOWS_11_BUILD: u32 = 22_000;
/// The first build, that of Windows Server 2022, whose processes run in all groups of processors.
const SPANNING_BUILD: u32 = 20_348;

/// The local machine's registry.
pub(crate) trait Registry {
    /// A text, or the first of a list of texts; `None` where there is none.
    fn text(&self, key: &str, value: &str) -> Option<String>;

    /// A 32-bit number; `None` where there is none.
    fn number(&self, key: &str, value: &str) -> Option<u32>;
}

/// The processors that a process may use, as Windows tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessorGroups {
    /// The process's own affinity mask within its first group, and the group's; zeros where its threads are in several.
    pub(crate) masks: Option<(u64, u64)>,
    /// The groups in which the process has threads.
    pub(crate) own: Vec<u16>,
    /// The active processors of each group.
    pub(crate) active: Vec<u32>,
}

/// What Windows answers about the machine.
#[derive(Debug, Clone)]
pub(crate) struct HostAnswers {
    pub(crate) processor: Processor,
    pub(crate) layout: Reading<WindowsLayout>,
    pub(crate) groups: ProcessorGroups,
    /// The highest clock of some logical CPUs, in MHz.
    pub(crate) max_mhz: Vec<(u32, u32)>,
    pub(crate) ram_bytes: Reading<u64>,
    pub(crate) page_bytes: Reading<u64>,
}

impl HostAnswers {
    /// The facts.
    pub(crate) fn facts(self, registry: &dyn Registry) -> HostFacts {
        let Self { processor, layout, groups, max_mhz, ram_bytes, page_bytes } = self;
        let cores = layout.available().map(|layout| layout.cores.as_slice()).unwrap_or_default();
        let traits: Vec<CpuTraits> = cores
            .iter()
            .flat_map(|(class, cpus)| cpus.iter().map(move |cpu| (*class, *cpu)))
            .map(|(class, cpu)| CpuTraits {
                cpu,
                kind: None,
                // Classes 0 and 1 are two designs; the step keeps neighbours apart.
                capacity: Some(1 << class.min(32)),
                max_mhz: max_mhz.iter().find(|(known, _)| *known == cpu).map(|(_, mhz)| *mhz),
            })
            .collect();
        let from_registry = |reading: Reading<String>, value: &str| match reading {
            found @ Reading::Available(_) => found,
            Reading::Unavailable(_) => Reading::from_option(
                registry.text(CPU_KEY, value).as_deref().and_then(clean_spaces),
                &format!("the registry has no {value} of the processor"),
            ),
        };
        let physical_cores = layout.clone().and_then(|layout| {
            let cores = u32::try_from(layout.cores.len()).ok().filter(|cores| *cores > 0);
            Reading::from_option(cores, "Windows lists no cores")
        });
        let build = registry.text(VERSION_KEY, "CurrentBuild").and_then(|build| build.parse().ok());
        HostFacts {
            cpu_name: from_registry(processor.name, "ProcessorNameString"),
            cpu_vendor: from_registry(processor.vendor, "VendorIdentifier")
                .map(|vendor| vendor_name(&vendor)),
            architecture: processor.architecture,
            vector_extensions: processor.vector_extensions,
            logical_cores: groups.active.iter().sum::<u32>().max(1),
            usable_cores: groups.usable_cores(build.unwrap_or(0)),
            physical_cores,
            clusters: group_cores(&traits, "Windows tells no clock"),
            caches: layout.available().map(|layout| layout.caches.clone()).unwrap_or_default(),
            ram_bytes,
            page_bytes,
            huge_pages: Reading::unavailable("Windows has no transparent huge pages"),
            os: "windows".to_owned(),
            os_version: os_version(registry),
            kernel_version: kernel_version(registry),
            virtual_machine: virtual_machine(processor.hypervisor, registry),
            container: None,
            libc: None,
        }
    }
}

impl ProcessorGroups {
    /// How many processors the process may use on a Windows of `build`.
    fn usable_cores(&self, build: u32) -> Reading<f64> {
        let Some((own, group)) = self.masks else {
            return Reading::unavailable("GetProcessAffinityMask does not tell the usable processors");
        };
        let all: u32 = self.active.iter().sum();
        let of_own_groups: u32 =
            self.own.iter().filter_map(|group| self.active.get(usize::from(*group))).sum();
        let count = match own {
            // The user or a parent has chosen processors of one group.
            own if own != 0 && own != group => own.count_ones(),
            _ if self.active.len() < 2 => own.count_ones().max(all),
            _ if build >= SPANNING_BUILD => all,
            0 => of_own_groups,
            own => own.count_ones(),
        };
        Reading::from_option((count > 0).then_some(f64::from(count)), "Windows tells no usable processor")
    }
}

fn virtual_machine(told: Reading<Option<String>>, registry: &dyn Registry) -> Reading<Option<String>> {
    if told.available().is_some() {
        return told;
    }
    let board: Vec<String> = ["SystemManufacturer", "SystemProductName", "BIOSVendor"]
        .iter()
        .filter_map(|value| registry.text(BIOS_KEY, value))
        .collect();
    if board.is_empty() {
        return Reading::unavailable(
            "neither the processor nor the firmware tells whether this is a virtual machine",
        );
    }
    Reading::Available(hypervisor_of_board(&board.join(" ")))
}

/// The system's name and version.
pub(crate) fn os_version(registry: &dyn Registry) -> Reading<String> {
    let text = |value| registry.text(VERSION_KEY, value);
    let (release, build) = (text("DisplayVersion"), text("CurrentBuild"));
    let name = text("ProductName").map(|product| system_name(&product, release.as_deref(), build.as_deref()));
    Reading::from_option(name, "the registry has no ProductName")
}

/// The kernel's version, such as `10.0.26100.4061`.
pub(crate) fn kernel_version(registry: &dyn Registry) -> Reading<String> {
    let part = |value| registry.number(VERSION_KEY, value);
    let version = registry.text(VERSION_KEY, "CurrentBuild").map(|build| {
        let (major, minor) = (part("CurrentMajorVersionNumber"), part("CurrentMinorVersionNumber"));
        let head = major.zip(minor).map(|(major, minor)| format!("{major}.{minor}.")).unwrap_or_default();
        let tail = part("UBR").map(|revision| format!(".{revision}")).unwrap_or_default();
        format!("{head}{build}{tail}")
    });
    Reading::from_option(version, "the registry has no CurrentBuild")
}

/// The name that a user would give the system, such as `Windows 11 Pro 24H2 (build 26100)`.
fn system_name(product: &str, release: Option<&str>, build: Option<&str>) -> String {
    let eleven =
        build.and_then(|build| build.parse::<u32>().ok()).is_some_and(|build| build >= WINDOWS_11_BUILD);
    let client = product.starts_with("Windows 10");
    let mut name = if eleven && client { product.replacen("10", "11", 1) } else { product.to_owned() };
    if let Some(release) = release {
        name = format!("{name} {release}");
    }
    match build {
        Some(build) => format!("{name} (build {build})"),
        None => name,
    }
}

#[cfg(test)]
mod tests;
