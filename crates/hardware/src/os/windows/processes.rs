//! Memory, time and affinity of processes.
//!
//! Invariant: every opened handle is closed again.

use siliconroute_core::Reading;
use windows::Win32::Foundation::{FILETIME, HANDLE};
use windows::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows::Win32::System::Threading::{
    GetActiveProcessorCount, GetActiveProcessorGroupCount, GetCurrentProcess, GetProcessAffinityMask,
    GetProcessGroupAffinity, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
};
use windows::core::Owned;

use crate::windows_facts::ProcessorGroups;

/// More groups than Windows makes of the processors of one machine.
const GROUP_LIMIT: usize = 64;

/// The clock of process times ticks in steps of 100 ns.
pub(super) const NS_PER_TICK: u64 = 100;

pub(crate) fn process_resident_bytes(pid: u32) -> Reading<u64> {
    memory(pid).map(|memory| memory.WorkingSetSize as u64)
}

pub(crate) fn restart_peak_resident_bytes() -> Reading<()> {
    Reading::unavailable("Windows counts the peak over the whole life of a process")
}

pub(crate) fn process_peak_resident_bytes(pid: u32) -> Reading<u64> {
    memory(pid).map(|memory| memory.PeakWorkingSetSize as u64)
}

fn memory(pid: u32) -> Reading<PROCESS_MEMORY_COUNTERS> {
    // SAFETY: the call takes numbers only.
    let opened = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, false, pid) };
    let process = match opened {
        // SAFETY: the handle was just opened and nothing else owns it.
        Ok(handle) => unsafe { Owned::new(handle) },
        Err(error) => return Reading::unavailable(format!("process {pid} cannot be opened: {error}")),
    };
    let mut counters = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle is open, and the structure has the size stated.
    if unsafe { K32GetProcessMemoryInfo(*process, &raw mut counters, size) }.as_bool() {
        Reading::Available(counters)
    } else {
        let error = std::io::Error::last_os_error();
        Reading::unavailable(format!("memory of process {pid} cannot be read: {error}"))
    }
}

pub(crate) fn process_cpu_time_ns() -> Reading<u64> {
    let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the four structures are written once each.
    let asked = unsafe {
        GetProcessTimes(own_process(), &raw mut created, &raw mut exited, &raw mut kernel, &raw mut user)
    };
    match asked {
        Ok(()) => Reading::Available(ticks(kernel).saturating_add(ticks(user)).saturating_mul(NS_PER_TICK)),
        Err(error) => Reading::unavailable(format!("GetProcessTimes failed: {error}")),
    }
}

/// The groups of processors, and what of them this process may use.
pub(super) fn processor_groups() -> ProcessorGroups {
    let (mut own, mut group) = (0_usize, 0_usize);
    // SAFETY: the two masks are written once each.
    let asked = unsafe { GetProcessAffinityMask(own_process(), &raw mut own, &raw mut group) };
    let mut groups = [0_u16; GROUP_LIMIT];
    let mut count = GROUP_LIMIT as u16;
    // SAFETY: the list has room for the count stated.
    let told = unsafe { GetProcessGroupAffinity(own_process(), &raw mut count, groups.as_mut_ptr()) };
    let count = if told.as_bool() { usize::from(count) } else { 0 };
    // SAFETY: the call only reads a count.
    let all = unsafe { GetActiveProcessorGroupCount() };
    // SAFETY: as above.
    let active = (0..all).map(|group| unsafe { GetActiveProcessorCount(group) }).collect();
    ProcessorGroups {
        masks: asked.is_ok().then_some((own as u64, group as u64)),
        own: groups.into_iter().take(count).collect(),
        active,
    }
}

fn own_process() -> HANDLE {
    // SAFETY: the call returns a constant that stands for the calling process and needs no closing.
    unsafe { GetCurrentProcess() }
}

pub(super) fn ticks(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}
