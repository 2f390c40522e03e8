//! The rules against their definitions, and against an independent implementation.

use proptest::prelude::*;

use super::*;
use crate::statistics::draws::Draws;

const MODELS: usize = 5;
const KINDS: [Kind; 3] = [Kind::Cpu, Kind::Cpu, Kind::Accelerator];

/// The facts of model `i`: the same arithmetic as in tests/golden/transfer.py.
fn facts(i: usize) -> CaseTraits {
    let n = i as f64;
    CaseTraits {
        multiply_adds: 1e8 * 3.0_f64.powf(n),
        parameters: 1e6 * (1.0 + n * n),
        activations: 2e6 * (1.0 + 3.0 * n),
        nodes: 40.0 + 25.0 * n,
        depthwise_share: 0.02 * n,
        matrix_share: 0.1 * (i % 2) as f64,
        movement_share: 0.05 * (i % 3) as f64,
        element_wise_share: 0.3 + 0.04 * n,
        normalisation_share: 0.01 * (i % 2) as f64,
    }
}

fn prior() -> Prior {
    Prior::of_facts((0..MODELS).map(|model| Traits::new(model, &facts(model))).collect())
}

fn time_ns(machine: usize, candidate: usize, model: usize) -> f64 {
    let (c, m) = (candidate as f64, model as f64);
    let jump = ((7 * model + 5 * candidate + 3 * machine) % 4) as f64;
    1e6 * ((1.0 + 0.3 * machine as f64 + 0.7 * c) * (1.0 + m).powf(1.0 + 0.2 * c) + 0.05 * jump)
}

fn observed(machine: usize, missing: &[(usize, usize)]) -> Observations {
    let cells = (0..KINDS.len()).flat_map(|candidate| (0..MODELS).map(move |model| (candidate, model)));
    let rows = cells.filter(|cell| !missing.contains(cell)).map(|(candidate, model)| Row {
        candidate,
        model,
        time_ns: time_ns(machine, candidate, model),
    });
    Observations { kinds: KINDS.to_vec(), rows: rows.collect() }
}

fn learned() -> Prior {
    prior().learn(&[&observed(1, &[]), &observed(2, &[(0, 3), (2, 1)])]).unwrap()
}

#[track_caller]
fn check_left_out(prior: &Prior, rows: &[usize], expected: &[(f64, f64)]) {
    let observations = observed(0, &[]);
    let conditioned = Conditioned::new(prior, &observations).unwrap();
    let found = conditioned.leaving_out().predict(rows).unwrap();
    assert_eq!(found.len(), expected.len());
    for (found, (mean, deviation)) in found.iter().zip(expected) {
        assert!((found.mean - mean).abs() < 1e-6, "{found:?}, expected {mean}");
        assert!((found.deviation - deviation).abs() < 1e-6, "{found:?}, expected {deviation}");
    }
}

#[test]
fn equals_an_independent_implementation() {
    let one_model = [2, 7, 12];
    let expected =
        [(14.838_255_428, 0.226_449_702), (15.545_265_279, 0.226_449_702), (16.100_067_805, 0.316_772_058)];
    check_left_out(&prior(), &one_model, &expected);
    check_left_out(&prior(), &[14], &[(17.014_453_772, 0.401_977_086)]);
    let expected =
        [(14.926_551_104, 0.206_300_129), (15.634_319_243, 0.206_300_129), (16.236_411_234, 0.291_383_061)];
    check_left_out(&learned(), &one_model, &expected);
    check_left_out(&learned(), &[14], &[(16.933_810_880, 0.368_044_760)]);
}

#[test]
fn leaving_out_equals_joining_all_other_rows_anew() {
    for prior in [prior(), learned()] {
        let all = observed(0, &[]);
        let conditioned = Conditioned::new(&prior, &all).unwrap();
        let left_out = conditioned.leaving_out().predict(&[1, 6]).unwrap();
        let rest = observed(0, &[(0, 1), (1, 1)]);
        let conditioned = Conditioned::new(&prior, &rest).unwrap();
        for (candidate, expected) in left_out.iter().enumerate() {
            let found = conditioned.predict(candidate, 1).unwrap();
            assert!((found.mean - expected.mean).abs() < 1e-6, "{found:?}, {expected:?}");
            assert!((found.deviation - expected.deviation).abs() < 1e-6, "{found:?}, {expected:?}");
        }
    }
}

#[test]
fn a_time_on_one_candidate_narrows_the_others() {
    let prior = prior();
    let without = observed(0, &[(0, 1), (1, 1), (2, 1)]);
    let with = observed(0, &[(1, 1), (2, 1)]);
    let deviation = |observations: &Observations| {
        Conditioned::new(&prior, observations).unwrap().predict(1, 1).unwrap().deviation
    };
    assert!(deviation(&with) < deviation(&without));
}

#[test]
fn faster_machines_are_predicted_faster_by_the_same_factor() {
    let prior = prior();
    let slow = observed(0, &[(2, 1)]);
    let mut fast = slow.clone();
    fast.rows.iter_mut().for_each(|row| row.time_ns /= 8.0);
    let predict = |it: &Observations| Conditioned::new(&prior, it).unwrap().predict(2, 1).unwrap();
    let (slow, fast) = (predict(&slow), predict(&fast));
    // Levels are all but free: their deviation of 10 leaves a pull of less than a percent to the centre.
    assert!((slow.mean - fast.mean - 8.0_f64.ln()).abs() < 0.01, "{slow:?} {fast:?}");
    assert!((slow.deviation - fast.deviation).abs() < 1e-12);
}

#[test]
fn other_machines_teach_what_facts_do_not_tell() {
    // Model 3 takes three times as long as its facts say, on every accelerator.
    let odd = |machine: usize, missing: &[(usize, usize)]| {
        let mut observations = observed(machine, missing);
        let slow = observations.rows.iter_mut().filter(|row| (row.candidate, row.model) == (2, 3));
        slow.for_each(|row| row.time_ns *= 3.0);
        observations
    };
    let machines: Vec<Observations> = (1..12).map(|machine| odd(machine, &[])).collect();
    let prior = prior();
    let learned = prior.learn(&machines.iter().collect::<Vec<_>>()).unwrap();
    let truth = 3.0 * time_ns(0, 2, 3);
    let error = |prior: &Prior| {
        let observations = odd(0, &[(0, 3), (1, 3), (2, 3)]);
        let predicted = Conditioned::new(prior, &observations).unwrap().predict(2, 3).unwrap();
        (predicted.mean - truth.ln()).abs()
    };
    assert!(error(&learned) < 0.35 * error(&prior), "{} {}", error(&learned), error(&prior));
}

#[test]
fn with_no_other_machine_the_prior_stays() {
    let facts = prior();
    let learned = facts.learn(&[]).unwrap();
    let observations = observed(0, &[(2, 1)]);
    let predict = |prior: &Prior| Conditioned::new(prior, &observations).unwrap().predict(2, 1).unwrap();
    assert!((predict(&facts).mean - predict(&learned).mean).abs() < 1e-9);
}

#[test]
fn intervals_cover_what_the_prior_draws() {
    // Times drawn from the model itself: 95 % intervals must hold 95 % of them, 4 standard errors allowed.
    let prior = prior();
    let template = observed(0, &[]);
    let covariance = conditioned::covariance(&prior, &template);
    let factor = covariance.cholesky().unwrap();
    let mut draws = Draws::new(7);
    let (mut inside, mut total) = (0, 0);
    for _ in 0..400 {
        let normal: Vec<f64> = (0..template.rows.len()).map(|_| draws.normal()).collect();
        let mut drawn = template.clone();
        for (index, row) in drawn.rows.iter_mut().enumerate() {
            // Levels of deviation 10 would leave the range of times; they tell nothing here.
            let value = factor.times(&normal)[index].clamp(-20.0, 20.0);
            row.time_ns = (conditioned::LEVEL_CENTRE + value).exp().clamp(1e-3, 1e18);
        }
        let conditioned = Conditioned::new(&prior, &drawn).unwrap();
        let found = conditioned.leaving_out().predict(&[3, 8, 13]).unwrap();
        for (row, found) in [3, 8, 13].into_iter().zip(found) {
            inside += usize::from(found.interval_ns().contains(drawn.rows[row].time_ns));
            total += 1;
        }
    }
    let share = inside as f64 / f64::from(total);
    assert!((share - 0.95).abs() < 4.0 * (0.95_f64 * 0.05 / 400.0).sqrt(), "{share}");
}

#[test]
fn the_expected_time_exceeds_the_median_by_its_doubt() {
    let time = LogTime { mean: 2.0, deviation: 0.5 };
    assert!((time.expected_ns() / time.median_ns() - 0.125_f64.exp()).abs() < 1e-12);
    let interval = time.interval_ns();
    assert!(interval.low < time.median_ns() && time.median_ns() < interval.high);
}

#[test]
fn refuses_rows_that_are_no_times() {
    type Change = fn(&mut Observations);
    let cases: [(Change, &str); 6] = [
        (|it| it.rows[3].time_ns = 0.0, "measured time 3 is 0 ns"),
        (|it| it.rows[3].time_ns = f64::NAN, "measured time 3 is NaN ns"),
        (|it| it.rows[3].time_ns = f64::INFINITY, "measured time 3"),
        (|it| it.rows[4].model = MODELS, "no known model"),
        (|it| it.rows[4].candidate = 3, "no known candidate"),
        (|it| it.rows = vec![it.rows[0]; MOST_ROWS + 1], "at most 4000"),
    ];
    for (change, expected) in cases {
        let mut observations = observed(0, &[]);
        change(&mut observations);
        let prior = prior();
        let error = Conditioned::new(&prior, &observations).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(prior.learn(&[&observations]).unwrap_err().to_string(), error.to_string());
    }
    let many = Prior::of_facts(vec![Traits::new(0, &facts(0)); MOST_LEARNED_MODELS + 1]);
    assert!(matches!(many.learn(&[]), Err(TransferError::TooManyModels { .. })));
    let (prior, observations) = (prior(), observed(0, &[]));
    let conditioned = Conditioned::new(&prior, &observations).unwrap();
    assert_eq!((conditioned.predict(3, 0), conditioned.predict(0, MODELS)), (None, None));
    let leaving_out = conditioned.leaving_out();
    assert!(leaving_out.predict(&[99]).is_err() && leaving_out.predict(&[1, 1]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_facts_and_times_give_a_prediction_with_an_interval(
        amounts in prop::collection::vec(any::<f64>(), 9 * 4), times in prop::collection::vec(1e-3_f64..1e18, 8),
    ) {
        let models = amounts.chunks_exact(9).enumerate().map(|(model, it)| {
            Traits::new(model, &CaseTraits {
                multiply_adds: it[0], parameters: it[1], activations: it[2], nodes: it[3], depthwise_share: it[4],
                matrix_share: it[5], movement_share: it[6], element_wise_share: it[7], normalisation_share: it[8],
            })
        });
        let prior = Prior::of_facts(models.collect());
        let rows = times.iter().enumerate().map(|(index, &time_ns)| Row {
            candidate: index % 2, model: index / 2 % 3, time_ns,
        });
        let rows: Vec<Row> = rows.take(6).collect();
        let observations = Observations { kinds: vec![Kind::Cpu, Kind::Accelerator], rows };
        let conditioned = Conditioned::new(&prior, &observations).unwrap();
        let found = conditioned.predict(1, 3).unwrap();
        prop_assert!(found.mean.is_finite() && found.deviation > 0.0);
        prop_assert_eq!(conditioned.leaving_out().predict(&[0, 1]).unwrap().len(), 2);
    }
}
