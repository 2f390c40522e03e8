//! The rules against their definitions, and against an independent implementation.

use proptest::prelude::*;

use super::*;
use crate::model::OperatorClass;
use crate::statistics::draws::Draws;

const MODELS: usize = 5;
const KINDS: [Kind; 3] = [Kind::Cpu, Kind::Cpu, Kind::Accelerator];

/// The facts of model `i`: the same arithmetic as in tests/golden/transfer.py.
fn facts(i: usize) -> CaseTraits {
    let n = i as f64;
    CaseTraits {
        multiply_adds: 1e8 * 3.0_f64.powf(n),
        parameters: 1e6 * (1.0 + n * n),
        activations: Some(2e6 * (1.0 + 3.0 * n)),
        nodes: Some(40.0 + 25.0 * n),
        depthwise_share: Some(0.02 * n),
        matrix_share: Some(0.1 * (i % 2) as f64),
        movement_share: Some(0.05 * (i % 3) as f64),
        // The last model lacks some facts.
        element_wise_share: (i < MODELS - 1).then_some(0.3 + 0.04 * n),
        normalisation_share: (i < MODELS - 1).then_some(0.01 * (i % 2) as f64),
        work: if i < MODELS - 1 { work(i) } else { Vec::new() },
    }
}

fn work(i: usize) -> Vec<SortOfWork> {
    let n = i as f64;
    let sort = |class, window, pack, length: usize, size: usize, multiply_adds, bytes| SortOfWork {
        class,
        window,
        pack,
        length: length as u8,
        size: size as u8,
        multiply_adds,
        bytes,
    };
    let pack = (i > 0).then_some(if i.is_multiple_of(2) { Pack::Open } else { Pack::Full });
    vec![
        sort(OperatorClass::Conv, 3, Some(Pack::Open), 5 + i, 14, 8e7 * (1.0 + n), 3e6),
        sort(OperatorClass::Conv, 1, Some(Pack::Full), 6 + i, 15, 9e7, 5e6 * n),
        // Of one model the packs are not known.
        sort(OperatorClass::DepthwiseConv, 5, pack, 3, 12 + i % 2, 4e6, 2e6 * (1.0 + n)),
    ]
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
        [(14.899_693_738, 0.268_828_296), (15.617_717_045, 0.268_828_296), (16.260_269_097, 0.412_405_510)];
    check_left_out(&prior(), &one_model, &expected);
    check_left_out(&prior(), &[14], &[(16.775_740_593, 0.465_291_281)]);
    let expected =
        [(14.952_559_637, 0.273_089_758), (15.670_407_743, 0.273_089_758), (16.289_961_499, 0.425_379_723)];
    check_left_out(&learned(), &one_model, &expected);
    check_left_out(&learned(), &[14], &[(16.763_575_571, 0.470_235_027)]);
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
fn a_fact_that_is_not_known_widens_intervals() {
    let deviation = |change: fn(&mut CaseTraits)| {
        let models = (0..MODELS).map(|model| {
            let mut facts = facts(model);
            change(&mut facts);
            Traits::new(model, &facts)
        });
        let prior = Prior::of_facts(models.collect());
        Conditioned::new(&prior, &observed(0, &[(2, 1)])).unwrap().predict(2, 1).unwrap().deviation
    };
    let known = deviation(|_| ());
    let unknown = deviation(|it| it.activations = None);
    let nothing = deviation(|it| {
        let CaseTraits { multiply_adds, parameters, .. } = *it;
        *it = CaseTraits { multiply_adds, parameters, ..CaseTraits::default() };
    });
    assert!(known < unknown && unknown < nothing, "{known} {unknown} {nothing}");
}

#[test]
fn what_work_consists_of_is_compared_by_shares() {
    let mixture = |work: &[SortOfWork]| work::Mixture::new(work);
    let twice = |i: usize| {
        let double = |it: SortOfWork| SortOfWork {
            multiply_adds: 2.0 * it.multiply_adds,
            bytes: 2.0 * it.bytes,
            ..it
        };
        work(i).into_iter().map(double).collect::<Vec<_>>()
    };
    let halves = |i: usize| {
        let half = |it: SortOfWork| SortOfWork {
            multiply_adds: 0.5 * it.multiply_adds,
            bytes: 0.5 * it.bytes,
            ..it
        };
        work(i).into_iter().flat_map(|it| [half(it), half(it)]).collect::<Vec<_>>()
    };
    let mixtures = [
        mixture(&work(0)),
        mixture(&twice(0)),
        mixture(&halves(0)),
        mixture(&work(1)),
        mixture(&work(3)),
        None,
    ];
    let all: Vec<Option<&work::Mixture>> = mixtures.iter().map(Option::as_ref).collect();
    let likeness = work::Likeness::of(&all);
    let at = |a: usize, b: usize| likeness.at((a, all[a]), (b, all[b]), a == b);
    assert!((at(0, 0) - at(0, 1)).abs() < 1e-12 && (at(0, 0) - at(0, 2)).abs() < 1e-12);
    assert!(at(0, 3) > at(0, 4), "neighbouring sorts are more alike than distant ones");
    assert_eq!((at(5, 5), at(5, 0)), (1.0, 0.0));
    let jitter = |a: usize, b: usize| at(a, b) + if a == b { 1e-9 } else { 0.0 };
    assert!(crate::cholesky::Symmetric::from_lower(6, jitter).cholesky().is_ok());
    // With one known model there is nothing to compare it with.
    let likeness = work::Likeness::of(&all[4..]);
    let at = |a: usize, b: usize| likeness.at((a, all[4 + a]), (b, all[4 + b]), a == b);
    assert_eq!((at(0, 0), at(1, 1), at(0, 1)), (1.0, 1.0, 0.0));
}

#[test]
fn windows_of_one_and_of_several_places_are_told_apart() {
    let with = |change: fn(&mut SortOfWork)| {
        let mut work = work(0);
        change(&mut work[0]);
        work::Mixture::new(&work)
    };
    let mixtures = [
        with(|it| it.window = 1),
        with(|it| it.window = 3),
        with(|it| it.window = 5),
        with(|it| it.class = OperatorClass::MatMul),
    ];
    let all: Vec<Option<&work::Mixture>> = mixtures.iter().map(Option::as_ref).collect();
    let likeness = work::Likeness::of(&all);
    let at = |a: usize, b: usize| likeness.at((a, all[a]), (b, all[b]), a == b);
    assert!((at(1, 2) - at(1, 1)).abs() < 1e-12, "how many places more than one is not told apart");
    assert!(at(1, 1) > at(0, 1) && at(0, 1) > at(1, 3), "{} {} {}", at(1, 1), at(0, 1), at(1, 3));
}

#[test]
fn packs_are_told_apart_where_they_are_known() {
    let packed = |change: fn(usize) -> Option<Pack>| {
        let mixture = |i: usize| {
            let mut work = work(0);
            work[0].pack = change(i);
            work[1].length += 4 * i as u8;
            work::Mixture::new(&work)
        };
        let mixtures = [mixture(0), mixture(1), mixture(2)];
        let all: Vec<Option<&work::Mixture>> = mixtures.iter().map(Option::as_ref).collect();
        let likeness = work::Likeness::of(&all);
        [(0, 1), (0, 2), (1, 2)].map(|(a, b)| likeness.at((a, all[a]), (b, all[b]), false))
    };
    let alike = packed(|_| Some(Pack::Full));
    let apart = packed(|i| Some([Pack::Full, Pack::Full, Pack::Open][i]));
    assert!(apart[0] - apart[1] > alike[0] - alike[1], "{apart:?} {alike:?}");
    let unknown = packed(|_| None);
    assert!(std::iter::zip(unknown, alike).all(|(a, b)| (a - b).abs() < 1e-12), "{unknown:?} {alike:?}");
}

#[test]
fn amounts_that_are_none_make_no_mixture() {
    let sort = SortOfWork { multiply_adds: -1.0, bytes: f64::NAN, ..work(0)[0] };
    assert_eq!(work::Mixture::new(&[]), None);
    assert_eq!(work::Mixture::new(&[sort]), None);
    let endless = SortOfWork { multiply_adds: f64::INFINITY, ..sort };
    assert_eq!(work::Mixture::new(&[endless, sort]), None);
    assert_eq!(work::Mixture::new(&[endless, work(0)[0]]), work::Mixture::new(&work(0)[..1]));
}

#[test]
fn more_models_than_a_table_holds_are_predicted_alike() {
    // The first models are those of the small prior, the others are never measured.
    let traits = |model: usize| Traits::new(model, &CaseTraits { work: Vec::new(), ..facts(model % MODELS) });
    let small = Prior::of_facts((0..MODELS).map(traits).collect());
    let large = Prior::of_facts((0..=prior::MOST_TABULATED_MODELS).map(traits).collect());
    let observations = observed(0, &[(2, 1)]);
    let predict = |prior: &Prior| Conditioned::new(prior, &observations).unwrap().predict(2, 1).unwrap();
    let (small, large) = (predict(&small), predict(&large));
    assert!((small.mean - large.mean).abs() < 1e-9 && (small.deviation - large.deviation).abs() < 1e-9);
}

/// The times of a machine that `prior` draws.
fn drawn(prior: &Prior, draws: &mut Draws) -> Observations {
    let mut drawn = observed(0, &[]);
    let factor = conditioned::covariance(prior, &drawn).cholesky().unwrap();
    let normal: Vec<f64> = (0..drawn.rows.len()).map(|_| draws.normal()).collect();
    for (row, value) in drawn.rows.iter_mut().zip(factor.times(&normal)) {
        // Levels of deviation 10 would leave the range of times; they tell nothing here.
        row.time_ns = (conditioned::LEVEL_CENTRE + value.clamp(-20.0, 20.0)).exp().clamp(1e-3, 1e18);
    }
    drawn
}

/// The share of the times of `machine`'s models, each left out, that lie inside their intervals.
fn inside(prior: &Prior, machine: &Observations) -> f64 {
    let conditioned = Conditioned::new(prior, machine).unwrap();
    let leaving_out = conditioned.leaving_out();
    let of_model = |model: usize| {
        let rows = [model, MODELS + model, 2 * MODELS + model];
        let found = leaving_out.predict(&rows).unwrap();
        let held =
            rows.iter().zip(found).filter(|(row, it)| it.interval_ns().contains(machine.rows[**row].time_ns));
        held.count()
    };
    (0..MODELS).map(of_model).sum::<usize>() as f64 / machine.rows.len() as f64
}

#[test]
fn intervals_cover_what_the_prior_draws() {
    // Times drawn from the model itself: 95 % intervals must hold 95 % of them, 4 standard errors allowed.
    let (prior, mut draws) = (prior(), Draws::new(7));
    let share = (0..400).map(|_| inside(&prior, &drawn(&prior, &mut draws))).sum::<f64>() / 400.0;
    assert!((share - 0.95).abs() < 4.0 * (0.95_f64 * 0.05 / 400.0).sqrt(), "{share}");
}

#[test]
fn intervals_still_cover_once_other_machines_are_learned_from() {
    // What differs from the facts' prior are the models' means, by kind: only other machines tell of them.
    let (facts, mut draws) = (prior(), Draws::new(11));
    let shift: Vec<f64> = (0..2 * MODELS).map(|_| 0.25 * draws.normal()).collect();
    let mut machine = || {
        let mut machine = drawn(&facts, &mut draws);
        for row in &mut machine.rows {
            row.time_ns = (row.time_ns * shift[facts.row(KINDS[row.candidate], row.model)].exp()).min(1e18);
        }
        machine
    };
    let others: Vec<Observations> = (0..24).map(|_| machine()).collect();
    let learned = facts.learn(&others.iter().collect::<Vec<_>>()).unwrap();
    let machines: Vec<Observations> = (0..200).map(|_| machine()).collect();
    let share =
        |prior: &Prior| machines.iter().map(|it| inside(prior, it)).sum::<f64>() / machines.len() as f64;
    let (before, after) = (share(&facts), share(&learned));
    assert!((0.92..=0.97).contains(&after), "{after}");
    assert!(before < 0.9, "what was drawn does differ: {before}");
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
                multiply_adds: it[0], parameters: it[1], activations: Some(it[2]), nodes: Some(it[3]),
                depthwise_share: (model % 2 == 0).then_some(it[4]), matrix_share: Some(it[5]),
                movement_share: Some(it[6]), element_wise_share: Some(it[7]), normalisation_share: Some(it[8]),
                work: vec![SortOfWork {
                    class: OperatorClass::Conv, window: 3, pack: None, length: model as u8, size: 255, multiply_adds: it[0],
                    bytes: it[1],
                }],
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
