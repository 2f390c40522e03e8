//! A command that runs on while a test does something else.
//!
//! Invariant: one that never ends is ended, with the processes that it has started.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::program::{MODEL, Sandbox};

/// So many samples that only an interrupt ends them.
pub(crate) const ENDLESS: &[&str] = &["bench", "-m", MODEL, "--json", "--iterations", "4000000000"];

/// A running command whose messages are read as they come.
pub(crate) struct Running {
    pub(crate) child: Child,
    messages: BufReader<std::process::ChildStderr>,
    seen: String,
    /// Tells the watch over a command that never ends that this one has.
    _over: Sender<()>,
}

/// A command that takes longer has lost its way.
const PATIENCE: Duration = Duration::from_mins(4);

/// Sends a signal to a process group.
#[cfg(unix)]
fn signal(name: &str, group: u32) -> bool {
    let group = format!("-{group}");
    let sent = Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", name, &group]).status();
    sent.unwrap().success()
}

/// Ends a process and those that it has started.
fn end_all(process: u32) {
    #[cfg(unix)]
    signal("KILL", process);
    #[cfg(windows)]
    Command::new("taskkill").args(["/F", "/T", "/PID", &process.to_string()]).status().unwrap();
}

impl Running {
    /// Starts a command in a process group of its own, as a shell does.
    pub(crate) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let mut command = sandbox.command(arguments);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        let (over, watched) = mpsc::channel();
        let process = child.id();
        std::thread::spawn(move || {
            if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                end_all(process);
            }
        });
        Self { child, messages, seen: String::new(), _over: over }
    }

    /// Waits for a message that holds `part`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, part: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(self.messages.read_line(&mut line).unwrap(), 0, "`{part}` never came: {}", self.seen);
            self.seen.push_str(&line);
            if line.contains(part) {
                return;
            }
        }
    }

    /// Sends a signal to the whole group, as a terminal does.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        assert!(signal(name, self.child.id()));
    }

    /// Waits for the end; gives status, standard output and messages.
    pub(crate) fn end(mut self) -> (ExitStatus, String, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.messages.read_to_string(&mut self.seen).unwrap();
        assert!(!self.seen.contains("panicked"), "{}", self.seen);
        (self.child.wait().unwrap(), out, self.seen)
    }
}
