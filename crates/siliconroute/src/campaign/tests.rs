//! How a case is sampled, on workers that take the time they are told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use siliconroute_core::model::{Bindings, CaseFacts, Family, Precision};
use siliconroute_core::{CaseId, Dimension, ElementType, ModelId, Reading, Tensor, TensorData};
use siliconroute_engine::worker::wire::EngineSpec;
use siliconroute_testkit::{
    Behaviour, FakeEngine, FakeLauncher, FakeTarget, Fault, Moment, Outputs, TimeLaw,
};

use siliconroute_core::trial::{Before, FailureKind, Measurement, OutputCheck};
use siliconroute_hardware::{ConditionsProbe, Roots};

use super::*;

/// A machine whose embedded engine has `targets`, and a case to measure on them.
struct Bench {
    launcher: FakeLauncher,
    found: Vec<Found>,
    case: Case,
    specs: Vec<TensorSpec>,
    values: Vec<NamedTensor>,
    constant_weights: bool,
    workload: Workload,
}

/// A machine without sensors whose clock runs only while it rests.
struct Simulated<'c> {
    cancelled: &'c dyn Fn() -> bool,
    elapsed: Cell<Duration>,
    rests: RefCell<Vec<Duration>>,
}

impl Surroundings for Simulated<'_> {
    fn unix_ms(&self) -> i64 {
        1_000
    }

    fn elapsed(&self) -> Duration {
        self.elapsed.get()
    }

    fn rest(&self, time: Duration) {
        self.elapsed.set(self.elapsed.get() + time);
        self.rests.borrow_mut().push(time);
    }

    fn least_sample(&self) -> Duration {
        Duration::from_micros(10)
    }

    fn conditions(&self) -> Conditions {
        ConditionsProbe::new(Roots::under(Path::new("/nowhere"))).snapshot()
    }

    fn describe(&self, circumstances: &Circumstances<'_>) -> String {
        serde_json::json!({"side_by_side": circumstances.side_by_side}).to_string()
    }

    fn drop_from_file_cache(&self, _files: &[PathBuf]) -> Result<(), String> {
        Err("a simulated machine has no files".to_owned())
    }

    fn is_cancelled(&self) -> bool {
        (self.cancelled)()
    }

    fn notice(&self, _text: String) {}
}

impl Bench {
    fn new(targets: Vec<FakeTarget>) -> Self {
        let found = targets.iter().map(|fake| Found {
            target: fake.target.clone(),
            engine: EngineSpec::Rten,
            device: BTreeMap::new(),
            proven_error: Reading::Available(0.0),
            checks_indices: Reading::Available(true),
            unavailable: None,
            may_pass: false,
        });
        let facts = CaseFacts {
            batch: 1,
            parameters: 0,
            weight_bytes: 0,
            nodes: 4,
            flops: 0.0,
            activation_bytes: 0.0,
            by_class: Vec::new(),
            family: Family::Mlp,
            inputs: Vec::new(),
            index_limits: BTreeMap::new(),
            precision: Some(Precision::Fp32),
            assumptions: Vec::new(),
            method_version: 1,
        };
        let tensor = Tensor::new(vec![1, 64], TensorData::Float32(vec![0.5; 64])).unwrap();
        Self {
            found: found.collect(),
            launcher: FakeLauncher::new(vec![FakeEngine::new("rten", targets)]),
            case: Case::new(ModelId([1; 32]), "mlp-64w-2l".to_owned(), Bindings::default(), facts),
            specs: vec![TensorSpec {
                name: "input".to_owned(),
                element: ElementType::Float32,
                shape: vec![Dimension::Fixed(1), Dimension::Fixed(64)],
            }],
            values: vec![NamedTensor { name: "input".to_owned(), tensor }],
            constant_weights: false,
            workload: Workload::Sustained,
        }
    }

    fn measure(&self, sampling: &Sampling, cancelled: &dyn Fn() -> bool) -> Vec<Trial> {
        self.measure_within(None, sampling, cancelled).unwrap()
    }

    fn measure_within(
        &self,
        closing: Option<Closing<'_>>,
        sampling: &Sampling,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Trial>, OutOfTime> {
        let test = CaseToMeasure {
            case: &self.case,
            path: Path::new("mlp-64w-2l.onnx"),
            inputs: &self.specs,
            outputs: &self.specs,
            values: &self.values,
            input_seed: 5,
            constant_weights: self.constant_weights,
            compile_cache: Path::new("compiled"),
        };
        let surroundings = Simulated { cancelled, elapsed: Cell::default(), rests: RefCell::default() };
        let setting = Setting {
            purpose: Purpose::Learn,
            sampling,
            order_seed: 3,
            until: None,
            closing,
            surroundings: &surroundings,
            suspects: &BTreeMap::from([(TargetKey("cpu/suspect".to_owned()), "looks swapped".to_owned())]),
        };
        let targets: Vec<&Found> = self.found.iter().collect();
        measure_case(&mut Workers::new(&self.launcher), &test, &targets, self.workload, &setting)
    }

    fn measured(&self, sampling: &Sampling) -> Vec<Measurement> {
        self.measure(sampling, &|| false).into_iter().map(|trial| trial.outcome.unwrap()).collect()
    }
}

/// A target that takes `time_ns`, give or take the share `spread`.
fn target(key: &str, time_ns: f64, spread: f64) -> FakeTarget {
    FakeTarget { spread, ..FakeTarget::new(key, TimeLaw::new(time_ns, 0.0)) }
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let orders = |seed| {
        let mut shuffle = Shuffle::new(seed);
        (0..4).map(|_| shuffle.shuffled(5)).collect::<Vec<_>>()
    };
    assert_eq!(orders(7), orders(7));
    assert_ne!(orders(7), orders(8));
    let mut sorted = orders(7).swap_remove(2);
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3, 4]);
}

#[test]
fn a_steady_target_gets_the_least_number_of_samples_over_all_rounds_and_a_quarter_more() {
    let measured = Bench::new(vec![target("cpu/rten", 1e5, 0.0)]).measured(&Sampling::default());
    let samples = &measured[0].samples;
    assert_eq!(samples.len(), 38);
    for round in 0..7 {
        let count = samples.iter().filter(|sample| sample.round == round).count();
        assert_eq!(count, if round < 6 { 5 } else { 8 });
    }
    // Ten calls of 0.1 ms make the millisecond that a sample lasts at least.
    assert!(samples.iter().all(|sample| (sample.calls, sample.total_ns) == (10, 1_000_000)));
    assert_eq!(measured[0].outputs, OutputCheck::Reference);
    assert!(measured[0].warmup_calls >= 3_000);
}

#[test]
fn a_limit_of_time_bounds_a_warm_up_of_many_calls() {
    let calls = |warmup_limit| {
        let sampling = Sampling {
            warmup_calls: 1_000_000,
            warmup_time: Duration::ZERO,
            warmup_limit,
            ..Sampling::default()
        };
        Bench::new(vec![target("cpu/rten", 1e6, 0.0)]).measured(&sampling)[0].warmup_calls
    };
    assert!(calls(None) >= 1_000_000);
    // Twenty calls of a millisecond, and two before each turn.
    assert!(calls(Some(Duration::from_millis(20))) < 100);
}

#[test]
fn a_sample_on_a_device_lasts_longer() {
    let measured = Bench::new(vec![target("gpu:1:1@a/webgpu", 1e5, 0.0)]).measured(&Sampling::default());
    assert!(measured[0].samples.iter().all(|sample| sample.calls == 50));
}

#[test]
fn an_unsteady_target_is_sampled_until_the_budget_is_spent() {
    let bench = Bench::new(vec![target("cpu/rten", 1e6, 0.9)]);
    let patient = Sampling { budget: Duration::from_secs(2), ..Sampling::default() };
    let taken = bench.measured(&patient)[0].samples.len();
    assert!(taken > 30, "{taken}");
    let hasty = Sampling { budget: Duration::ZERO, ..Sampling::default() };
    assert_eq!(bench.measured(&hasty)[0].samples.len(), 30);
}

#[test]
fn a_very_slow_target_is_given_up_at_the_hard_limit_with_what_there_is() {
    let measured = Bench::new(vec![target("cpu/rten", 15e9, 0.0)]).measured(&Sampling::default());
    assert_eq!(measured[0].samples.len(), 2);
}

#[test]
fn a_fixed_number_of_iterations_is_kept_to() {
    for iterations in [1, 2, 7, 30, 31] {
        let sampling = Sampling { fixed_iterations: Some(iterations), ..Sampling::default() };
        let measured = Bench::new(vec![target("cpu/rten", 1e4, 0.5)]).measured(&sampling);
        assert_eq!(measured[0].samples.len(), iterations as usize);
        assert!(measured[0].samples.iter().all(|sample| sample.calls == 1));
    }
}

#[test]
fn targets_take_turns_within_each_round() {
    let bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0), target("gpu:1:1@a/webgpu", 1e6, 0.0)]);
    bench.measure(&Sampling::default(), &|| false);
    let calls = bench.launcher.calls();
    let turns: Vec<_> = calls.into_iter().filter(|c| c.request == "sample").map(|c| c.target).collect();
    assert_eq!(turns.len(), 14);
    for round in turns.chunks(2) {
        assert_ne!(round[0], round[1]);
    }
}

#[test]
fn a_trial_says_what_it_is() {
    let trial = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]).measure(&Sampling::default(), &|| false);
    let trial = &trial[0];
    assert_eq!((trial.order_seed, trial.input_seed, trial.started_unix_ms), (3, 5, 1_000));
    assert_eq!((trial.workload, trial.purpose), (Workload::Sustained, Purpose::Learn));
    assert_eq!(trial.case, CaseId::derive(ModelId([1; 32]), ""));
}

#[test]
fn a_failure_in_a_later_round_voids_the_trial_and_no_other() {
    let failing =
        target("cpu/rten", 1e6, 0.0).always(Behaviour::fault_after(Moment::Sample, 2, Fault::OutOfMemory));
    let bench = Bench::new(vec![failing, target("gpu:1:1@a/webgpu", 1e6, 0.0)]);
    let trials = bench.measure(&Sampling::default(), &|| false);
    for trial in trials {
        match trial.target.as_str() {
            "cpu/rten" => assert_eq!(trial.outcome.unwrap_err().kind, FailureKind::MemoryExceeded),
            // Only a trusted engine may be what others are compared with, and it failed.
            _ => assert!(matches!(trial.outcome.unwrap().outputs, OutputCheck::NotCompared { .. })),
        }
    }
    let requests = bench.launcher.calls();
    assert_eq!(requests.iter().filter(|call| call.request == "close").count(), 1);
}

#[test]
fn a_refusal_keeps_the_worker_and_frees_its_session() {
    let refusing =
        target("cpu/rten", 1e6, 0.0).always(Behaviour::fault(Moment::Run, Fault::Refuse("no".to_owned())));
    let bench = Bench::new(vec![refusing]);
    bench.measure(&Sampling::default(), &|| false);
    let requests: Vec<_> = bench.launcher.calls().into_iter().map(|call| call.request).collect();
    assert_eq!(requests, ["open", "usage", "usage", "create", "set_inputs", "run", "usage", "close"]);
}

#[test]
fn constant_weights_are_not_compared() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0), target("cpu/openvino", 1e6, 0.0)]);
    bench.constant_weights = true;
    let trials = bench.measure(&Sampling::default(), &|| false);
    let check = |key: &str| {
        let trial = trials.iter().find(|trial| trial.target.as_str() == key).unwrap();
        trial.outcome.as_ref().unwrap().outputs.clone()
    };
    assert_eq!(check("cpu/rten"), OutputCheck::Reference);
    assert!(matches!(check("cpu/openvino"), OutputCheck::NotCompared { .. }));
}

/// What the check of `key` found when it and the reference, `cpu/rten`, compute these.
fn check_of(key: &str, reference: Outputs, other: Outputs) -> OutputCheck {
    let bench = Bench::new(vec![
        target("cpu/rten", 1e6, 0.0).always(Behaviour::outputs(reference)),
        target("cpu/openvino", 1e6, 0.0).always(Behaviour::outputs(other)),
    ]);
    let trials = bench.measure(&Sampling::default(), &|| false);
    let trial = trials.into_iter().find(|trial| trial.target.as_str() == key).unwrap();
    trial.outcome.unwrap().outputs
}

#[test]
fn the_most_trusted_target_is_the_reference_whatever_the_order() {
    let bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0), target("cpu/ort", 1e6, 0.0)]);
    let trials = bench.measure(&Sampling::default(), &|| false);
    let trial = trials.into_iter().find(|trial| trial.target.as_str() == "cpu/ort").unwrap();
    assert_eq!(trial.outcome.unwrap().outputs, OutputCheck::Reference);
}

#[test]
fn outputs_that_go_wrong_after_the_first_run_are_found() {
    let check = check_of("cpu/openvino", Outputs::Right, Outputs::OffLater(0.5));
    let OutputCheck::Compared { difference, .. } = check else { panic!("{check:?}") };
    assert_eq!(difference.class(), None);
}

#[test]
fn a_reference_that_does_not_repeat_itself_proves_nothing() {
    for other in [Outputs::Right, Outputs::Off(0.3)] {
        let check = check_of("cpu/openvino", Outputs::OffLater(0.1), other);
        assert!(matches!(&check, OutputCheck::NotCompared { reason } if reason.contains("run to run")));
    }
    assert_eq!(check_of("cpu/rten", Outputs::OffLater(0.1), Outputs::Right), OutputCheck::Reference);
}

#[test]
fn a_wish_to_stop_ends_the_case_without_a_trial() {
    let bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]);
    let looks = Cell::new(0);
    let trials = bench.measure(&Sampling::default(), &|| {
        looks.set(looks.get() + 1);
        looks.get() > 1
    });
    assert!(trials.is_empty());
    assert!(bench.launcher.calls().iter().all(|call| call.request != "sample"));
}

#[test]
fn a_target_measured_alone_is_not_its_own_reference() {
    let alone = Bench::new(vec![target("gpu:1:1@a/webgpu", 1e6, 0.0)]).measured(&Sampling::default());
    assert!(matches!(alone[0].outputs, OutputCheck::NotCompared { .. }));
    let trusted = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]).measured(&Sampling::default());
    assert_eq!(trusted[0].outputs, OutputCheck::Reference);
}

#[test]
fn rested_targets_run_once_after_each_rest_and_far_from_one_another() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0), target("cpu/openvino", 2e6, 0.0)]);
    bench.workload = Workload::IdleLoaded;
    let rests = vec![Duration::from_millis(500), Duration::from_secs(10)];
    let trials = bench.measure(&Sampling { rests, ..Sampling::default() }, &|| false);
    assert_eq!(trials.len(), 4);
    for (index, trial) in trials.iter().enumerate() {
        let rest_ns = if index < 2 { 500_000_000 } else { 10_000_000_000 };
        assert_eq!(
            (trial.workload, trial.preparation),
            (Workload::IdleLoaded, Preparation::Rested { gap_ns: rest_ns })
        );
        assert_eq!(trial.preparation.is_usual(), index >= 2);
        let measured = trial.outcome.as_ref().unwrap();
        assert_eq!(measured.samples.len(), 3);
        for sample in &measured.samples {
            assert_eq!(sample.calls, 1);
            // Each rests as long as asked, and the machine for half of it; in between ran the other target's sample and
            // the three calls after it.
            let Before::Resting { gap_ns, machine_gap_ns, others } = sample.before else {
                panic!("{sample:?}")
            };
            let is_first = sample.round == 0;
            assert_eq!((gap_ns, machine_gap_ns), (rest_ns, Some(rest_ns / 2)), "round {}", sample.round);
            assert!(if is_first { others == 3 || others == 4 } else { others == 4 }, "{others}");
        }
    }
    let all = |trial: &Trial| {
        trial.outcome.as_ref().unwrap().samples.iter().map(|s| s.total_ns).collect::<Vec<_>>()
    };
    assert!(trials.iter().any(|trial| all(trial) == [1_000_000; 3]));
}

#[test]
fn a_target_that_is_alone_rests_as_long_as_the_machine() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]);
    bench.workload = Workload::IdleLoaded;
    let trials = bench.measure(&Sampling::default(), &|| false);
    let rest_ns = 10_000_000_000;
    let expected = Before::Resting { gap_ns: rest_ns, machine_gap_ns: Some(rest_ns), others: 0 };
    assert!(trials[0].outcome.as_ref().unwrap().samples.iter().all(|sample| sample.before == expected));
}

#[test]
fn a_cold_start_is_a_process_of_its_own_with_its_parts_timed_apart() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]);
    bench.workload = Workload::ColdStart;
    let trials = bench.measure(&Sampling::default(), &|| false);
    let [trial] = &trials[..] else { panic!("{} trials", trials.len()) };
    let measured = trial.outcome.as_ref().unwrap();
    assert_eq!(measured.samples.len(), 3);
    for sample in &measured.samples {
        let Before::Absent(parts) = sample.before else { panic!("{sample:?}") };
        assert_eq!(sample.total_ns, parts.session_ns + parts.first_run_ns);
        assert_eq!((parts.first_run_ns, parts.files), (1_000_000, FileCache::Warm));
        assert!(parts.gap_ns >= 500_000_000 && parts.library_ns > 0 && parts.first_output_ns > 0);
    }
    let requests: Vec<_> = bench.launcher.calls().into_iter().map(|call| call.request).collect();
    // The first one fills the caches and does not count.
    assert_eq!(requests.iter().filter(|request| **request == "open").count(), 4);
    assert_eq!(measured.outputs, OutputCheck::Reference);
}

#[test]
fn files_that_cannot_be_dropped_give_no_cold_start() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]);
    bench.workload = Workload::ColdStart;
    let sampling = Sampling { cold_files: vec![FileCache::Warm, FileCache::Dropped], ..Sampling::default() };
    let trials = bench.measure(&sampling, &|| false);
    assert_eq!(trials.len(), 2);
    assert!(trials[0].outcome.is_ok());
    assert!(trials[1].outcome.as_ref().unwrap_err().detail.contains("no files"), "{trials:?}");
}

#[test]
fn what_was_sampled_before_the_user_stopped_is_kept() {
    let bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0), target("cpu/openvino", 1e6, 0.0)]);
    let sampled = || bench.launcher.calls().iter().filter(|call| call.request == "sample").count();
    let trials = bench.measure(&Sampling::default(), &|| sampled() >= 3);
    let counts: Vec<usize> =
        trials.iter().map(|trial| trial.outcome.as_ref().unwrap().samples.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 15, "{counts:?}");
    assert!(
        trials
            .iter()
            .all(|trial| !matches!(trial.outcome.as_ref().unwrap().outputs, OutputCheck::Faulty { .. }))
    );
}

#[test]
fn a_suspect_target_s_trials_say_so() {
    let trials = Bench::new(vec![target("cpu/suspect", 1e6, 0.0), target("cpu/rten", 1e6, 0.0)])
        .measure(&Sampling::default(), &|| false);
    for trial in trials {
        assert_eq!(trial.suspect.is_some(), trial.target.as_str() == "cpu/suspect");
    }
}

/// What is asked of workers in `workload` when so many seconds are left, and each target is expected to take `begin_s`
/// until it is warm and takes `call_s` for an inference; and whether the case is complete.
fn asked_within(workload: Workload, left_s: f64, begin_s: f64, call_s: f64) -> (Vec<&'static str>, bool) {
    let keys = ["cpu/rten", "cpu/openvino"];
    let mut bench = Bench::new(keys.map(|key| target(key, call_s * 1e9, 0.0)).into());
    bench.workload = workload;
    let begin = keys.map(|key| (TargetKey(key.to_owned()), Duration::from_secs_f64(begin_s)));
    let begin = BTreeMap::from(begin);
    let closing = Closing { at: Duration::from_secs_f64(left_s), begin: &begin };
    let complete = bench.measure_within(Some(closing), &Sampling::default(), &|| false).is_ok();
    (bench.launcher.calls().into_iter().map(|call| call.request).collect(), complete)
}

#[test]
fn nothing_begins_that_does_not_fit_into_what_is_left() {
    for workload in Workload::ALL {
        assert!(asked_within(workload, 60.0, 1.0, 0.001).1, "{workload}");
        let (asked, complete) = asked_within(workload, 5.0, 6.0, 0.001);
        assert!(asked.is_empty() && !complete, "{workload}: {asked:?}");
    }
    // Sessions that turn out to be slower than expected are not sampled; the rest of ten seconds is not begun.
    for (workload, left_s, call_s) in [(Workload::Sustained, 5.0, 2.0), (Workload::IdleLoaded, 11.0, 0.2)] {
        let (asked, complete) = asked_within(workload, left_s, 0.0, call_s);
        assert_eq!(asked.iter().filter(|request| **request == "create").count(), 2, "{workload}");
        let sampled = asked.iter().filter(|request| matches!(**request, "sample" | "outputs")).count();
        assert!(sampled == 2 && !complete, "{workload}: {asked:?}");
    }
    // A second start of each is to follow the one that does not count.
    let (asked, complete) = asked_within(Workload::ColdStart, 5.0, 4.0, 0.001);
    assert!(asked.iter().filter(|request| **request == "open").count() == 2 && !complete, "{asked:?}");
}

#[test]
fn what_is_sampled_when_time_is_up_stays() {
    let mut bench = Bench::new(vec![target("cpu/rten", 1e6, 0.0)]);
    bench.workload = Workload::IdleLoaded;
    let begin = BTreeMap::new();
    let closing = Closing { at: Duration::from_secs(25), begin: &begin };
    let trials = bench.measure_within(Some(closing), &Sampling::default(), &|| false).unwrap();
    assert_eq!(trials[0].outcome.as_ref().unwrap().samples.len(), 2);
}
