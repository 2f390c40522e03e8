//! Runs a program under watch.
//!
//! Invariant: when `run` returns, the program has ended. Its messages come through a pipe and not a file,
//! because a full disk is one of the things it complains about; a grandchild that keeps the pipe open delays
//! nothing for longer than `LAST_WORDS`.

use std::io::{self, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::process_group::separate;

/// How often the program is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the messages of an ended program may take to arrive.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of the messages' end is kept, in bytes.
const KEPT_BYTES: usize = 64 << 10;

/// How a program ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Whether its exit code was 0.
    pub(super) success: bool,
    /// The end of what it wrote to standard error.
    pub(super) messages: String,
}

/// Why a program has no outcome.
#[derive(Debug)]
pub(super) enum RunError {
    /// It cannot be started, or its end cannot be seen.
    Io(io::Error),
    /// It was ended because it took too long.
    TimedOut,
    /// It was ended because the caller asked for it.
    Cancelled,
}

/// Runs `command` to its end, calling `look` now and then; ends it when `look` returns true.
pub(super) fn run(
    command: &mut Command,
    deadline: Duration,
    look: &mut dyn FnMut() -> bool,
) -> Result<Outcome, RunError> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // In a group of its own, pip can also be ended together with whatever it started.
    separate(command);
    let mut child = command.spawn().map_err(RunError::Io)?;
    let chunks = child.stderr.take().map(listen);
    let mut messages = Vec::new();
    let status = loop {
        keep_messages(chunks.as_ref(), &mut messages, Duration::ZERO);
        let over = match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if look() => RunError::Cancelled,
            Ok(None) if started.elapsed() > deadline => RunError::TimedOut,
            Ok(None) => {
                std::thread::sleep(LOOK);
                continue;
            }
            Err(error) => RunError::Io(error),
        };
        end(&mut child);
        return Err(over);
    };
    keep_messages(chunks.as_ref(), &mut messages, LAST_WORDS);
    Ok(Outcome { success: status.success(), messages: String::from_utf8_lossy(&messages).into_owned() })
}

/// Reads a pipe on a thread of its own until its last writer closes it.
fn listen(mut pipe: ChildStderr) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 8 << 10];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            if sender.send(buffer[..read].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Adds what has come and what comes within `patience` to `messages`, and keeps their end.
fn keep_messages(chunks: Option<&Receiver<Vec<u8>>>, messages: &mut Vec<u8>, patience: Duration) {
    let started = Instant::now();
    while let Some(chunks) = chunks {
        match chunks.recv_timeout(patience.saturating_sub(started.elapsed())) {
            Ok(chunk) => messages.extend(chunk),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
        let surplus = messages.len().saturating_sub(KEPT_BYTES);
        messages.drain(..surplus);
    }
}

/// Ends the program, and on Unix its group.
fn end(child: &mut Child) {
    #[cfg(unix)]
    {
        let group = rustix::process::Pid::from_child(child);
        if let Err(error) = rustix::process::kill_process_group(group, rustix::process::Signal::KILL) {
            tracing::debug!(%error, "the process group is gone already");
        }
    }
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::warn!(%error, "cannot end a program");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Outcome, RunError> {
        run(Command::new("/bin/sh").args(["-c", script]), Duration::from_mins(10), &mut || false)
    }

    #[test]
    fn keeps_the_end_of_many_messages() {
        let outcome = shell("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done").unwrap();
        assert!(outcome.success);
        assert_eq!(outcome.messages.len(), KEPT_BYTES);
        assert!(outcome.messages.ends_with("line 19999\n"));
    }

    #[test]
    fn a_grandchild_that_lives_on_is_not_waited_for() {
        let outcome = shell("sleep 30 & echo left a child behind >&2; exit 3").unwrap();
        assert!(!outcome.success);
        assert_eq!(outcome.messages, "left a child behind\n");
    }
}
