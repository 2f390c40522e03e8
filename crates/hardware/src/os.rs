//! The running system's own calls, one module for each system, all with the same functions.
//!
//! Invariant: these modules hold every unsafe system call of the project and no arithmetic; what the
//! system answers is interpreted by pure functions that run everywhere.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;
#[cfg(windows)]
pub(crate) use windows::*;

#[cfg(unix)]
mod unix;

#[cfg(not(target_os = "macos"))]
mod nvidia;
#[cfg(target_os = "macos")]
#[path = "os/no_nvidia.rs"]
mod nvidia;

pub(crate) use nvidia::Nvidia;

#[cfg(target_os = "linux")]
mod no_counters;
#[cfg(target_os = "linux")]
pub(crate) use no_counters::DeviceCounters;

#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
compile_error!("siliconroute runs on Linux, Windows and macOS");
