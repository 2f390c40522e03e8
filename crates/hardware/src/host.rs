//! What the machine is: processor, cores, caches, memory, system and the walls around the process.
//!
//! Invariant: facts describe the machine and stay the same while the program runs; what changes is
//! in `conditions`.

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::linux;
use crate::processor::Processor;
use crate::roots::Roots;
use crate::topology::{CacheLevel, CoreCluster};

/// The facts of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// The processor's own name, with single spaces.
    pub cpu_name: Reading<String>,
    /// The maker of the processor, such as `Intel`.
    pub cpu_vendor: Reading<String>,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    /// Vector and matrix extensions that programs may use, in a fixed order.
    pub vector_extensions: Vec<String>,
    /// Logical CPUs that are online.
    pub logical_cores: u32,
    /// CPUs' worth of time that this process may use: its affinity mask and its CPU quota.
    pub usable_cores: Reading<f64>,
    /// Physical cores that are online.
    pub physical_cores: Reading<u32>,
    /// Cores by design, fastest first; empty where the system tells nothing.
    pub clusters: Vec<CoreCluster>,
    /// Caches, nearest first; empty where the system tells nothing.
    pub caches: Vec<CacheLevel>,
    /// Memory that the system manages.
    pub ram_bytes: Reading<u64>,
    /// The size of a memory page.
    pub page_bytes: Reading<u64>,
    /// The mode of transparent huge pages, such as `madvise`.
    pub huge_pages: Reading<String>,
    /// `linux`, `windows` or `macos`.
    pub os: String,
    /// The system's name and version as its maker writes them.
    pub os_version: Reading<String>,
    /// The kernel's version.
    pub kernel_version: Reading<String>,
    /// The hypervisor below this machine, `None` on bare metal.
    pub virtual_machine: Reading<Option<String>>,
    /// The container around this process: `docker`, `podman`, `wsl`, `kubernetes`, `lxc` …
    pub container: Option<String>,
    /// The C library, such as `glibc 2.36`, where packages depend on it.
    pub libc: Option<String>,
}

/// Reads the facts of a Linux machine, running or captured.
#[derive(Debug, Clone)]
pub struct HostProbe {
    roots: Roots,
    processor: Processor,
    page_bytes: Reading<u64>,
    libc: Option<String>,
}

impl HostProbe {
    /// Prepares to read below `roots`, with the running processor, page size and C library.
    pub fn new(roots: Roots) -> Self {
        Self {
            roots,
            processor: Processor::detect(),
            page_bytes: crate::os::page_bytes(),
            libc: crate::os::libc(),
        }
    }

    /// Replaces the running processor, as a captured tree of another machine needs.
    #[must_use]
    pub fn with_processor(mut self, processor: Processor) -> Self {
        self.processor = processor;
        self
    }

    /// Reads the facts. Takes a few milliseconds on the largest machines.
    pub fn facts(&self) -> HostFacts {
        let roots = &self.roots;
        let label = linux::machine::cpu_label(roots, &self.processor);
        let topology = linux::cores::read_topology(roots);
        HostFacts {
            cpu_name: label.name,
            cpu_vendor: label.vendor,
            architecture: self.processor.architecture.clone(),
            vector_extensions: self.processor.vector_extensions.clone(),
            logical_cores: topology.logical_cores,
            usable_cores: linux::limits::usable_cores(roots),
            physical_cores: topology.physical_cores,
            clusters: topology.clusters,
            caches: topology.caches,
            ram_bytes: linux::limits::memory_field(roots, "MemTotal"),
            page_bytes: self.page_bytes.clone(),
            huge_pages: linux::machine::huge_pages(roots),
            os: "linux".to_owned(),
            os_version: linux::machine::os_version(roots),
            kernel_version: linux::machine::kernel_version(roots),
            virtual_machine: linux::machine::virtual_machine(roots, &self.processor),
            container: linux::machine::container(roots),
            libc: self.libc.clone().or_else(|| linux::machine::musl(roots)),
        }
    }
}

/// Reads the facts of the running machine.
pub fn detect_host() -> HostFacts {
    crate::os::host_facts()
}

#[cfg(test)]
mod tests;
