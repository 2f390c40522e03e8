//! Keeps a started process apart from the terminal's interrupts.
//!
//! Invariant: Ctrl-C reaches the program alone, which then ends in order what it has started; without this, a child
//! that dies first reads like one that failed.

use std::process::Command;

/// `CREATE_NEW_PROCESS_GROUP` of Windows' process creation flags.
#[cfg(windows)]
const NEW_PROCESS_GROUP: u32 = 0x0000_0200;

/// Gives the process that `command` starts a group of its own.
pub(crate) fn separate(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    std::os::windows::process::CommandExt::creation_flags(command, NEW_PROCESS_GROUP);
}
