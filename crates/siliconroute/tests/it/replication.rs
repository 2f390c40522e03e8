//! A comparison takes as many sessions as the spread between them asks for.

use std::time::{Duration, Instant};

use siliconroute::campaign::Sampling;
use siliconroute::event::{Event, Listener};
use siliconroute::measure::{Job, Order};
use siliconroute_core::statistics::Replication;
use siliconroute_core::trial::Purpose;
use siliconroute_testkit::{FakeEngine, FakeTarget};

use crate::simulated::{Notices, RTEN, SUSTAINED, Simulated, key, question, rten};

const OTHER: &str = "cpu/rten-other";

/// Measures two equal targets whose samples lie up to `spread` from their law; gives the sessions of each and the notices.
fn sessions_taken(spread: f64, budget: Option<Duration>) -> (usize, Vec<String>) {
    let unsteady = |target: FakeTarget| FakeTarget { spread, ..target };
    let other = FakeTarget::new(OTHER, rten().law);
    let simulated = Simulated::of(vec![FakeEngine::new("rten", vec![unsteady(rten()), unsteady(other)])]);
    let router = simulated.router();
    let mut notices = Notices::default();
    let targets = router.targets(&mut notices).unwrap();
    let asked = question(&router, "mlp-256w-4l", 1);
    let job = Job {
        model: asked.model,
        case: asked.case,
        workload: SUSTAINED,
        targets: vec![key(RTEN), key(OTHER)],
    };
    let sampling = Sampling::default().for_comparison();
    let replication = Replication::default();
    let order = Order { budget, replication: Some(replication), ..Order::new(Purpose::Bench, &sampling) };
    let jobs = vec![job; replication.least];
    let measured = router.measure(&jobs, &targets, &order, &mut notices).unwrap();
    let of = |name| measured.trials.iter().filter(|trial| trial.target == key(name)).count();
    assert_eq!(of(RTEN), of(OTHER));
    (of(RTEN), notices.0)
}

#[test]
fn sessions_that_agree_are_enough() {
    let (sessions, notices) = sessions_taken(0.01, None);
    assert_eq!(sessions, Replication::default().least);
    assert!(notices.iter().all(|notice| !notice.contains("sessions differ")), "{notices:?}");
}

#[test]
fn sessions_that_differ_are_followed_by_further_ones_and_that_is_told() {
    let (sessions, notices) = sessions_taken(0.6, None);
    let Replication { least, most, .. } = Replication::default();
    assert!(sessions > least && sessions <= most, "{sessions}");
    assert!(notices.iter().any(|notice| notice.contains("sessions differ")), "{notices:?}");
}

#[test]
fn a_budget_without_room_for_further_sessions_ends_the_comparison() {
    // Simulated sessions take no time, but a plan reckons with processes and warm-ups: over a second for four.
    let (sessions, notices) = sessions_taken(0.6, Some(Duration::from_secs(1)));
    assert_eq!(sessions, Replication::default().least);
    assert!(notices.iter().all(|notice| !notice.contains("sessions differ")), "{notices:?}");
}

/// Sleeps the rest of a budget away as soon as a job is done.
struct Slow {
    told: Vec<String>,
    until: Option<Instant>,
}

impl Listener for Slow {
    fn event(&mut self, event: Event) {
        match event {
            Event::StepDone => {
                if let Some(until) = self.until.take() {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                }
            }
            Event::Notice(text) => self.told.push(text),
            _ => {}
        }
    }
}

#[test]
fn a_case_that_was_measured_in_fewer_sessions_is_not_left_out() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let targets = router.targets(&mut Notices::default()).unwrap();
    let job = |model: &str| {
        let asked = question(&router, model, 1);
        Job { model: asked.model, case: asked.case, workload: SUSTAINED, targets: vec![key(RTEN)] }
    };
    let (first, second) = (job("mlp-128w-4l"), job("mlp-256w-4l"));
    let jobs = [&first, &second, &first, &second, &first].map(Clone::clone);
    let (sampling, budget) = (Sampling::default(), Duration::from_secs(2));
    let order = Order { budget: Some(budget), ..Order::new(Purpose::Bench, &sampling) };
    let mut slow = Slow { told: Vec::new(), until: Some(Instant::now() + budget * 2) };
    let measured = router.measure(&jobs, &targets, &order, &mut slow).unwrap();
    assert_eq!(measured.trials.len(), 1);
    assert!(measured.out_of_time);
    let about_sessions: Vec<&String> = slow.told.iter().filter(|text| text.contains("mlp-")).collect();
    assert_eq!(
        about_sessions,
        [
            "mlp-256w-4l [batch=1] sustained is left out: the budget is used up",
            "mlp-128w-4l [batch=1] sustained: the budget left room for 1 of 3 sessions",
        ]
    );
}
