//! System calls that Linux and macOS share.
//!
//! Invariant: every call gets memory of the size that its type says.
#![expect(unsafe_code, reason = "system calls of the C library")]

pub(super) mod file_pages;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use siliconroute_core::Reading;

pub(crate) use self::file_pages::resident_share;

/// The size of a memory page.
pub(crate) fn page_bytes() -> Reading<u64> {
    // SAFETY: sysconf reads a constant of the system and touches no memory of the caller.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Reading::from_option(u64::try_from(bytes).ok().filter(|bytes| *bytes > 0), "sysconf tells no page size")
}

/// The CPU time of this process.
pub(crate) fn process_cpu_time_ns() -> Reading<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage, to memory of that size.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return Reading::unavailable(format!("getrusage failed: {}", io::Error::last_os_error()));
    }
    // SAFETY: the memory was zeroed, which is a valid rusage, and then written.
    let usage = unsafe { usage.assume_init() };
    let spent = |time: libc::timeval| {
        // 32-bit systems hold the parts in other widths.
        let (seconds, microseconds) = (i128::from(time.tv_sec), i128::from(time.tv_usec));
        seconds * 1_000_000_000 + microseconds * 1000
    };
    let total = spent(usage.ru_utime) + spent(usage.ru_stime);
    Reading::from_option(u64::try_from(total).ok(), "getrusage told a negative time")
}

/// The bytes that this user may still write on the disk that holds `path`.
pub(crate) fn free_space_bytes(path: &Path) -> Reading<u64> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return Reading::unavailable("the path holds a NUL character");
    };
    let mut disk = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the name ends in NUL, and statvfs writes one statvfs, to memory of that size.
    let status = unsafe { libc::statvfs(name.as_ptr(), disk.as_mut_ptr()) };
    if status != 0 {
        return Reading::unavailable(format!("statvfs failed: {}", io::Error::last_os_error()));
    }
    // SAFETY: the memory was zeroed, which is a valid statvfs, and then written.
    let disk = unsafe { disk.assume_init() };
    // The widths of the fields differ by system.
    let bytes = u128::from(disk.f_bavail) * u128::from(disk.f_frsize);
    Reading::Available(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Duplicates standard output for the caller and points the original at the error output.
pub(crate) fn take_standard_output() -> io::Result<File> {
    let private = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both are open descriptors of this process; dup2 replaces one by a copy of the other.
    let status = unsafe { libc::dup2(io::stderr().as_raw_fd(), io::stdout().as_raw_fd()) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(private)) }
}

/// Lets a write beyond the limit on the size of files fail, where the system would end the process.
pub(crate) fn let_large_writes_fail() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Ends the process without destructors, which could wait for a thread that is inside of an inference.
pub(crate) fn end_process_at_once() -> ! {
    // SAFETY: the call takes a number, touches no memory and does not return.
    unsafe { libc::_exit(0) }
}
