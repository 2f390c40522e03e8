//! Real worker processes: whatever happens to one, its parent learns why and nothing is left behind.
//!
//! Invariant: no test measures a time; what must come to pass is waited for with a generous limit.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use siliconroute_core::Reading;
use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::{NamedTensor, Tensor, TensorData};
use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_testkit::engine::ThreadOptions;
use siliconroute_testkit::engine::onnxruntime::CpuFeatures;
use siliconroute_testkit::engine::rten::RtenEngine;
use siliconroute_testkit::engine::worker::client::{RemoteModel, WorkerClient};
use siliconroute_testkit::engine::worker::process::{Launcher, MemoryProbe, ProcessLauncher};
use siliconroute_testkit::engine::worker::wire::{
    EngineSpec, PROTOCOL, Request, Response, WireError, read_message, write_message,
};
use siliconroute_testkit::onnx;
use tempfile::TempDir;

/// Longer than any of these workers ever needs.
const PATIENCE: Duration = Duration::from_mins(1);

fn launcher(memory: MemoryProbe, memory_limit_bytes: u64) -> ProcessLauncher {
    ProcessLauncher {
        program: env!("CARGO_BIN_EXE_siliconroute").into(),
        arguments: vec!["worker".into()],
        environment: Vec::new(),
        memory,
        memory_limit_bytes,
        cancelled: std::sync::Arc::default(),
    }
}

fn no_memory_reading(_: u32) -> Reading<u64> {
    Reading::unavailable("not looked at in this test")
}

/// A launcher that watches no memory.
fn plain() -> ProcessLauncher {
    launcher(no_memory_reading, u64::MAX)
}

/// A model in a file, with what a session of it needs.
struct ModelFile {
    _folder: TempDir,
    path: PathBuf,
    facts: siliconroute_core::model::ModelFacts,
    bindings: Bindings,
    threads: ThreadOptions,
}

impl ModelFile {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        onnx::SyntheticModel::parse(name).unwrap().write(&path).unwrap();
        let facts = onnx::load_model(&path).unwrap().facts().clone();
        let bindings = Bindings([("batch".to_owned(), 1)].into());
        Self { _folder: folder, path, facts, bindings, threads: ThreadOptions::of_count(1) }
    }

    fn remote(&self) -> RemoteModel<'_> {
        RemoteModel {
            path: &self.path,
            inputs: &self.facts.inputs,
            outputs: &self.facts.outputs,
            bindings: &self.bindings,
            threads: &self.threads,
            compile_cache: None,
        }
    }

    fn inputs(width: usize) -> Vec<NamedTensor> {
        let tensor = Tensor::new(vec![1, width], TensorData::Float32(vec![0.5; width])).unwrap();
        vec![NamedTensor { name: "input".to_owned(), tensor }]
    }
}

/// Warms up for hours on a worker that is to be ended before.
fn run_for_ever(launcher: &ProcessLauncher, deadline: Duration) -> Failure {
    let model = ModelFile::new("mlp-128w-2l");
    let mut worker = launcher.launch(&EngineSpec::Rten).unwrap();
    let target = RtenEngine::target().key;
    let requests = [
        Request::Open { protocol: PROTOCOL, engine: EngineSpec::Rten },
        Request::Create {
            target,
            model: model.path.clone(),
            inputs: model.facts.inputs.iter().map(Into::into).collect(),
            outputs: model.facts.outputs.iter().map(Into::into).collect(),
            bindings: model.bindings.clone(),
            threads: ThreadOptions::of_count(1),
            compile_cache: None,
        },
        Request::SetInputs(ModelFile::inputs(128)),
    ];
    for request in requests {
        match worker.call(&request, PATIENCE) {
            Ok(answer) => assert!(!matches!(answer, Response::Refused(_)), "{answer:?}"),
            // A slow machine looks at the worker's memory, which ends it in some tests, before it runs.
            Err(failure) => return failure,
        }
    }
    let endless = Request::WarmUp { min_calls: 1, min_ns: 3_600_000_000_000 };
    let failure = worker.call(&endless, deadline).unwrap_err();
    let after = worker.call(&Request::Run, PATIENCE).unwrap_err();
    assert_eq!(after.kind, FailureKind::Crashed, "{after}");
    failure
}

/// Waits until no process has this id; a process that is dead and not waited for still has it.
#[cfg(unix)]
fn wait_until_gone(process: u32) {
    let begin = Instant::now();
    let alive = || {
        let probe = Command::new("kill").args(["-0", &process.to_string()]).stderr(Stdio::null()).status();
        probe.unwrap().success()
    };
    while alive() {
        assert!(begin.elapsed() < PATIENCE, "the worker {process} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a child to end by itself.
fn wait_for(child: &mut Child) -> std::process::ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the worker did not end by itself");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spawn_worker() -> Child {
    Command::new(env!("CARGO_BIN_EXE_siliconroute"))
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn runs_the_precision_probe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probe.onnx");
    std::fs::write(&path, onnx::precision_probe_model()).unwrap();
    let facts = onnx::load_model(&path).unwrap().facts().clone();
    let reference = onnx::precision_probe_reference();
    let mut worker = WorkerClient::open(&plain(), &EngineSpec::Rten, PATIENCE).unwrap();
    assert!(worker.version().starts_with("rten "), "{}", worker.version());
    assert_eq!(worker.offers().len(), 1);
    let model = RemoteModel {
        path: &path,
        inputs: &facts.inputs,
        outputs: &facts.outputs,
        bindings: &Bindings::default(),
        threads: &ThreadOptions::default(),
        compile_cache: None,
    };
    let mut session = worker.create_session(&RtenEngine::target().key, &model, PATIENCE).unwrap();
    let width = reference.input.len();
    let tensor = Tensor::new(vec![1, width], TensorData::Float32(reference.input)).unwrap();
    session.set_inputs(vec![NamedTensor { name: "input".to_owned(), tensor }]).unwrap();
    assert!(session.run().unwrap() > 0);
    let outputs = session.outputs().unwrap();
    let values = outputs[0].tensor.data().to_f64().unwrap();
    let largest = reference.output.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    for (found, exact) in values.iter().zip(&reference.output) {
        assert!((found - exact).abs() / largest < 1e-5);
    }
    let warm_up = session.warm_up(3, Duration::ZERO).unwrap();
    assert_eq!(warm_up.calls, 3);
    let sampled = session.sample(1, 4, 5, PATIENCE).unwrap();
    assert_eq!(sampled.samples.len(), 5);
    assert!(sampled.samples.iter().all(|sample| (sample.round, sample.calls) == (1, 4)));
    worker.close_session(PATIENCE).unwrap();
}

#[test]
fn a_refusal_leaves_the_worker_usable() {
    let model = ModelFile::new("mlp-64w-2l");
    let mut worker = WorkerClient::open(&plain(), &EngineSpec::Rten, PATIENCE).unwrap();
    let nowhere = RemoteModel { path: &model.path.with_file_name("nowhere.onnx"), ..model.remote() };
    let target = RtenEngine::target().key;
    let refused = worker.create_session(&target, &nowhere, PATIENCE).unwrap_err();
    assert_eq!(refused.kind, FailureKind::Refused, "{refused}");
    let unknown = siliconroute_core::TargetKey("gpu:nope/x".to_owned());
    let refused = worker.create_session(&unknown, &model.remote(), PATIENCE).unwrap_err();
    assert!(refused.detail.contains("gpu:nope/x"), "{refused}");
    let mut session = worker.create_session(&target, &model.remote(), PATIENCE).unwrap();
    assert_eq!(session.run().unwrap_err().detail, "no inputs are set");
    let refused = session.set_inputs(ModelFile::inputs(63)).unwrap_err();
    assert!(refused.detail.contains("must have shape [batch, 64], not [1, 63]"), "{refused}");
    session.set_inputs(ModelFile::inputs(64)).unwrap();
    session.run().unwrap();
}

/// Kills the process in the way that it cannot resist, as if the system had done so.
fn kill(process: u32) -> Reading<u64> {
    let (program, options) =
        if cfg!(windows) { ("taskkill", &["/F", "/PID"][..]) } else { ("kill", &["-9"][..]) };
    let mut command = Command::new(program);
    command.args(options).arg(process.to_string()).stdout(Stdio::null()).status().unwrap();
    Reading::unavailable("killed instead")
}

#[test]
fn a_worker_that_is_killed_from_outside_has_crashed() {
    let failure = run_for_ever(&launcher(kill, u64::MAX), PATIENCE);
    assert_eq!(failure.kind, FailureKind::Crashed);
    let end = if cfg!(windows) { "the worker ended by itself" } else { "signal: 9" };
    assert!(failure.detail.contains(end), "{failure}");
}

static HANGING: AtomicU32 = AtomicU32::new(0);

fn note_hanging(process: u32) -> Reading<u64> {
    HANGING.store(process, Ordering::Relaxed);
    Reading::Available(0)
}

#[test]
fn a_worker_that_misses_its_deadline_is_ended() {
    let failure = run_for_ever(&launcher(note_hanging, u64::MAX), Duration::from_millis(500));
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(failure.detail, "no answer within 0.5 s");
    let process = HANGING.load(Ordering::Relaxed);
    assert_ne!(process, 0);
    #[cfg(unix)]
    wait_until_gone(process);
}

#[test]
fn a_large_model_is_not_made_within_a_millisecond() {
    let model = ModelFile::new("mlp-1024w-4l");
    let mut worker = WorkerClient::open(&plain(), &EngineSpec::Rten, PATIENCE).unwrap();
    let target = RtenEngine::target().key;
    let failure = worker.create_session(&target, &model.remote(), Duration::from_millis(1)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure}");
}

static LARGE: AtomicU32 = AtomicU32::new(0);

fn two_mebibytes(process: u32) -> Reading<u64> {
    LARGE.store(process, Ordering::Relaxed);
    Reading::Available(2 << 20)
}

#[test]
fn a_worker_that_outgrows_its_memory_is_ended() {
    let failure = run_for_ever(&launcher(two_mebibytes, 1), PATIENCE);
    assert_eq!(failure.kind, FailureKind::MemoryExceeded);
    assert_eq!(failure.detail, "the worker held 2 MiB, its limit is 0 MiB");
    #[cfg(unix)]
    wait_until_gone(LARGE.load(Ordering::Relaxed));
}

#[test]
fn the_users_wish_to_stop_ends_a_running_worker() {
    let launcher = launcher(no_memory_reading, u64::MAX);
    let cancelled = std::sync::Arc::clone(&launcher.cancelled);
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        cancelled.store(true, Ordering::Relaxed);
    });
    let failure = run_for_ever(&launcher, PATIENCE * 10);
    assert_eq!(failure.detail, "stopped by the user");
    stopper.join().unwrap();
}

#[test]
fn a_worker_ends_when_its_parent_goes_away() {
    let mut child = spawn_worker();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    write_message(&mut stdin, &Request::Open { protocol: PROTOCOL, engine: EngineSpec::Rten }).unwrap();
    assert!(matches!(read_message(&mut stdout).unwrap(), Response::Opened { .. }));
    drop(stdin);
    assert!(wait_for(&mut child).success());
}

#[test]
fn a_worker_ends_when_its_parent_goes_away_while_it_runs() {
    let model = ModelFile::new("mlp-128w-2l");
    let mut child = spawn_worker();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let requests = [
        Request::Open { protocol: PROTOCOL, engine: EngineSpec::Rten },
        Request::Create {
            target: RtenEngine::target().key,
            model: model.path.clone(),
            inputs: model.facts.inputs.iter().map(Into::into).collect(),
            outputs: model.facts.outputs.iter().map(Into::into).collect(),
            bindings: model.bindings.clone(),
            threads: ThreadOptions::of_count(1),
            compile_cache: None,
        },
        Request::SetInputs(ModelFile::inputs(128)),
    ];
    for request in requests {
        write_message(&mut stdin, &request).unwrap();
        let answer: Response = read_message(&mut stdout).unwrap();
        assert!(!matches!(answer, Response::Refused(_)), "{answer:?}");
    }
    write_message(&mut stdin, &Request::WarmUp { min_calls: 1, min_ns: u64::MAX }).unwrap();
    drop(stdin);
    assert!(wait_for(&mut child).success());
    assert!(matches!(read_message::<Response>(&mut stdout), Err(WireError::Closed)));
}

#[track_caller]
fn check_garbage(bytes: &[u8], said: &str) {
    use std::io::{Read as _, Write as _};
    let mut child = spawn_worker();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let status = wait_for(&mut child);
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(!error.contains("panicked"), "{error}");
    assert!(error.contains(said), "{error}");
    assert_eq!(status.code(), Some(1), "{error}");
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert!(out.is_empty());
}

#[test]
fn garbage_from_the_parent_ends_the_worker_with_a_message() {
    check_garbage(b"hello, are you a worker?\n", "something else than a message arrived");
    let mut endless = b"SRW1".to_vec();
    endless.extend(u64::MAX.to_le_bytes());
    check_garbage(&endless, "the length is beyond the limit");
    let mut wrong = b"SRW1".to_vec();
    wrong.extend(1_u64.to_le_bytes());
    wrong.push(0xff);
    check_garbage(&wrong, "cannot be encoded or decoded");
}

#[test]
fn requests_out_of_turn_are_refused() {
    let mut worker = plain().launch(&EngineSpec::Rten).unwrap();
    let model = ModelFile::new("mlp-64w-2l");
    let create = Request::Create {
        target: RtenEngine::target().key,
        model: model.path.clone(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        bindings: Bindings::default(),
        threads: ThreadOptions::default(),
        compile_cache: None,
    };
    let mut refused = |request: &Request, reason: &str| {
        let answer = worker.call(request, PATIENCE).unwrap();
        assert_eq!(answer, Response::Refused(reason.to_owned()));
    };
    refused(&create, "no engine is open");
    refused(&Request::Run, "no session is open");
    refused(&Request::Outputs, "no session is open");
    let newer = Request::Open { protocol: PROTOCOL + 1, engine: EngineSpec::Rten };
    refused(&newer, &format!("this worker speaks protocol {PROTOCOL}, its parent {}", PROTOCOL + 1));
}

#[test]
fn a_runtime_library_that_cannot_be_loaded_is_refused_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("libbroken.so");
    std::fs::write(&broken, "this is no library").unwrap();
    for library in [folder.path().join("libmissing.so"), broken] {
        let spec = EngineSpec::OnnxRuntime {
            library: library.clone(),
            version: "1.0.0".to_owned(),
            plugins: Vec::new(),
            built_in: Vec::new(),
            cpu: CpuFeatures::default(),
            search_path: Vec::new(),
        };
        let failure = WorkerClient::open(&plain(), &spec, PATIENCE).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused, "{failure}");
        assert!(failure.detail.contains(&library.display().to_string()), "{failure}");
    }
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let program = PathBuf::from("/nonexistent/worker");
    let launcher = ProcessLauncher { program, ..plain() };
    let failure = WorkerClient::open(&launcher, &EngineSpec::Rten, PATIENCE).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert!(failure.detail.contains("`/nonexistent/worker` cannot be started"), "{failure}");
}

#[cfg(unix)]
#[test]
fn a_program_that_is_no_worker_has_crashed_with_its_last_words() {
    let shell = |script: &str| ProcessLauncher {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        ..plain()
    };
    let open = |script| WorkerClient::open(&shell(script), &EngineSpec::Rten, PATIENCE).unwrap_err();
    let dying = open("head -c 1 >&2; printf '\\377\\n' >&2; echo 'cannot find libfoo' >&2; exit 3");
    assert_eq!(dying.kind, FailureKind::Crashed);
    assert!(dying.detail.contains("exit status: 3"), "{dying}");
    assert!(dying.detail.contains("its last words: cannot find libfoo"), "{dying}");
    let panicking = open(
        "printf \"%s\\n\" \"thread 'main' (7) panicked at a.rs:1:2:\" 'no such tensor' \
         'note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace' >&2; exit 101",
    );
    let said = "its last words: thread 'main' (7) panicked at a.rs:1:2: no such tensor";
    assert!(panicking.detail.ends_with(said), "{panicking}");
    let flooding = open("head -c 300000 /dev/zero >&2; echo >&2; echo 'drowned' >&2; exit 1");
    assert!(flooding.detail.ends_with("its last words: drowned"), "{flooding}");
    let talking = open("echo 'Welcome to this library'; exec sleep 600");
    assert_eq!(talking.kind, FailureKind::Crashed);
    assert!(talking.detail.contains("something else than a message arrived"), "{talking}");
}

#[test]
fn the_process_of_a_worker_has_a_number_of_its_own_while_it_lives() {
    let mut worker = plain().launch(&EngineSpec::Rten).unwrap();
    let process = worker.process_id().unwrap();
    assert_ne!(process, std::process::id());
    let failure = worker.call(&Request::Usage, Duration::ZERO).unwrap_err();
    assert_eq!((failure.kind, worker.process_id()), (FailureKind::TimedOut, None));
}
