//! A comparison takes as many sessions as the spread between them asks for.

use std::time::Duration;

use siliconroute::campaign::Sampling;
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
