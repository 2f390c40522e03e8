//! What snapshots of the conditions, recording and the lookout add to the time that is measured of a short model.
//!
//! Invariant: all ways of measuring run the same session within this process, a block each in turn.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use siliconroute::Router;
use siliconroute::context::detect_context;
use siliconroute::identify::machine_sensors;
use siliconroute::lookout::Lookout;
use siliconroute::sampler::{Attention, Eyes, PERIOD, Watcher, machine_meters};
use siliconroute_core::trial::{Measurement, OutputCheck, Preparation, Purpose, Sample, Trial};
use siliconroute_core::{Reading, Workload, statistics};
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::rten::RtenEngine;
use siliconroute_engine::session::{Engine as _, Session, SessionRequest};
use siliconroute_engine::timing::{calls_per_sample, measure_samples, measure_warm_up};
use siliconroute_hardware::detect_conditions;
use siliconroute_store::{CampaignId, NewCampaign, TargetId};

use crate::arguments::Arguments;
use crate::figures::{Ratios, load};
use crate::subject::{Subject, open};

const SAMPLES: u32 = 30;
/// A bare loop is timed as a whole; its time is one value per block, as is the median of the other blocks' samples.
const WAYS: [&str; 4] = [
    "snapshots and store between blocks",
    "also the lookout",
    "also a lookout 50 times as fast",
    "bare again",
];
/// A block takes some 40 ms, so that at this pace looks fall into every one, and at the usual one into few.
const FAST: Duration = PERIOD.checked_div(50).expect("50 is not 0");
/// Looks that are timed by themselves.
const LOOKS: usize = 1_000;

/// Where trials are recorded.
struct Recorder<'r> {
    router: &'r Router,
    campaign: CampaignId,
    target: TargetId,
    trial: Trial,
    samples: usize,
    spent: Duration,
}

pub(crate) fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let router = open(folder.path())?;
    let blocks = arguments.runs.unwrap_or(200);
    report_looks();
    println!("time of a call over that in a bare loop, {blocks} blocks each, {}", load());
    for name in arguments.models_or(&["mlp-256w-4l"]) {
        let subject = Subject::find(&router, &name)?;
        let mut recorder = Recorder::new(&router, &subject)?;
        let mut session = RtenEngine.create_session(
            &RtenEngine::target().key,
            &SessionRequest {
                model: &subject.model.path,
                inputs: &subject.model.facts.inputs,
                outputs: &subject.model.facts.outputs,
                bindings: &subject.case.bindings,
                threads: &ThreadOptions::default(),
                compile_cache: None,
            },
        )?;
        session.set_inputs(&subject.values)?;
        let warm_up = measure_warm_up(session.as_mut(), 5, Duration::from_millis(500))?;
        let calls = calls_per_sample(warm_up.fastest_ns, Duration::from_millis(1));
        let (mut bare_ns, mut ratios) = (Vec::new(), vec![Vec::new(); WAYS.len()]);
        for block in 0..blocks {
            let mut times = [0.0; WAYS.len() + 1];
            // The order turns, so that drift hits all alike.
            for turn in 0..times.len() {
                let way = (block + turn) % times.len();
                times[way] = match way {
                    1 => recorder.sample_and_record(session.as_mut(), calls)?,
                    2 => with_lookout(PERIOD, || recorder.sample_and_record(session.as_mut(), calls))?,
                    3 => with_lookout(FAST, || recorder.sample_and_record(session.as_mut(), calls))?,
                    _ => bare(session.as_mut(), calls)?,
                };
            }
            bare_ns.push(times[0]);
            for (ratios, time) in ratios.iter_mut().zip(&times[1..]) {
                ratios.push(time / times[0]);
            }
        }
        let median = statistics::median(&bare_ns).unwrap_or(f64::NAN);
        println!("{name}: {:.2} µs in the bare loop", median / 1e3);
        for (way, ratios) in WAYS.iter().zip(&ratios) {
            let interval =
                statistics::median_interval(ratios, statistics::CONFIDENCE).ok_or("too few blocks")?;
            println!("  {way:<36} {}, 95 % {:.4}–{:.4}", Ratios(ratios), interval.low, interval.high);
        }
        println!("  {:.0} samples per second go into the store; {}", recorder.rate(), load());
    }
    Ok(())
}

/// The time of a call in a plain loop, in nanoseconds.
fn bare(session: &mut dyn Session, calls: u32) -> Result<f64, Box<dyn Error>> {
    measure_warm_up(session, 2, Duration::from_millis(10))?;
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..calls {
            session.run()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    Ok(statistics::median(&times).ok_or("no sample")?)
}

/// What one look costs by itself, and what that is of one core at the usual pace.
fn report_looks() {
    let mut eyes = eyes();
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e6
    };
    let looks: Vec<f64> =
        (0..LOOKS).map(|_| time(&mut || drop(std::hint::black_box(eyes(Duration::ZERO))))).collect();
    let whole: Vec<f64> =
        (0..LOOKS).map(|_| time(&mut || drop(std::hint::black_box(detect_conditions())))).collect();
    let contexts: Vec<f64> =
        (0..LOOKS).map(|_| time(&mut || drop(std::hint::black_box(detect_context())))).collect();
    for (what, times, every) in [
        ("look", &looks, Some(PERIOD)),
        ("snapshot of all conditions", &whole, None),
        ("context for a decision", &contexts, None),
    ] {
        let median = statistics::median(times).unwrap_or(f64::NAN);
        let p99 = statistics::quantile(&sorted(times), 0.99).unwrap_or(f64::NAN);
        let share = every.map_or_else(String::new, |every| {
            let share = median / (every.as_secs_f64() * 1e4);
            format!(": {share:.4} % of one core at one in {} s", every.as_secs_f64())
        });
        println!("a {what} takes {median:.0} µs (p99 {p99:.0} µs, n = {}){share}", times.len());
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The eyes of a campaign on the CPU.
fn eyes() -> Eyes {
    Watcher::machine(machine_sensors(), machine_meters()).eyes(Attention {
        chips: Reading::unavailable("the model runs on the CPU"),
        energy: Reading::unavailable("not asked for"),
        metering: Arc::default(),
        details: Reading::unavailable("not asked while something is measured"),
    })
}

/// Does `work` beside a lookout.
fn with_lookout<T>(period: Duration, work: impl FnOnce() -> T) -> T {
    let lookout = Lookout::start(eyes(), period);
    let result = work();
    drop(lookout);
    result
}

impl<'r> Recorder<'r> {
    fn new(router: &'r Router, subject: &Subject) -> Result<Self, Box<dyn Error>> {
        let (store, now) = (router.store(), siliconroute::router::unix_ms());
        let chips: Vec<_> =
            router.machine().chips.iter().filter_map(|finding| finding.chip.available().cloned()).collect();
        store.record_chips(&chips, now)?;
        let target = RtenEngine::target();
        let row = store.record_target(&target, now)?;
        store.record_case(&subject.case, now)?;
        let campaign = store.begin_campaign(&NewCampaign {
            host: None,
            purpose: Purpose::Bench,
            seed: 0,
            program_version: siliconroute::VERSION,
            program_commit: siliconroute::COMMIT,
            started_unix_ms: now,
            plan: "[]",
        })?;
        let not_asked = || "a benchmark of recording does not ask";
        let trial = Trial {
            target: target.key,
            case: subject.case.id,
            workload: Workload::Sustained,
            preparation: Preparation::Running,
            purpose: Purpose::Bench,
            started_unix_ms: now,
            order_seed: 0,
            input_seed: 0,
            conditions: String::new(),
            suspect: None,
            outcome: Ok(Measurement {
                session_create_ns: 0,
                first_run_ns: 0,
                warmup_calls: 0,
                samples: Vec::new(),
                busy_cores: Reading::unavailable(not_asked()),
                peak_resident_bytes: Reading::unavailable(not_asked()),
                session_bytes: Reading::unavailable(not_asked()),
                device_bytes: Reading::unavailable(not_asked()),
                placement: Reading::unavailable(not_asked()),
                outputs: OutputCheck::NotCompared { reason: not_asked().to_owned() },
                energy: Reading::unavailable(not_asked()),
            }),
        };
        Ok(Self { router, campaign, target: row, trial, samples: 0, spent: Duration::ZERO })
    }

    /// Measures and records a block as a campaign does; gives the time of a call, in nanoseconds.
    fn sample_and_record(&mut self, session: &mut dyn Session, calls: u32) -> Result<f64, Box<dyn Error>> {
        let before = detect_conditions();
        measure_warm_up(session, 2, Duration::from_millis(10))?;
        let samples = measure_samples(session, 0, calls, SAMPLES, Duration::from_mins(1))?;
        let conditions = serde_json::json!({ "before": before, "after": detect_conditions() });
        let times: Vec<f64> = samples.iter().map(Sample::per_call_ns).collect();
        self.samples += samples.len();
        self.trial.conditions = conditions.to_string();
        self.trial.outcome.as_mut().map_err(|failure| failure.clone())?.samples = samples;
        let start = Instant::now();
        self.router.store().record_trial(self.campaign, self.target, &self.trial)?;
        self.spent += start.elapsed();
        Ok(statistics::median(&times).ok_or("no sample")?)
    }

    fn rate(&self) -> f64 {
        self.samples as f64 / self.spent.as_secs_f64()
    }
}
