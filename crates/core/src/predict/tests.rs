//! What is predicted in simulated worlds whose laws are known.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::form::{Fit, fit_forms};
use crate::model::{Bindings, CaseFacts, ClassWork, Family, OperatorClass, Precision};
use crate::statistics::draws::Draws;

const TARGETS: usize = 3;
/// How alike what no fact tells of a model is on two targets.
const ALIKE: f64 = 0.8;
/// How far models lie from the law of a target, as a standard deviation.
const OFF_BY: f64 = 0.3;
const NOISE: f64 = 0.03;

/// A model of the simulated world.
struct Model {
    /// Its cases, by batch.
    cases: Vec<Case>,
    /// How far it lies from the law of each target.
    off: [f64; TARGETS],
}

fn model(draws: &mut Draws, number: usize) -> Model {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    let id = ModelId(digest);
    let parameters = (11.0 + 6.0 * draws.uniform()).exp();
    let uses = (4.0 * draws.uniform()).exp();
    let nodes = 5 + draws.index(200) as u64;
    let shared = ALIKE.sqrt() * draws.normal();
    let off = [(); TARGETS].map(|()| OFF_BY * (shared + (1.0 - ALIKE).sqrt() * draws.normal()));
    let case = |batch: u64| {
        let flops = 2.0 * parameters * uses * batch as f64;
        let bytes = 4.0 * parameters + flops / 20.0;
        let facts = CaseFacts {
            batch,
            parameters: parameters as u64,
            weight_bytes: (4.0 * parameters) as u64,
            nodes,
            flops,
            activation_bytes: flops / 20.0,
            by_class: vec![ClassWork { class: OperatorClass::Conv, nodes, flops, bytes }],
            family: Family::Conv,
            inputs: Vec::new(),
            index_limits: BTreeMap::new(),
            precision: Some(Precision::Fp32),
            assumptions: Vec::new(),
            method_version: 1,
        };
        let bindings = Bindings(BTreeMap::from([("batch".to_owned(), batch)]));
        Case::new(id, format!("m{number}"), bindings, facts)
    };
    Model { cases: [1, 2, 4, 8].map(case).to_vec(), off }
}

/// The sustained time of a case without noise.
fn law(case: &Case, target: usize) -> f64 {
    let (speed, node_ns) = [(100.0, 500.0), (300.0, 3_000.0), (1_000.0, 20_000.0)][target];
    2e4 + node_ns * case.facts.nodes as f64 + case.facts.flops / speed
}

fn time(draws: &mut Draws, model: &Model, case: &Case, target: usize) -> f64 {
    law(case, target) * (model.off[target] + NOISE * draws.normal()).exp()
}

fn fit(measured: &[Measured<'_>], target: usize, workload: Workload) -> Option<Fit> {
    let own = measured.iter().filter(|it| it.target == target && it.workload == workload);
    let rows: Vec<FitRow> = own.map(|it| FitRow::from((&it.case.facts, it.case.model, it.time_ns))).collect();
    fit_forms(&rows, 0.0).ok()
}

fn learn(measured: Vec<Measured<'_>>, started: Vec<Started<'_>>) -> Predictor {
    let fits: Vec<[Option<Fit>; 3]> =
        (0..TARGETS).map(|target| Workload::ALL.map(|it| fit(&measured, target, it))).collect();
    let fits = fits.iter().map(|of| of.each_ref().map(Option::as_ref)).collect();
    Predictor::learn(&Learning { fits, measured, started })
}

/// What was hit of predictions.
#[derive(Default)]
struct Hits {
    inside: usize,
    errors: Vec<f64>,
}

impl Hits {
    fn note(&mut self, predicted: PredictedTime, truth: f64) {
        self.inside += usize::from(predicted.interval.contains(truth));
        self.errors.push((predicted.time_ns / truth).ln().abs());
    }

    fn coverage(&self) -> f64 {
        self.inside as f64 / self.errors.len() as f64
    }

    fn median(&self) -> f64 {
        crate::statistics::median(&self.errors).unwrap()
    }
}

#[test]
fn each_source_makes_predictions_better_and_intervals_hold() {
    let mut draws = Draws::new(11);
    let [mut by_law, mut elsewhere, mut shapes, mut both] = [(); 4].map(|()| Hits::default());
    for _ in 0..12 {
        let models: Vec<Model> = (0..40).map(|number| model(&mut draws, number)).collect();
        let mut measured = Vec::new();
        for (number, of) in models.iter().enumerate() {
            for target in 0..TARGETS {
                for (position, case) in of.cases.iter().enumerate() {
                    let known = match number % 4 {
                        // Never measured; on other targets; at other shapes; both; else everywhere.
                        0 if number < 16 => false,
                        1 if number < 16 => target > 0,
                        2 if number < 16 => position > 0 && target == 0,
                        3 if number < 16 => target > 0 || position > 0,
                        _ => true,
                    };
                    if known {
                        let time_ns = time(&mut draws, of, case, target);
                        let workload = Workload::Sustained;
                        measured.push(Measured { target, case, workload, time_ns });
                    }
                }
            }
        }
        let predictor = learn(measured, Vec::new());
        for (number, of) in models.iter().enumerate().take(16) {
            let truth = time(&mut draws, of, &of.cases[0], 0);
            let predicted = predictor.predict(&of.cases[0], 0, Workload::Sustained).unwrap();
            let PredictedTime { time_ns, interval, basis } = predicted;
            assert!(0.0 < interval.low && interval.low <= time_ns && time_ns <= interval.high);
            assert!(
                basis.law_weight() >= -1e-6 && basis.shapes_weight >= 0.0 && basis.elsewhere_weight >= 0.0
            );
            let (hits, name) = match number % 4 {
                0 => (&mut by_law, predictor.law(0, Workload::Sustained).unwrap().name()),
                1 => (&mut elsewhere, "other-targets"),
                2 => (&mut shapes, "same-model"),
                _ => (&mut both, "same-model"),
            };
            if number % 4 != 3 {
                assert_eq!(basis.name(), name, "{basis:?}");
            }
            hits.note(predicted, truth);
        }
    }
    for (name, hits) in [("law", &by_law), ("elsewhere", &elsewhere), ("shapes", &shapes), ("both", &both)] {
        let coverage = hits.coverage();
        assert!((0.87..=1.0).contains(&coverage), "{name}: {coverage}");
    }
    let medians = [&by_law, &elsewhere, &shapes, &both].map(Hits::median);
    assert!(medians[1] < 0.75 * medians[0], "{medians:?}");
    assert!(medians[2] < 0.5 * medians[0], "{medians:?}");
    assert!(medians[3] < 0.5 * medians[0], "{medians:?}");
}

#[test]
fn a_cold_start_is_told_by_the_sessions_of_other_workloads() {
    let mut draws = Draws::new(12);
    let models: Vec<Model> = (0..30).map(|number| model(&mut draws, number)).collect();
    // Creation takes 5 ms, 20 µs a node and 1 ns a byte; the first run 3 sustained times; the whole 1.3 times as much
    // in a process of its own.
    let parts = |draws: &mut Draws, of: &Model, case: &Case| {
        let own = (0.05 * draws.normal()).exp();
        let create = 5e6 + 2e4 * case.facts.nodes as f64 + case.facts.weight_bytes as f64;
        (create * own, 3.0 * law(case, 0) * of.off[0].exp() * own)
    };
    let (mut measured, mut started) = (Vec::new(), Vec::new());
    for (number, of) in models.iter().enumerate().filter(|(number, _)| *number > 0) {
        let case = &of.cases[0];
        let time_ns = time(&mut draws, of, case, 0);
        measured.push(Measured { target: 0, case, workload: Workload::Sustained, time_ns });
        let (create_ns, first_run_ns) = parts(&mut draws, of, case);
        started.push(Started { target: 0, case, create_ns, first_run_ns });
        if number > 20 {
            let (create, first_run) = parts(&mut draws, of, case);
            let time_ns = 1.3 * (create + first_run);
            measured.push(Measured { target: 0, case, workload: Workload::ColdStart, time_ns });
        }
    }
    let predictor = learn(measured, started);
    assert_eq!(predictor.law(0, Workload::ColdStart), Some(LawKind::SessionStart));
    for (number, of) in models.iter().enumerate().take(21) {
        let (create, first_run) = parts(&mut draws, of, &of.cases[0]);
        let truth = 1.3 * (create + first_run);
        let predicted = predictor.predict(&of.cases[0], 0, Workload::ColdStart).unwrap();
        let error = (predicted.time_ns / truth).ln().abs();
        // The model that was never measured is off by what no fact tells of its run.
        let allowed = if number == 0 { 1.0 } else { 0.35 };
        assert!(error < allowed, "{number}: {error} {predicted:?}");
        assert_eq!(predicted.basis.shapes, u16::from(number > 0));
    }
    assert!(
        predictor.predict(&models[0].cases[0], 1, Workload::ColdStart).is_none(),
        "nothing is known of it"
    );
}

#[test]
fn waking_adds_its_parts_to_the_sustained_time() {
    let mut draws = Draws::new(13);
    let models: Vec<Model> = (0..20).map(|number| model(&mut draws, number)).collect();
    let idle = |of: &Model, case: &Case| {
        1e6 + 0.2 * case.facts.weight_bytes as f64 + 1.1 * law(case, 0) * of.off[0].exp()
    };
    let mut measured = Vec::new();
    for (number, of) in models.iter().enumerate() {
        let case = &of.cases[0];
        let time_ns = time(&mut draws, of, case, 0);
        measured.push(Measured { target: 0, case, workload: Workload::Sustained, time_ns });
        if number >= 10 {
            let time_ns = idle(of, case) * (NOISE * draws.normal()).exp();
            measured.push(Measured { target: 0, case, workload: Workload::IdleLoaded, time_ns });
        }
    }
    let predictor = learn(measured, Vec::new());
    assert_eq!(predictor.law(0, Workload::IdleLoaded), Some(LawKind::Waking));
    let mut inside = 0;
    for of in &models[..10] {
        let predicted = predictor.predict(&of.cases[0], 0, Workload::IdleLoaded).unwrap();
        let truth = idle(of, &of.cases[0]);
        assert!((predicted.time_ns / truth).ln().abs() < 0.25, "{predicted:?} {truth}");
        inside += usize::from(predicted.interval.contains(truth));
    }
    assert!(inside >= 8, "{inside} of 10");
}

#[test]
fn few_rested_cases_give_a_ratio_with_its_range_and_number() {
    let mut draws = Draws::new(14);
    let models: Vec<Model> = (0..12).map(|number| model(&mut draws, number)).collect();
    let mut measured = Vec::new();
    for (number, of) in models.iter().enumerate() {
        for target in 0..2 {
            let case = &of.cases[0];
            let time_ns = law(case, target);
            measured.push(Measured { target, case, workload: Workload::Sustained, time_ns });
            if number < 2 && target == 0 {
                let time_ns = time_ns * [2.0, 3.0][number];
                measured.push(Measured { target, case, workload: Workload::IdleLoaded, time_ns });
            }
        }
    }
    let predictor = learn(measured, Vec::new());
    let slow_down = predictor.slow_down(0, Workload::IdleLoaded).unwrap();
    assert_eq!(slow_down.cases, 2);
    assert!((slow_down.range.low - 2.0).abs() < 0.2 && (slow_down.range.high - 3.0).abs() < 0.3);
    // The other target takes over what this one shows.
    for target in 0..2 {
        let case = &models[5].cases[0];
        let predicted = predictor.predict(case, target, Workload::IdleLoaded).unwrap();
        assert_eq!(predicted.basis.law, LawKind::SlowDown);
        let ratio = predicted.time_ns / law(case, target);
        assert!((2.0..3.0).contains(&ratio), "{ratio}");
        assert!(predicted.interval.high / predicted.interval.low > 2.0, "so few cases tell little");
    }
    assert!(predictor.slow_down(1, Workload::IdleLoaded).is_none(), "nothing of its own was measured");
}

#[test]
fn a_waking_curve_recovers_what_is_lost_at_once_and_what_with_time() {
    let truth = |rest_ns: f64| {
        let asleep = |rest: f64| 1.0 - (-rest / 1e9_f64).exp();
        0.3 + 0.7 * asleep(rest_ns) / asleep(1e10)
    };
    let shares: Vec<(f64, f64)> = [0.5e9, 2e9, 3e10].map(|rest| (rest, truth(rest))).to_vec();
    let curve = WakingCurve::fit(&shares).unwrap();
    assert!((curve.at_once - 0.3).abs() < 1e-6 && (curve.constant_ns - 1e9).abs() < 1.0, "{curve:?}");
    for rest in [0.0, 1e8, 1e9, 5e9, 1e10, 4e10] {
        assert!((curve.share(rest) - truth(rest)).abs() < 1e-6, "{rest}");
    }
    assert!((curve.share(USUAL_REST_NS) - 1.0).abs() < 1e-9, "the usual rest adds what was measured");
    assert!(curve.share(1e300).is_finite(), "no rest is too long");
    assert_eq!(WakingCurve::fit(&shares[..2]), None);
    assert_eq!(WakingCurve::fit(&[(f64::NAN, 1.0), (1e9, f64::INFINITY), (0.0, 1.0)]), None);
}

#[test]
fn equal_measurements_predict_equal_times_in_any_order() {
    let mut draws = Draws::new(15);
    let models: Vec<Model> = (0..8).map(|number| model(&mut draws, number)).collect();
    let mut measured = Vec::new();
    for of in &models[1..] {
        for case in &of.cases {
            let time_ns = time(&mut draws, of, case, 0);
            measured.push(Measured { target: 0, case, workload: Workload::Sustained, time_ns });
        }
    }
    let mut reversed = measured.clone();
    reversed.reverse();
    let predict = |measured| learn(measured, Vec::new()).predict(&models[0].cases[1], 0, Workload::Sustained);
    let (one, other) = (predict(measured).unwrap(), predict(reversed).unwrap());
    assert!((one.time_ns / other.time_ns - 1.0).abs() < 1e-9, "{one:?} {other:?}");
}

#[test]
fn nothing_measured_predicts_nothing() {
    let mut draws = Draws::new(16);
    let of = model(&mut draws, 0);
    let predictor = learn(Vec::new(), Vec::new());
    for workload in Workload::ALL {
        assert_eq!(predictor.predict(&of.cases[0], 0, workload), None);
        assert_eq!(predictor.predict(&of.cases[0], 99, workload), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_times_predict_finite_intervals(
        times in prop::collection::vec((0_usize..6, 0_usize..4, 0_usize..TARGETS, 0_usize..3, 1.0_f64..1e17), 0..40),
        starts in prop::collection::vec((0_usize..6, 0_usize..TARGETS, 0.0_f64..1e17), 0..12),
    ) {
        let mut draws = Draws::new(17);
        let models: Vec<Model> = (0..7).map(|number| model(&mut draws, number)).collect();
        let mut seen = std::collections::BTreeSet::new();
        let mut measured = Vec::new();
        for (of, case, target, workload, time_ns) in times {
            if seen.insert((of, case, target, workload)) {
                let (case, workload) = (&models[of].cases[case], Workload::ALL[workload]);
                measured.push(Measured { target, case, workload, time_ns });
            }
        }
        let started = starts.into_iter().map(|(of, target, create_ns)| {
            Started { target, case: &models[of].cases[0], create_ns, first_run_ns: create_ns / 3.0 }
        });
        let predictor = learn(measured, started.collect());
        for of in &models {
            for target in 0..TARGETS {
                for workload in Workload::ALL {
                    if let Some(it) = predictor.predict(&of.cases[2], target, workload) {
                        let Interval { low, high } = it.interval;
                        prop_assert!(0.0 < low && low <= it.time_ns && it.time_ns <= high, "{it:?}");
                        prop_assert!(high.is_finite());
                    }
                }
            }
        }
    }
}
