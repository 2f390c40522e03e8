//! Where the calling thread runs.
//!
//! Invariant: only processors of the first group are asked for, since a mask names those of one group.

use siliconroute_core::Reading;
use windows::Win32::System::Threading::{GetCurrentThread, SetThreadAffinityMask};

use super::processes::processor_groups;
use crate::allowance::{Allowance, assemble};
use crate::host::HostFacts;

const MANY_GROUPS: &str = "the processors are in several groups, of which a thread's mask names one";

pub(crate) fn allowance(host: &HostFacts) -> Allowance {
    let groups = processor_groups();
    let one_group = groups.active.len() == 1;
    let own = groups.masks.map(|(own, _)| own).filter(|own| one_group && *own != 0);
    let allowed: Option<Vec<u32>> = own.map(|own| (0..u64::BITS).filter(|cpu| own >> cpu & 1 == 1).collect());
    Allowance {
        // Windows puts threads on free cores before it fills the second thread of one.
        clusters: assemble(host, allowed.as_deref(), |cpu| (0, cpu)),
        quota_cpus: host.usable_cores.clone().map(Some),
        cannot_hold: (!one_group).then(|| MANY_GROUPS.to_owned()),
    }
}

pub(crate) fn hold_thread_on(cpus: &[u32]) -> Reading<()> {
    let mask = cpus.iter().try_fold(0_usize, |mask, cpu| Some(mask | 1_usize.checked_shl(*cpu)?));
    let Some(mask) = mask.filter(|mask| *mask != 0) else {
        return Reading::unavailable(format!("{cpus:?} are no processors that a mask can name"));
    };
    // SAFETY: the first call returns a constant that stands for the calling thread; the second one takes numbers only.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) };
    if before == 0 {
        let error = std::io::Error::last_os_error();
        return Reading::unavailable(format!("the thread cannot be held on {cpus:?}: {error}"));
    }
    Reading::Available(())
}
