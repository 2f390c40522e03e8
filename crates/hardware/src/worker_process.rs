//! What a worker process asks of the system: a private way to its parent, and to be ended first.
//!
//! Invariant: after [`take_standard_output`] nothing that a library prints can reach the parent's pipe.

use std::fs::File;
use std::io;

/// Takes standard output for the caller alone; whatever else is printed goes to the error output.
///
/// # Errors
/// When the system refuses to duplicate or redirect it.
pub fn take_standard_output() -> io::Result<File> {
    crate::os::take_standard_output()
}

/// Asks the system to end this process before others when memory runs out; where it cannot be asked, nothing changes.
pub fn prepare_worker_process() {
    crate::os::prefer_ending_this_process();
}

/// Lets writes beyond the limit on the size of files (`ulimit -f`) fail with an error, in this process and in those that it starts.
///
/// Where nobody asks for that, such a write ends the process without a word.
pub fn let_large_writes_fail() {
    crate::os::let_large_writes_fail();
}

/// Ends this process at once, without running the destructors of the libraries that it has loaded.
pub fn end_process_at_once() -> ! {
    crate::os::end_process_at_once()
}
