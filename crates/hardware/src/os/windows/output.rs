//! Standard output and the end of a worker process.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle as _, AsRawHandle as _};

use windows::Win32::Foundation::HANDLE;
use windows::Win32::System::Console::{STD_OUTPUT_HANDLE, SetStdHandle};
use windows::Win32::System::Threading::{GetCurrentProcess, TerminateProcess};

/// Duplicates standard output for the caller and points the process's handle at the error output.
///
/// A C library that fetched the handle before keeps it; what it prints then shows as a message that is none.
pub(crate) fn take_standard_output() -> io::Result<File> {
    let private = io::stdout().as_handle().try_clone_to_owned()?;
    let error_output = HANDLE(io::stderr().as_raw_handle());
    // SAFETY: the handle is the process's open error output.
    unsafe { SetStdHandle(STD_OUTPUT_HANDLE, error_output) }.map_err(io::Error::other)?;
    Ok(File::from(private))
}

/// Files have no limit of their own on this system.
pub(crate) fn let_large_writes_fail() {}

/// Ends the process without destructors, which could wait for a thread that is inside of an inference.
pub(crate) fn end_process_at_once() -> ! {
    // SAFETY: the pseudo handle of the own process is always valid.
    let ended = unsafe { TerminateProcess(GetCurrentProcess(), 0) };
    drop(ended);
    std::process::abort()
}
