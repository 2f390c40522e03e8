//! Memory and CPU time of processes, for the watch over workers.
//!
//! Invariant: a process that cannot be read is a reason, so a watch never mistakes it for an empty one.

use siliconroute_core::Reading;

/// The memory of process `pid` that is resident now, in bytes.
pub fn process_resident_bytes(pid: u32) -> Reading<u64> {
    crate::os::process_resident_bytes(pid)
}

/// The most memory of process `pid` that was ever resident, in bytes.
///
/// On macOS this is the largest footprint, which also counts compressed pages.
pub fn process_peak_resident_bytes(pid: u32) -> Reading<u64> {
    crate::os::process_peak_resident_bytes(pid)
}

/// Begins the count of [`process_peak_resident_bytes`] anew for this process, at what it holds now; memory that it has
/// freed goes back to the system first.
///
/// Only Linux can do that.
pub fn restart_peak_resident_bytes() -> Reading<()> {
    crate::os::restart_peak_resident_bytes()
}

/// The CPU time of this process so far, in programs and in the kernel, over all threads.
pub fn process_cpu_time_ns() -> Reading<u64> {
    crate::os::process_cpu_time_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_has_memory_and_time() {
        let pid = std::process::id();
        let resident = *process_resident_bytes(pid).available().unwrap();
        let peak = *process_peak_resident_bytes(pid).available().unwrap();
        assert!(resident > 0 && peak > 0);
        assert!(process_cpu_time_ns().available().is_some());
    }

    #[test]
    fn a_peak_that_begins_anew_forgets_what_was_held_before() {
        let pid = std::process::id();
        let peak = || *process_peak_resident_bytes(pid).available().unwrap();
        // Far more than other tests of this process hold meanwhile.
        drop(std::hint::black_box(vec![1_u8; 128 << 20]));
        let before = peak();
        match restart_peak_resident_bytes() {
            Reading::Available(()) => assert!(peak() < before, "{} is not below {before}", peak()),
            Reading::Unavailable(_) => assert!(peak() >= before),
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_a_reason() {
        assert!(process_resident_bytes(u32::MAX - 1).available().is_none());
        assert!(process_peak_resident_bytes(u32::MAX - 1).available().is_none());
    }
}
