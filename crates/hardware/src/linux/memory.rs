//! Memory of a process from `/proc/<pid>`.
//!
//! Invariant: a process that has gone is a reason, not zero bytes.

use siliconroute_core::Reading;

use super::limits::kibibyte_field;
use crate::roots::{Roots, read_value};

/// The resident memory of `pid` now.
pub(crate) fn resident_bytes(roots: &Roots, pid: u32, page_bytes: u64) -> Reading<u64> {
    read_value(&roots.proc.join(pid.to_string()).join("statm"), "page counts", |text| {
        text.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(page_bytes)
    })
}

/// The most memory of `pid` that was ever resident.
pub(crate) fn peak_resident_bytes(roots: &Roots, pid: u32) -> Reading<u64> {
    // A process that has ended and waits for its parent has this file, but no memory lines in it.
    read_value(&roots.proc.join(pid.to_string()).join("status"), "a line VmHWM", |text| {
        kibibyte_field(text, "VmHWM")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    #[test]
    fn reads_resident_and_peak_memory() {
        let tree = Tree::new()
            .file("proc/42/statm", "1000 250 100 5 0 200 0\n")
            .file("proc/42/status", "Name:\tworker\nVmPeak:\t  9000 kB\nVmHWM:\t  2048 kB\n")
            .file("proc/43/status", "Name:\tworker\nState:\tZ (zombie)\n")
            .file("proc/44/statm", "1000 18446744073709551615\n");
        let roots = tree.roots();
        assert_eq!(resident_bytes(&roots, 42, 4096), Reading::Available(250 * 4096));
        assert_eq!(peak_resident_bytes(&roots, 42), Reading::Available(2048 * 1024));
        assert!(peak_resident_bytes(&roots, 43).available().is_none());
        assert!(resident_bytes(&roots, 44, 4096).available().is_none());
        assert!(resident_bytes(&roots, 45, 4096).available().is_none());
    }
}
