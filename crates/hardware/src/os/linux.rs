//! Linux: the trees of `/`, and the C library's name.
//!
//! Invariant: everything that a file tells is read from the file.
#![expect(unsafe_code, reason = "system calls of the C library")]

mod file_cache;

use std::path::PathBuf;
use std::sync::LazyLock;

use siliconroute_core::chip::ListedAdapter;
use siliconroute_core::{ChipKind, Reading};

pub(crate) use self::file_cache::evict_from_file_cache;
pub(crate) use super::unix::{
    end_process_at_once, free_space_bytes, let_large_writes_fail, page_bytes, process_cpu_time_ns,
    resident_share, take_standard_output,
};
use crate::allowance::Allowance;
use crate::chips::{Adapter, Gap, listed};
use crate::conditions::{Conditions, ConditionsProbe, CpuTimes};
use crate::glance::Glance;
use crate::host::{HostFacts, HostProbe};
use crate::linux::{devices, memory};
use crate::roots::Roots;
use crate::vulkan::{VulkanDriver, VulkanProbe};

/// Kept, so that the threads that read drivers' files are not started anew each time.
static PROBE: LazyLock<ConditionsProbe> = LazyLock::new(|| ConditionsProbe::new(Roots::system()));

pub(crate) fn host_facts() -> HostFacts {
    HostProbe::new(Roots::system()).facts()
}

pub(crate) fn allowance(host: &HostFacts) -> Allowance {
    Allowance::below(&Roots::system(), host)
}

pub(crate) fn hold_thread_on(cpus: &[u32]) -> Reading<()> {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    let limit = 8 * size_of::<libc::cpu_set_t>();
    if cpus.is_empty() || cpus.iter().any(|cpu| *cpu as usize >= limit) {
        return Reading::unavailable(format!("{cpus:?} are no CPUs that a mask can name"));
    }
    for cpu in cpus {
        // SAFETY: a set of zeros is valid, and the number lies within it.
        unsafe { libc::CPU_SET(*cpu as usize, &mut *set.as_mut_ptr()) };
    }
    // SAFETY: the set is as large as the size stated; 0 stands for the calling thread.
    let status = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr()) };
    if status == 0 {
        return Reading::Available(());
    }
    let error = std::io::Error::last_os_error();
    Reading::unavailable(format!("the thread cannot be held on {cpus:?}: {error}"))
}

pub(crate) fn find_adapters(_cpu_name: Option<&str>) -> (Vec<Adapter>, Vec<Gap>) {
    devices::find_adapters(&Roots::system())
}

pub(crate) fn listed_adapters() -> Reading<Vec<ListedAdapter>> {
    Reading::Available(listed(find_adapters(None).0))
}

pub(crate) fn vulkan_drivers() -> Reading<Vec<VulkanDriver>> {
    VulkanProbe::new(Roots::system()).drivers()
}

pub(crate) fn conditions() -> Conditions {
    PROBE.snapshot()
}

pub(crate) fn glance() -> Glance {
    Glance::of(&PROBE)
}

pub(crate) fn process_resident_bytes(pid: u32) -> Reading<u64> {
    match page_bytes() {
        Reading::Available(page) => memory::resident_bytes(&Roots::system(), pid, page),
        Reading::Unavailable(reason) => Reading::Unavailable(reason),
    }
}

pub(crate) fn process_peak_resident_bytes(pid: u32) -> Reading<u64> {
    memory::peak_resident_bytes(&Roots::system(), pid)
}

/// The kernel takes a 5 as the wish to begin the count of this process's peak anew.
pub(crate) fn restart_peak_resident_bytes() -> Reading<()> {
    return_freed_memory();
    match std::fs::write("/proc/self/clear_refs", "5") {
        Ok(()) => Reading::Available(()),
        Err(error) => Reading::unavailable(format!("/proc/self/clear_refs cannot be written: {error}")),
    }
}

/// Gives memory back that was freed and that the C library keeps for later, which would count as held.
#[cfg(target_env = "gnu")]
fn return_freed_memory() {
    // SAFETY: the function takes no pointer and may be called by any thread at any time; whether it gave anything back
    // is all that it returns.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries have no call for it.
#[cfg(not(target_env = "gnu"))]
fn return_freed_memory() {}

pub(crate) fn cpu_times() -> CpuTimes {
    crate::linux::sensors::cpu_times(&Roots::system())
}

/// Linux's chips have files; what is missing is said file by file.
pub(crate) fn no_chip_sensors(kind: ChipKind) -> String {
    format!("no sensors of a {kind} below /sys")
}

/// The name under which the loader finds the library of NVIDIA's driver.
pub(super) fn nvidia_libraries() -> Vec<PathBuf> {
    vec!["libnvidia-ml.so.1".into()]
}

/// The C library that this program is linked with.
#[cfg(target_env = "gnu")]
pub(crate) fn libc() -> Option<String> {
    // SAFETY: the function returns a constant, NUL-terminated string that lives as long as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(format!("glibc {}", version.to_str().ok()?))
}

/// A static program carries its own C library, which says nothing about the machine's.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn libc() -> Option<String> {
    None
}

/// Raises this process in the kernel's order of ending processes when memory runs out.
pub(crate) fn prefer_ending_this_process() {
    // Without the file, or the right to write it, the kernel's own order stands.
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "600") {
        drop(error);
    }
}
