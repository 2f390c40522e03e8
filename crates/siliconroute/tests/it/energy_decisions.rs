//! Decisions for energy on a simulated machine of known power, from the measurement to the choice. Every figure of
//! energy here is simulated.

use std::time::Duration;

use siliconroute::campaign::{EnergyWindows, Sampling};
use siliconroute::event::Silent;
use siliconroute::learn::Learned;
use siliconroute::measure::{Job, Order};
use siliconroute::run::Routing;
use siliconroute::{Router, Targets};
use siliconroute_core::decide::{Context, Decision, Fired, Limits, decide};
use siliconroute_core::energy::EnergyScope;
use siliconroute_core::trial::Purpose;
use siliconroute_core::{Case, ChipKey, Goal, TargetKey};
use siliconroute_testkit::{Behaviour, FakeMeter, FakeMeters, FakeTarget};

use crate::simulated::{GPU, ORT, RTEN, SUSTAINED, Simulated, gpu, key, ort, question, rten};

const MODEL: &str = "mlp-128w-4l";

/// Milliseconds and net watts of each target: the GPU is the fastest, `ort` takes the least energy, and half of each
/// speaks for `ort` too, unless the GPU's watts are of another scope.
const ORT_TRUTH: (f64, f64) = (12.0, 5.0);
const RTEN_TRUTH: (f64, f64) = (20.0, 4.0);
const GPU_TRUTH: (f64, f64) = (8.0, 30.0);

const REST_WATTS: f64 = 6.0;

fn paced(target: FakeTarget, (ms, _): (f64, f64)) -> FakeTarget {
    target.on(MODEL, Behaviour::time(ms * 1e6)).paced()
}

fn meter(scope: EnergyScope, chip: Option<&str>, of: &[(&str, (f64, f64))]) -> FakeMeter {
    FakeMeter {
        scope,
        chip: chip.map(|key| ChipKey(key.to_owned())),
        rest_watts: REST_WATTS,
        net_watts: of.iter().map(|(target, (_, watts))| (key(target), *watts)).collect(),
    }
}

/// A machine whose three targets were measured on one case, with the energy that `meters` tell.
struct Measured {
    _simulated: Simulated,
    router: Router,
    case: Case,
    targets: Targets,
    learned: Learned,
}

impl Measured {
    fn by(meters: Vec<FakeMeter>) -> Self {
        let simulated =
            Simulated::with(paced(ort(), ORT_TRUTH), paced(gpu(), GPU_TRUTH), paced(rten(), RTEN_TRUTH));
        let mut options = simulated.home.options(&simulated.launcher);
        options.meters = FakeMeters::of(&simulated.launcher, meters);
        // Meters go by the time that really passes.
        options.sleep = std::thread::sleep;
        options.settings = siliconroute::settings::Settings::resolve(
            simulated.home.path(),
            [("SILICONROUTE_TELEMETRY_PERIOD_MS".to_owned(), "100".to_owned())],
            &std::collections::BTreeMap::new(),
        )
        .unwrap();
        let router = Router::open(options).unwrap();
        let targets = router.targets(&mut Silent).unwrap();
        let question = question(&router, MODEL, 1);
        let case = question.case.clone();
        for target in [ORT, RTEN, GPU] {
            let windows =
                EnergyWindows { idle: Duration::from_millis(800), load: Duration::from_millis(2_500) };
            let job = Job {
                model: question.model.clone(),
                case: case.clone(),
                workload: SUSTAINED,
                targets: vec![key(target)],
            };
            let sampling = Sampling { energy: Some(windows), ..router.sampling() };
            let order = Order::new(Purpose::Bench, &sampling);
            router.measure(&[job], &targets, &order, &mut Silent).unwrap();
        }
        let learned = router.learn(&targets).unwrap();
        Self { _simulated: simulated, router, case, targets, learned }
    }

    fn decide(&self, routing: &Routing) -> Decision<'_> {
        decide(&self.learned.knowledge, &self.router.query(&self.case, routing), &Context::default())
    }

    fn name(&self, decision: &Decision<'_>) -> &TargetKey {
        &self.learned.knowledge.target(decision.chosen.unwrap()).key
    }

    #[track_caller]
    fn check(&self, routing: &Routing, chosen: &str, fired: &[&str], said: &str) {
        let decision = self.decide(routing);
        let names: Vec<&str> = decision.fired.iter().map(Fired::name).collect();
        let sentence = decision.sentence(&self.learned.knowledge);
        assert_eq!((self.name(&decision), &names[..]), (&key(chosen), fired), "{sentence}");
        assert!(sentence.contains(said), "{sentence}");
    }
}

fn goal(goal: Goal) -> Routing {
    Routing { goal: Some(goal), ..Routing::default() }
}

#[test]
fn measured_energy_decides_where_its_scope_is_that_of_all() {
    let truths = [(ORT, ORT_TRUTH), (RTEN, RTEN_TRUTH), (GPU, GPU_TRUTH)];
    let measured = Measured::by(vec![meter(EnergyScope::Machine, None, &truths)]);
    let knowledge = &measured.learned.knowledge;
    let decision = measured.decide(&goal(Goal::Battery));
    for (target, (ms, watts)) in truths {
        let candidate = decision.candidate(knowledge.find(&key(target)).unwrap()).unwrap();
        let energy = candidate.energy.unwrap();
        let ratio = energy.joules / (ms * 1e-3 * watts);
        // The counter's truth is exact; the turns of a busy machine's clock are not.
        assert!((0.8..1.25).contains(&ratio), "{target}: {ratio}");
        assert!(energy.measured && energy.scope == EnergyScope::Machine, "{energy:?}");
    }
    measured.check(&goal(Goal::Battery), ORT, &[], "of the whole machine, rest subtracted");
    measured.check(&goal(Goal::Balanced), ORT, &[], "mJ");
    measured.check(&goal(Goal::Fastest), GPU, &[], "needs");
    // With a deadline the cheapest of those that meet it, and with a rate likewise.
    let by_ms = |ms: f64| Limits { deadline_ns: Some(ms * 1e6), ..Limits::default() };
    let at = |per_second: f64| Limits { least_per_second: Some(per_second), ..Limits::default() };
    for (limits, chosen) in [(by_ms(40.0), ORT), (by_ms(10.0), GPU), (at(20.0), ORT), (at(100.0), GPU)] {
        measured.check(&Routing { limits, ..Routing::default() }, chosen, &[], "mJ");
    }
    // A budget of power is one of what the machine draws, its rest included.
    let limits = Limits { power_watts: Some(REST_WATTS + 10.0), ..Limits::default() };
    measured.check(&Routing { limits, ..Routing::default() }, ORT, &[], "needs");
    assert_eq!(measured.router.energy_advice(&decision), None);
    let other = measured.learned.knowledge.find(&key(ORT)).map(|ort| {
        let prediction = decision.prediction(ort).unwrap();
        let unseen = siliconroute_core::CaseId([7; 32]);
        knowledge.energy(unseen, ort, SUSTAINED, EnergyScope::Machine, prediction)
    });
    assert!(other.flatten().is_some_and(|energy| !energy.measured), "{other:?}");
    assert!(measured.targets.resolve(ORT).is_ok());
}

#[test]
fn what_a_package_and_a_board_took_is_not_compared() {
    let measured = Measured::by(vec![
        meter(EnergyScope::Package, Some("cpu"), &[(ORT, ORT_TRUTH), (RTEN, RTEN_TRUTH)]),
        meter(EnergyScope::Board, Some("gpu:10de:2d18@0000:01:00.0"), &[(GPU, GPU_TRUTH)]),
    ]);
    let said = "energy is known of 2 of 3 targets, and the others come after them";
    measured.check(&goal(Goal::Battery), ORT, &["energy_partly_known"], said);
    // Of a target on the CPU and one on the GPU alone, nothing can be compared.
    let limits = Limits { deadline_ns: Some(15e6), ..Limits::default() };
    let said = "is of different scopes, which cannot be compared, so time decides";
    measured.check(&Routing { limits, ..Routing::default() }, GPU, &["energy_unknown"], said);
}

#[test]
fn without_a_meter_time_decides_and_the_reason_is_told() {
    let measured = Measured::by(Vec::new());
    let said = "energy is known of no target, so time decides";
    measured.check(&goal(Goal::Battery), GPU, &["energy_unknown"], said);
    let limits = Limits { power_watts: Some(1.0), ..Limits::default() };
    let said = "the power budget could not be checked for any of the 3 targets";
    measured.check(&Routing { limits, ..Routing::default() }, GPU, &["power_unchecked"], said);
    let decision = measured.decide(&goal(Goal::Battery));
    let advice = measured.router.energy_advice(&decision).unwrap();
    assert!(advice.contains("can be read (a simulated machine without a counter)"), "{advice}");
    assert!(advice.contains("siliconroute bench --energy"), "{advice}");
}
