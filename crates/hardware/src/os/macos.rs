//! macOS: `sysctl`, Mach's host statistics, the I/O registry and the power manager.
//!
//! Invariant: every answer's length is checked before it is used, no program is started, and no call waits on a device
//! without a time limit.
#![expect(unsafe_code, reason = "system calls of macOS")]

mod counters;
mod power;
mod registry;

use std::ffi::CString;
use std::path::Path;

use siliconroute_core::chip::ListedAdapter;
use siliconroute_core::{ChipKind, Reading};

pub(crate) use self::counters::DeviceCounters;
pub(crate) use super::unix::{
    end_process_at_once, free_space_bytes, let_large_writes_fail, page_bytes, process_cpu_time_ns,
    resident_share, take_standard_output,
};
use crate::allowance::{Allowance, assemble};
use crate::chips::{Adapter, Gap, listed};
use crate::conditions::{Conditions, CpuTimes, Throttling};
use crate::file_cache::FileCache;
use crate::glance::Glance;
use crate::host::HostFacts;
use crate::macos_facts::read_topology;
use crate::processor::{Processor, clean_spaces};
use crate::roots::Roots;
use crate::vulkan::{VulkanDriver, VulkanProbe};

/// Longer than any text that is asked for here.
const TEXT_BYTES: usize = 1024;
const ADMINISTRATORS_ONLY: &str = "macOS tells the temperature to administrators only";
const NOT_HELD: &str = "macOS places threads itself";
/// The clock of Mach's load counters.
const NS_PER_TICK: u64 = 10_000_000;

pub(crate) fn host_facts() -> HostFacts {
    let processor = Processor::detect();
    let (clusters, caches) = read_topology(&number);
    let count = |name: &str| number(name).and_then(|value| u32::try_from(value).ok());
    let logical_cores = count("hw.logicalcpu").unwrap_or(1).max(1);
    let apple = is_apple_silicon().then(|| "Apple".to_owned());
    let hypervisor = match processor.hypervisor {
        Reading::Available(Some(name)) => Reading::Available(Some(name)),
        _ => Reading::from_option(
            number("kern.hv_vmm_present").map(|present| (present != 0).then(|| "unnamed".to_owned())),
            "sysctl has no kern.hv_vmm_present",
        ),
    };
    HostFacts {
        cpu_name: read_name("machdep.cpu.brand_string"),
        cpu_vendor: match apple {
            Some(apple) => Reading::Available(apple),
            None => processor.vendor,
        },
        architecture: processor.architecture,
        vector_extensions: processor.vector_extensions,
        logical_cores,
        usable_cores: Reading::Available(f64::from(logical_cores)),
        physical_cores: Reading::from_option(count("hw.physicalcpu"), "sysctl has no hw.physicalcpu"),
        clusters,
        caches,
        ram_bytes: Reading::from_option(number("hw.memsize"), "sysctl has no hw.memsize"),
        page_bytes: page_bytes(),
        huge_pages: Reading::unavailable("macOS has no transparent huge pages"),
        os: "macos".to_owned(),
        os_version: read_name("kern.osproductversion").map(|version| format!("macOS {version}")),
        kernel_version: read_name("kern.osrelease"),
        virtual_machine: hypervisor,
        container: None,
        libc: None,
    }
}

pub(crate) fn allowance(host: &HostFacts) -> Allowance {
    Allowance {
        clusters: assemble(host, None, |cpu| (0, cpu)),
        quota_cpus: Reading::Available(None),
        cannot_hold: Some(NOT_HELD.to_owned()),
    }
}

pub(crate) fn hold_thread_on(_cpus: &[u32]) -> Reading<()> {
    Reading::unavailable(NOT_HELD)
}

fn is_apple_silicon() -> bool {
    number("hw.optional.arm64") == Some(1)
}

pub(crate) fn find_adapters(cpu_name: Option<&str>) -> (Vec<Adapter>, Vec<Gap>) {
    crate::macos_facts::find_adapters(is_apple_silicon(), cpu_name)
}

pub(crate) fn listed_adapters() -> Reading<Vec<ListedAdapter>> {
    Reading::Available(listed(find_adapters(None).0))
}

pub(crate) fn vulkan_drivers() -> Reading<Vec<VulkanDriver>> {
    VulkanProbe::new(Roots::system()).drivers()
}

/// Packages for macOS do not depend on a C library.
pub(crate) fn libc() -> Option<String> {
    None
}

pub(crate) fn conditions() -> Conditions {
    let power = power::answers();
    Conditions {
        power_source: power.clone().and_then(|power| power.power_source()),
        battery_percent: power.clone().and_then(|power| power.battery_percent()),
        battery_discharge_watts: power.clone().and_then(|power| power.battery_discharge_watts()),
        battery_left_ns: power.and_then(|power| power.battery_left_ns()),
        power_mode: Reading::unavailable(NO_POWER_MODE),
        power_profile: power::profile(),
        governor: Reading::unavailable("macOS has no clock governors"),
        cpu_mhz: Reading::unavailable("macOS tells no clock"),
        cpu_clocks: Reading::unavailable("macOS tells no clock"),
        cpu_temperature_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        temperatures_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        throttling: Throttling {
            thermal_state: power::heat(),
            ..Throttling::unavailable("macOS counts no throttling")
        },
        load_average_1m: load_average(),
        uptime_ns: uptime_ns(),
        cpu_times: cpu_times(),
        free_memory_bytes: free_memory_bytes(),
        microcode: Reading::from_option(
            number("machdep.cpu.microcode_version").map(|version| format!("{version:#x}")),
            "sysctl has no machdep.cpu.microcode_version",
        ),
        os_version: read_name("kern.osproductversion").map(|version| format!("macOS {version}")),
        kernel_version: read_name("kern.osrelease"),
        drivers: Reading::unavailable("the drivers of Apple's chips are parts of macOS, without versions"),
    }
}

const NO_POWER_MODE: &str = "macOS has no power mode beside Low Power Mode";

pub(crate) fn glance() -> Glance {
    Glance {
        power_source: power::source(),
        power_profile: power::profile(),
        power_mode: Reading::unavailable(NO_POWER_MODE),
        governor: Reading::unavailable("macOS has no clock governors"),
        cpu_mhz: Reading::unavailable("macOS tells no clock"),
        cpu_temperature_celsius: Reading::unavailable(ADMINISTRATORS_ONLY),
        cpu_times: cpu_times(),
        free_memory_bytes: free_memory_bytes(),
    }
}

pub(crate) fn restart_peak_resident_bytes() -> Reading<()> {
    Reading::unavailable("macOS counts the peak over the whole life of a process")
}

/// Sensors that `powermetrics` shows, which only administrators may run.
pub(crate) fn no_chip_sensors(kind: ChipKind) -> String {
    let what = match kind {
        // Its load and its memory are in the registry.
        ChipKind::Gpu => "the power, the temperature and the clock",
        ChipKind::Cpu | ChipKind::Npu => "the load and the power",
    };
    format!("macOS tells {what} of a {kind} to administrators only")
}

pub(crate) fn evict_from_file_cache(_path: &Path) -> Reading<FileCache> {
    Reading::unavailable("macOS drops cached files for administrators only, and all at once")
}

/// The time since the system started, sleep left out.
fn uptime_ns() -> Reading<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one structure of this type.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_UPTIME_RAW, &raw mut time) };
    let ns = u64::try_from(time.tv_sec).ok().zip(u64::try_from(time.tv_nsec).ok());
    let ns = ns.filter(|_| status == 0).and_then(|(s, ns)| s.checked_mul(1_000_000_000)?.checked_add(ns));
    Reading::from_option(ns, "clock_gettime failed")
}

fn load_average() -> Reading<f64> {
    let mut loads = [0.0; 1];
    // SAFETY: the call writes at most the one number that is asked for.
    let written = unsafe { libc::getloadavg(loads.as_mut_ptr(), 1) };
    Reading::from_option((written == 1).then_some(loads[0]), "getloadavg failed")
}

#[expect(deprecated, reason = "the replacement is another crate, for this one constant")]
fn host_port() -> libc::mach_port_t {
    // SAFETY: the call returns the port of the host, which is never given back.
    unsafe { libc::mach_host_self() }
}

pub(crate) fn cpu_times() -> CpuTimes {
    let mut ticks = [0_u32; libc::CPU_STATE_MAX as usize];
    let mut count = libc::HOST_CPU_LOAD_INFO_COUNT;
    // SAFETY: the memory has the count of words stated.
    let status = unsafe {
        libc::host_statistics(
            host_port(),
            libc::HOST_CPU_LOAD_INFO,
            ticks.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    let time = |states: &[i32]| {
        if status != libc::KERN_SUCCESS {
            return Reading::unavailable(format!("host_statistics failed with {status}"));
        }
        let ticks = states.iter().filter_map(|state| ticks.get(usize::try_from(*state).ok()?));
        Reading::Available(ticks.map(|ticks| u64::from(*ticks)).sum::<u64>().saturating_mul(NS_PER_TICK))
    };
    CpuTimes {
        user_ns: time(&[libc::CPU_STATE_USER, libc::CPU_STATE_NICE]),
        system_ns: time(&[libc::CPU_STATE_SYSTEM]),
        idle_ns: time(&[libc::CPU_STATE_IDLE]),
        steal_ns: Reading::unavailable("macOS counts no steal time"),
    }
}

/// Free, inactive, speculative and purgeable pages: what the system gives out without swapping.
fn free_memory_bytes() -> Reading<u64> {
    let mut statistics = std::mem::MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut count = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: the memory has the count of words stated.
    let status = unsafe {
        libc::host_statistics64(
            host_port(),
            libc::HOST_VM_INFO64,
            statistics.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    if status != libc::KERN_SUCCESS {
        return Reading::unavailable(format!("host_statistics64 failed with {status}"));
    }
    // SAFETY: zeroes are a valid value, and the call wrote over them.
    let statistics = unsafe { statistics.assume_init() };
    // The count of free pages holds the speculative ones already.
    let pages = [statistics.free_count, statistics.inactive_count, statistics.purgeable_count];
    let pages: u64 = pages.iter().map(|pages| u64::from(*pages)).sum();
    page_bytes().map(|page| pages.saturating_mul(page))
}

pub(crate) fn process_resident_bytes(pid: u32) -> Reading<u64> {
    usage(pid).map(|usage| usage.ri_resident_size)
}

pub(crate) fn process_peak_resident_bytes(pid: u32) -> Reading<u64> {
    usage(pid).map(|usage| usage.ri_lifetime_max_phys_footprint)
}

fn usage(pid: u32) -> Reading<libc::rusage_info_v4> {
    let Ok(id) = libc::pid_t::try_from(pid) else {
        return Reading::unavailable(format!("{pid} is no id of a process"));
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage_info_v4>::zeroed();
    // SAFETY: the memory is of the type that the flavour names.
    let status = unsafe { libc::proc_pid_rusage(id, libc::RUSAGE_INFO_V4, usage.as_mut_ptr().cast()) };
    if status != 0 {
        let error = std::io::Error::last_os_error();
        return Reading::unavailable(format!("memory of process {pid} cannot be read: {error}"));
    }
    // SAFETY: zeroes are a valid value, and the call wrote over them.
    Reading::Available(unsafe { usage.assume_init() })
}

/// A number of four or eight bytes.
fn number(name: &str) -> Option<u64> {
    let mut bytes = [0_u8; 8];
    match ask(name, &mut bytes)? {
        4 => Some(u64::from(u32::from_ne_bytes(bytes[..4].try_into().ok()?))),
        8 => Some(u64::from_ne_bytes(bytes)),
        _ => None,
    }
}

fn read_name(name: &str) -> Reading<String> {
    let mut bytes = [0_u8; TEXT_BYTES];
    let text = ask(name, &mut bytes)
        .and_then(|length| bytes.get(..length))
        .and_then(|bytes| clean_spaces(&String::from_utf8_lossy(bytes)));
    Reading::from_option(text, &format!("sysctl has no {name}"))
}

/// Writes the answer for `name` into `buffer` and returns its length.
fn ask(name: &str, buffer: &mut [u8]) -> Option<usize> {
    let name = CString::new(name).ok()?;
    let mut length = buffer.len();
    // SAFETY: the name ends with a NUL, and the call writes at most `length` bytes to the buffer.
    let status = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    (status == 0).then_some(length)
}

/// macOS has no such order that a program may change.
pub(crate) fn prefer_ending_this_process() {}
