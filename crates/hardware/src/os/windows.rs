//! Windows: system calls and the registry.
//!
//! Invariant: no call waits on a device without a time limit.
#![expect(unsafe_code, reason = "system calls of Windows")]

mod adapters;
mod conditions;
mod counters;
mod disk;
mod file_cache;
mod output;
mod processes;
mod query;
mod registry;
mod threads;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use siliconroute_core::{ChipKind, Reading};
use windows::Win32::System::SystemInformation::{
    GetLogicalProcessorInformationEx, GetNativeSystemInfo, GetSystemDirectoryW, GlobalMemoryStatusEx,
    MEMORYSTATUSEX, RelationAll, SYSTEM_INFO,
};

pub(crate) use self::adapters::{find_adapters, listed_adapters};
pub(crate) use self::conditions::{conditions, cpu_times, glance};
pub(crate) use self::counters::DeviceCounters;
pub(crate) use self::disk::free_space_bytes;
pub(crate) use self::file_cache::{evict_from_file_cache, resident_share};
pub(crate) use self::output::{end_process_at_once, let_large_writes_fail, take_standard_output};
pub(crate) use self::processes::{
    process_cpu_time_ns, process_peak_resident_bytes, process_resident_bytes, restart_peak_resident_bytes,
};
pub(crate) use self::threads::{allowance, hold_thread_on};
use crate::conditions::DriverVersion;
use crate::host::HostFacts;
use crate::processor::Processor;
use crate::vulkan::{VulkanDriver, parse_manifest};
use crate::windows_facts::HostAnswers;
use crate::windows_topology::{WindowsLayout, parse_layout};

const FOLDERS_KEY: &str = r"SOFTWARE\Microsoft\Windows\CurrentVersion";
/// The classes of display adapters and of their software components.
const DRIVER_CLASSES: [&str; 2] =
    ["{4d36e968-e325-11ce-bfc1-08002be10318}", "{5c4c3332-344d-483c-8739-259e934c9cc8}"];
/// Longer than the path of the system's folder may be.
const PATH_UNITS: usize = 512;
/// The answer of the largest machines has a few hundred kilobytes.
const LAYOUT_LIMIT_BYTES: u32 = 4 << 20;

pub(crate) fn host_facts() -> HostFacts {
    let answers = HostAnswers {
        processor: Processor::detect(),
        layout: read_layout(),
        groups: processes::processor_groups(),
        max_mhz: conditions::clocks().iter().map(|clock| (clock.cpu, clock.max_mhz)).collect(),
        ram_bytes: memory_status().map(|status| status.ullTotalPhys),
        page_bytes: page_bytes(),
    };
    answers.facts(&registry::LocalMachine)
}

fn read_layout() -> Reading<WindowsLayout> {
    let mut length = 0;
    // SAFETY: without a buffer the call only writes the length that it needs, and reports an error.
    let asked = unsafe { GetLogicalProcessorInformationEx(RelationAll, None, &raw mut length) };
    if asked.is_ok() || length == 0 || length > LAYOUT_LIMIT_BYTES {
        return Reading::unavailable(format!(
            "GetLogicalProcessorInformationEx wants {length} bytes, which cannot be"
        ));
    }
    // Whole 64-bit words, since the records hold pointers' worth of mask and are aligned so.
    let mut words = vec![0_u64; (length as usize).div_ceil(8)];
    // SAFETY: the buffer is aligned for the records and has at least the length passed in.
    let told = unsafe {
        GetLogicalProcessorInformationEx(RelationAll, Some(words.as_mut_ptr().cast()), &raw mut length)
    };
    if let Err(error) = told {
        return Reading::unavailable(format!("GetLogicalProcessorInformationEx failed: {error}"));
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(length as usize).collect();
    Reading::Available(parse_layout(&bytes))
}

/// Asked by one thread at a time: Wine answers zeros to whoever asks while the first answer is still being made.
pub(super) fn memory_status() -> Reading<MEMORYSTATUSEX> {
    static ASKING: Mutex<()> = Mutex::new(());
    let mut status =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..MEMORYSTATUSEX::default() };
    let _alone = ASKING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the structure states its own length, as the call requires.
    match unsafe { GlobalMemoryStatusEx(&raw mut status) } {
        Ok(()) => checked(status),
        Err(error) => Reading::unavailable(format!("GlobalMemoryStatusEx failed: {error}")),
    }
}

/// A machine without memory is no answer; its hardware id would be that of another machine.
fn checked(status: MEMORYSTATUSEX) -> Reading<MEMORYSTATUSEX> {
    Reading::from_option(
        Some(status).filter(|status| status.ullTotalPhys > 0),
        "GlobalMemoryStatusEx tells of no memory at all",
    )
}

pub(crate) fn page_bytes() -> Reading<u64> {
    let mut info = SYSTEM_INFO::default();
    // SAFETY: the call fills the structure and cannot fail.
    unsafe { GetNativeSystemInfo(&raw mut info) };
    Reading::from_option(
        Some(u64::from(info.dwPageSize)).filter(|bytes| *bytes > 0),
        "Windows tells no page size",
    )
}

/// Packages for Windows do not depend on a C library.
pub(crate) fn libc() -> Option<String> {
    None
}

/// The keys of a class of devices. Windows numbers them, with gaps, and keeps keys of other names beside them.
fn class_entries(class: &str) -> impl Iterator<Item = String> {
    let class = format!(r"SYSTEM\CurrentControlSet\Control\Class\{class}");
    let names = registry::names(&class).into_iter();
    let names = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    names.map(move |name| format!(r"{class}\{name}"))
}

/// The drivers of the GPUs and NPUs that are installed, each once.
fn driver_versions() -> Reading<Vec<DriverVersion>> {
    let mut drivers: Vec<DriverVersion> = Vec::new();
    for class in [DRIVER_CLASSES[0], adapters::ACCELERATOR_CLASS] {
        for key in class_entries(class) {
            let named = registry::text(&key, "DriverDesc").zip(registry::text(&key, "DriverVersion"));
            drivers.extend(named.map(|(driver, version)| DriverVersion { driver, version }));
        }
    }
    drivers.sort();
    drivers.dedup();
    Reading::Available(drivers)
}

/// The library of NVIDIA's driver by its full path, so that no other of its name is loaded: since 2018 it lies beside
/// the system's own, before that in a folder of its own.
pub(super) fn nvidia_libraries() -> Vec<PathBuf> {
    let mut units = vec![0_u16; PATH_UNITS];
    // SAFETY: the call writes at most the length of the buffer.
    let length = unsafe { GetSystemDirectoryW(Some(&mut units)) } as usize;
    let folder = units.get(..length).filter(|units| !units.is_empty()).map(String::from_utf16_lossy);
    // Where Windows does not say, it is where Windows lies unless someone has moved it.
    let system = PathBuf::from(folder.unwrap_or_else(|| r"C:\Windows\System32".to_owned()));
    let programs = registry::text(FOLDERS_KEY, "ProgramFilesDir").map(PathBuf::from);
    let older = programs.map(|folder| folder.join(r"NVIDIA Corporation\NVSMI"));
    [Some(system), older].into_iter().flatten().map(|folder| folder.join("nvml.dll")).collect()
}

/// What the performance counters leave out.
pub(crate) fn no_chip_sensors(kind: ChipKind) -> String {
    format!("Windows counts the load and the memory of a {kind}, and tells programs no more of it")
}

pub(crate) fn vulkan_drivers() -> Reading<Vec<VulkanDriver>> {
    let mut drivers: Vec<VulkanDriver> = Vec::new();
    for class in DRIVER_CLASSES {
        for key in class_entries(class) {
            let Some(path) = registry::text(&key, "VulkanDriverName") else { continue };
            let manifest = std::path::Path::new(&path);
            let name = manifest.file_name().and_then(|name| name.to_str()).unwrap_or(&path);
            let Reading::Available(text) = crate::roots::read_text(manifest) else { continue };
            let Some(mut driver) = parse_manifest(name, &text) else { continue };
            let library = manifest.parent().map(|folder| folder.join(&driver.library));
            driver.installed = library.is_some_and(|library| library.exists());
            if !drivers.contains(&driver) {
                drivers.push(driver);
            }
        }
    }
    drivers.sort_by(|a, b| a.name.cmp(&b.name));
    if drivers.is_empty() {
        return Reading::unavailable("no display driver in the registry names a Vulkan driver");
    }
    Reading::Available(drivers)
}

/// Windows has no such order that a program may change.
pub(crate) fn prefer_ending_this_process() {}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_who_ask_at_once_are_told_the_same_memory() {
        // Wine keeps an answer for a second.
        thread::sleep(Duration::from_millis(1100));
        let together = Barrier::new(8);
        let ask = || {
            together.wait();
            memory_status().map(|status| status.ullTotalPhys)
        };
        let told: Vec<Reading<u64>> = thread::scope(|scope| {
            let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asking.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(matches!(told[0], Reading::Available(bytes) if bytes > 0), "{told:?}");
        assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    }

    #[test]
    fn no_memory_at_all_is_no_answer() {
        assert!(matches!(checked(MEMORYSTATUSEX::default()), Reading::Unavailable(_)));
    }
}
