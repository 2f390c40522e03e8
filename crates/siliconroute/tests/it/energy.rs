//! Energy of trials on a simulated machine whose counter lies in a made-up `/sys`, and of machines without one.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use siliconroute::Router;
use siliconroute::campaign::EnergyWindows;
use siliconroute::campaign::Sampling;
use siliconroute::event::Silent;
use siliconroute::measure::{Job, Order};
use siliconroute::sampler::{Meters, OpenMeters};
use siliconroute_core::energy::{EnergyMethod, EnergyRun, EnergyScope, WorkDone, estimate_energy};
use siliconroute_core::trial::{Purpose, Trial};
use siliconroute_core::{Reading, Workload};
use siliconroute_hardware::{EnergyMeters, MeterReading, Roots};
use siliconroute_store::TrialFilter;
use siliconroute_testkit::Behaviour;

use crate::simulated::{RTEN, SUSTAINED, Simulated, gpu, key, ort, question, rten};

/// Watts of the simulated package at rest and at work.
const WATTS: [f64; 2] = [1.0, 9.0];

/// Where the counter of the package starts again, in microjoules: once within the load, and not before a second look
/// that comes late.
const FULL: u64 = 24_000_000;

/// A package whose energy is written to a file whenever the file is about to be read. It rests until a worker is asked
/// for anything, and works from then on.
struct SimulatedPackage {
    files: EnergyMeters,
    counter: std::path::PathBuf,
    launcher: siliconroute_testkit::FakeLauncher,
    /// What workers had been asked when it was opened.
    calls: usize,
    last: Instant,
    microjoules: f64,
}

impl Meters for SimulatedPackage {
    fn read(&mut self) -> Vec<MeterReading> {
        let watts = WATTS[usize::from(self.launcher.calls().len() > self.calls)];
        self.microjoules += watts * self.last.elapsed().as_secs_f64() * 1e6;
        self.last = Instant::now();
        let shown = self.microjoules as u64 % FULL;
        std::fs::write(&self.counter, format!("{shown}\n")).unwrap();
        self.files.read()
    }

    fn absence(&self) -> Option<String> {
        None
    }
}

/// A folder in the layout of `/` with one zone of RAPL.
fn package_tree(root: &Path) -> std::path::PathBuf {
    let zone = root.join("sys/class/powercap/intel-rapl:0");
    std::fs::create_dir_all(&zone).unwrap();
    std::fs::write(zone.join("name"), "package-0\n").unwrap();
    std::fs::write(zone.join("max_energy_range_uj"), format!("{FULL}\n")).unwrap();
    std::fs::write(zone.join("energy_uj"), "0\n").unwrap();
    zone.join("energy_uj")
}

fn windows() -> EnergyWindows {
    EnergyWindows { idle: Duration::from_millis(1_200), load: Duration::from_secs(3) }
}

/// Measures the smallest model on the embedded engine.
fn measure(router: &Router, workload: Workload, energy: Option<EnergyWindows>) -> Trial {
    let targets = router.targets(&mut Silent).unwrap();
    let question = question(router, "mlp-128w-4l", 1);
    let job = Job { model: question.model, case: question.case, workload, targets: vec![key(RTEN)] };
    let rests = vec![Duration::from_millis(1)];
    let sampling = Sampling { energy, rests, ..router.sampling() };
    let order = Order::new(Purpose::Bench, &sampling);
    let mut measured = router.measure(&[job], &targets, &order, &mut Silent).unwrap();
    measured.trials.pop().unwrap()
}

fn energy(trial: &Trial) -> &Reading<EnergyRun> {
    &trial.outcome.as_ref().unwrap().energy
}

#[track_caller]
fn reason(trial: &Trial, part: &str) {
    let energy = energy(trial);
    assert!(matches!(energy, Reading::Unavailable(why) if why.contains(part)), "{energy:?}");
}

fn simulated_router(simulated: &Simulated, meters: OpenMeters) -> Router {
    let mut options = simulated.home.options(&simulated.launcher);
    options.meters = meters;
    // Meters go by the time that really passes.
    options.sleep = std::thread::sleep;
    options.settings = siliconroute::settings::Settings::resolve(
        simulated.home.path(),
        [("SILICONROUTE_TELEMETRY_PERIOD_MS".to_owned(), "100".to_owned())],
        &std::collections::BTreeMap::new(),
    )
    .unwrap();
    Router::open(options).unwrap()
}

#[test]
fn the_energy_of_a_simulated_package_is_told_over_the_turns_of_its_counter() {
    // Calls that are short against the simulation's own work would keep it from being asked often.
    let slow = rten().on("mlp-128w-4l", Behaviour::time(20e6));
    let simulated = Simulated::with(ort(), gpu(), slow);
    let tree = tempfile::tempdir().unwrap();
    let counter = package_tree(tree.path());
    let (root, launcher) = (tree.path().to_owned(), simulated.launcher.clone());
    let meters: OpenMeters = Arc::new(move |chips| {
        Box::new(SimulatedPackage {
            files: EnergyMeters::new(&Roots::under(&root), chips),
            counter: counter.clone(),
            launcher: launcher.clone(),
            calls: launcher.calls().len(),
            last: Instant::now(),
            microjoules: 0.0,
        })
    });
    let router = simulated_router(&simulated, meters);
    let trial = measure(&router, SUSTAINED, Some(windows()));
    let run = energy(&trial).available().expect("the meter was read").clone();
    // Simulated calls take no time of their own, so that their pace is the machine's mood; a steady one stands in.
    let steady = [(run.load.begin_s, 0), (run.load.end_s, 1_000)];
    let progress = steady.map(|(at_s, calls)| WorkDone { at_s, calls });
    assert!(run.progress.last().is_some_and(|done| done.calls > 0), "{:?}", run.progress);
    let estimate = estimate_energy(&EnergyRun { progress: progress.to_vec(), ..run.clone() });
    let Reading::Available(estimate) = estimate else { panic!("{estimate:?}") };
    assert_eq!((estimate.meter.method, estimate.meter.scope), (EnergyMethod::Counter, EnergyScope::Package));
    assert_eq!(estimate.meter.name, "rapl package-0");
    // Whatever a disturbed machine does to the pace of the looks, the counter tells true joules.
    let truth = (WATTS[1] - WATTS[0]) * estimate.seconds / estimate.calls;
    assert!((estimate.joules / truth - 1.0).abs() < 0.2, "{} {truth}", estimate.joules);
    assert!(estimate.interval.low > 0.0 && estimate.gross_joules > estimate.joules, "{estimate:?}");
    let turned = run.series[0].points.last().unwrap().value;
    assert!(turned * 1e6 > FULL as f64, "the counter went round: {turned}");
    // It is kept with its trial, as it was read.
    let stored = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    assert_eq!(router.store().energy(stored[0].id).unwrap(), Reading::Available(run.clone()));
    let again = router.store().trial(stored[0].id).unwrap().unwrap();
    assert_eq!(energy(&again), &Reading::Available(run));
    // What the sampler saw meanwhile is in the store as well.
    let looks = router.store().telemetry(Some(stored[0].campaign), 0, 10_000).unwrap();
    assert!(looks.iter().any(|it| it.look.document.contains("rapl package-0")), "{}", looks.len());
}

#[test]
fn a_machine_without_meters_says_what_is_missing_and_keeps_its_times() {
    struct None;
    impl Meters for None {
        fn read(&mut self) -> Vec<MeterReading> {
            Vec::new()
        }

        fn absence(&self) -> Option<String> {
            Some("no counter on a simulated machine".to_owned())
        }
    }
    let simulated = Simulated::usual();
    let router = simulated_router(&simulated, Arc::new(|_| Box::new(None)));
    let trial = measure(&router, SUSTAINED, Some(windows()));
    reason(&trial, "energy counters: no counter on a simulated machine");
    assert!(!trial.outcome.as_ref().unwrap().samples.is_empty());
    let stored = router.store().trial_summaries(&TrialFilter::default()).unwrap();
    assert_eq!(&router.store().energy(stored[0].id).unwrap(), energy(&trial));
}

#[test]
fn energy_that_nobody_asked_for_is_not_measured() {
    let simulated = Simulated::usual();
    let opened = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&opened);
    let meters: OpenMeters = Arc::new(move |chips| {
        *counted.lock().unwrap() += 1;
        Box::new(EnergyMeters::new(&Roots::under(Path::new("/nowhere")), chips))
    });
    let router = simulated_router(&simulated, meters);
    reason(&measure(&router, SUSTAINED, None), "not measured");
    reason(&measure(&router, Workload::IdleLoaded, Some(windows())), "in the sustained workload alone");
    assert_eq!(*opened.lock().unwrap(), 0);
}
