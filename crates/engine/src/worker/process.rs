//! Outside of the worker: starts the process, talks to it under a deadline, watches its memory.
//!
//! Invariant: a worker that misses its deadline or outgrows its memory is killed and waited for.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use siliconroute_core::Reading;
use siliconroute_core::trial::{Failure, FailureKind};

use super::last_words::LastWords;
use super::wire::{EngineSpec, Request, Response, WireError, encode_frame, read_message};
use crate::process_group::separate;

/// How often a waiting parent looks at the worker's memory and at the wish to stop.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// How long a worker that has closed its pipe may take to end.
const LONGEST_FAREWELL: Duration = Duration::from_secs(2);

/// Bytes of the worker's error output that are a line even without its end.
const LONGEST_LINE: u64 = 1 << 16;

/// The variable that the system's loader looks for libraries in.
const LOADER_PATH: &str = if cfg!(windows) {
    "PATH"
} else if cfg!(target_os = "macos") {
    "DYLD_LIBRARY_PATH"
} else {
    "LD_LIBRARY_PATH"
};

/// A worker to talk to.
pub trait Worker: Send {
    /// Sends `request` and waits for the answer.
    ///
    /// # Errors
    /// When the worker dies, misses `deadline` or outgrows its memory; it is gone then.
    fn call(&mut self, request: &Request, deadline: Duration) -> Result<Response, Failure>;

    /// The system's number of its process; `None` where it has none, or has ended.
    fn process_id(&self) -> Option<u32> {
        None
    }
}

/// Starts workers.
pub trait Launcher: Send + Sync {
    /// Starts a worker that is about to load `engine`, and has loaded nothing yet.
    ///
    /// # Errors
    /// When the process cannot be started.
    fn launch(&self, engine: &EngineSpec) -> Result<Box<dyn Worker>, Failure>;
}

/// Reads the memory that a process holds now.
pub type MemoryProbe = fn(u32) -> Reading<u64>;

/// Starts workers as processes of a program that understands the worker's subcommand.
#[derive(Clone)]
pub struct ProcessLauncher {
    /// The program; the running one unless told otherwise.
    pub program: PathBuf,
    /// Arguments that make it a worker.
    pub arguments: Vec<OsString>,
    /// Environment variables set for workers, such as a provider's switches.
    pub environment: Vec<(OsString, OsString)>,
    /// Reads a worker's memory.
    pub memory: MemoryProbe,
    /// A worker that holds more is ended.
    pub memory_limit_bytes: u64,
    /// Set when the user wants to stop; waiting calls then end their worker.
    pub cancelled: Arc<AtomicBool>,
}

impl fmt::Debug for ProcessLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessLauncher").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Launcher for ProcessLauncher {
    fn launch(&self, engine: &EngineSpec) -> Result<Box<dyn Worker>, Failure> {
        let mut command = Command::new(&self.program);
        if let EngineSpec::OnnxRuntime { search_path, .. } = engine
            && !search_path.is_empty()
        {
            command.env(LOADER_PATH, join_search_path(search_path));
        }
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // An interrupt from the terminal is the parent's to handle; it ends its workers itself.
        separate(&mut command);
        let mut child = command.spawn().map_err(|error| {
            let program = self.program.display();
            Failure::new(FailureKind::Crashed, format!("the worker `{program}` cannot be started: {error}"))
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let talk = match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Conversation::start(stdin, stdout, stderr),
            _ => Err(io::Error::other("it has no pipes")),
        };
        match talk {
            Ok(talk) => {
                Ok(Box::new(ProcessWorker { child: Some(child), talk: Some(talk), launcher: self.clone() }))
            }
            Err(error) => {
                end_child(child);
                let detail = format!("the worker cannot be talked to: {error}");
                Err(Failure::new(FailureKind::Crashed, detail))
            }
        }
    }
}

/// The three pipes of a worker, each served by a thread, so that a worker that neither reads nor writes
/// cannot hold its parent up.
struct Conversation {
    frames: mpsc::Sender<Vec<u8>>,
    responses: mpsc::Receiver<Result<Response, WireError>>,
    ending: Ending,
}

/// What a worker's error output tells of its end.
struct Ending {
    words: Arc<Mutex<LastWords>>,
    /// Reads the error output until it ends.
    listener: thread::JoinHandle<()>,
}

impl Conversation {
    fn start(mut stdin: ChildStdin, mut stdout: ChildStdout, stderr: ChildStderr) -> io::Result<Self> {
        let (frames, to_write) = mpsc::channel::<Vec<u8>>();
        let thread = |name: &str| thread::Builder::new().name(format!("worker-{name}"));
        thread("requests").spawn(move || {
            for frame in to_write {
                // A worker that no longer reads is dead or about to be killed, which the reader tells.
                if stdin.write_all(&frame).and_then(|()| stdin.flush()).is_err() {
                    return;
                }
            }
        })?;
        let (sender, responses) = mpsc::channel();
        thread("responses").spawn(move || {
            loop {
                let response = read_message::<Response>(&mut stdout);
                let ended = response.is_err();
                if sender.send(response).is_err() || ended {
                    return;
                }
            }
        })?;
        let words = Arc::new(Mutex::new(LastWords::default()));
        let heard = Arc::clone(&words);
        let listener = thread("errors").spawn(move || {
            let (mut errors, mut line) = (BufReader::new(stderr), Vec::new());
            while matches!((&mut errors).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(1..)) {
                // Libraries also print in the system's own encoding, which must not end the listening.
                let text = String::from_utf8_lossy(&line);
                tracing::debug!(target: "worker", "{}", text.trim_end());
                heard.lock().unwrap_or_else(PoisonError::into_inner).hear(&text);
                line.clear();
            }
        })?;
        Ok(Self { frames, responses, ending: Ending { words, listener } })
    }
}

struct ProcessWorker {
    /// `None` once it was killed.
    child: Option<Child>,
    /// `None` once the worker has ended.
    talk: Option<Conversation>,
    launcher: ProcessLauncher,
}

impl Worker for ProcessWorker {
    fn call(&mut self, request: &Request, deadline: Duration) -> Result<Response, Failure> {
        let (Some(talk), Some(child)) = (self.talk.as_ref(), self.child.as_ref()) else {
            return Err(Failure::new(FailureKind::Crashed, "the worker has ended"));
        };
        let process = child.id();
        let frame = encode_frame(request)
            .map_err(|error| Failure::new(FailureKind::Refused, format!("a request: {error}")))?;
        if talk.frames.send(frame).is_err() {
            return Err(self.bury());
        }
        let begin = Instant::now();
        loop {
            let left = deadline.saturating_sub(begin.elapsed());
            match talk.responses.recv_timeout(left.min(WATCH_INTERVAL)) {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(WireError::Closed)) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.bury());
                }
                Ok(Err(error)) => return Err(self.end(FailureKind::Crashed, error.to_string())),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if self.launcher.cancelled.load(Ordering::Relaxed) {
                return Err(self.end(FailureKind::TimedOut, "stopped by the user".to_owned()));
            }
            if begin.elapsed() >= deadline {
                let detail = format!("no answer within {:.1} s", deadline.as_secs_f64());
                return Err(self.end(FailureKind::TimedOut, detail));
            }
            if let Reading::Available(bytes) = (self.launcher.memory)(process)
                && bytes > self.launcher.memory_limit_bytes
            {
                let mebibytes = |bytes: u64| bytes >> 20;
                let limit = mebibytes(self.launcher.memory_limit_bytes);
                let detail = format!("the worker held {} MiB, its limit is {limit} MiB", mebibytes(bytes));
                return Err(self.end(FailureKind::MemoryExceeded, detail));
            }
        }
    }

    fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

/// Puts `folders` before what the loader's path holds already.
fn join_search_path(folders: &[PathBuf]) -> OsString {
    let inherited = std::env::var_os(LOADER_PATH).unwrap_or_default();
    let all = folders.iter().cloned().chain(std::env::split_paths(&inherited));
    // A folder whose name holds the separator cannot be on the path at all.
    std::env::join_paths(all).unwrap_or(inherited)
}

impl ProcessWorker {
    /// Kills the worker and says why.
    fn end(&mut self, kind: FailureKind, detail: String) -> Failure {
        self.stop();
        Failure::new(kind, detail)
    }

    /// Waits for a worker that died by itself and tells how.
    fn bury(&mut self) -> Failure {
        // Closing its input tells a worker that only lost its output to end.
        let last_words = self.talk.take().map(|talk| talk.ending);
        let patience = Instant::now();
        let status = loop {
            let Some(child) = self.child.as_mut() else { break "was ended".to_owned() };
            match child.try_wait() {
                Ok(None) if patience.elapsed() < LONGEST_FAREWELL => {
                    thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => {
                    self.stop();
                    break "closed its pipe and did not end".to_owned();
                }
                Ok(Some(status)) => break status.to_string(),
                Err(error) => break error.to_string(),
            }
        };
        let last = last_words.and_then(|ending| ending.last_words(patience)).unwrap_or_default();
        Failure::new(FailureKind::Crashed, format!("the worker ended by itself ({status}){last}"))
    }

    fn stop(&mut self) {
        self.talk = None;
        if let Some(child) = self.child.take() {
            end_child(child);
        }
    }
}

impl Ending {
    /// What the error output says of the end, once all of it has arrived or patience is over.
    fn last_words(&self, patience: Instant) -> Option<String> {
        // A child of the worker may hold the pipe open for ever.
        while !self.listener.is_finished() && patience.elapsed() < LONGEST_FAREWELL {
            thread::sleep(Duration::from_millis(5));
        }
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.sentence().map(|words| format!(", its last words: {words}"))
    }
}

/// Kills a process and waits for its end; one that a driver holds in the kernel is left to a thread.
fn end_child(mut child: Child) {
    if let Err(error) = child.kill() {
        tracing::debug!(target: "worker", "the worker has ended already: {error}");
    }
    let patience = Instant::now();
    while patience.elapsed() < LONGEST_FAREWELL {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(1)),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    let reaper = thread::Builder::new().name("worker-reaper".to_owned()).spawn(move || child.wait());
    if let Err(error) = reaper {
        tracing::warn!(target: "worker", "a worker that does not end is not waited for: {error}");
    }
}

impl Drop for ProcessWorker {
    fn drop(&mut self) {
        self.stop();
    }
}
