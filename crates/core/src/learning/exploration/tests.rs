//! What is explored, and what it costs: targets and times are made up, from fixed seeds.

use super::*;
use crate::learning::Belief;
use crate::statistics::{Draws, Interval};

const BEST: TargetIndex = TargetIndex(0);
const OTHER: TargetIndex = TargetIndex(1);

fn candidate(target: TargetIndex, time_ns: f64, deviation: f64) -> Candidate<'static> {
    let half = (1.96 * deviation).exp();
    let interval = Interval { low: time_ns / half, high: time_ns * half };
    let source = Source::Served { runs: 1, strained: false };
    Candidate {
        target,
        outlook: Ok(Prediction { time_ns, interval, source }),
        energy: None,
        memory_bytes: None,
        load_watts: None,
        within_ns: None,
        spread: None,
        barred: None,
        score: Some(time_ns),
    }
}

fn allowance(left_ns: f64, runs_ahead: f64) -> Allowance {
    Allowance { left_ns, open: None, runs: 1, held: None, runs_ahead }
}

/// What is looked at instead of `BEST`, where no target needs to be got going.
fn looked_at(candidates: &[Candidate<'_>], allowance: &Allowance) -> Option<TargetIndex> {
    explore(candidates, BEST, allowance, |_| Some(0.0)).map(|(target, _)| target)
}

#[test]
fn what_may_be_faster_is_looked_at_within_the_allowance() {
    let near = [candidate(BEST, 100.0, 0.1), candidate(OTHER, 105.0, 0.1)];
    let sure = [candidate(BEST, 100.0, 0.01), candidate(OTHER, 150.0, 0.01)];
    let plenty = allowance(1e6, 500.0);
    assert_eq!(looked_at(&near, &plenty), Some(OTHER));
    assert_eq!(looked_at(&sure, &plenty), None);
    for left_ns in [0.0, -1.0, f64::NAN, 4.9] {
        assert_eq!(looked_at(&near, &allowance(left_ns, 500.0)), None, "{left_ns}");
    }
    assert_eq!(looked_at(&near[..1], &plenty), None);
    assert_eq!(explore(&near, TargetIndex(7), &plenty, |_| Some(0.0)), None);
    let mut barred = near;
    barred[1].barred = Some(crate::decide::Bar::Quarantined);
    assert_eq!(looked_at(&barred, &plenty), None);
}

#[test]
fn a_visit_pays_over_many_runs_and_not_over_a_few() {
    let near = [candidate(BEST, 100.0, 0.05), candidate(OTHER, 110.0, 0.15)];
    assert_eq!(looked_at(&near, &allowance(1e6, 2.0)), None);
    assert_eq!(looked_at(&near, &allowance(1e6, 200.0)), Some(OTHER));
    for runs_ahead in [0.0, -1.0, f64::NAN] {
        assert_eq!(looked_at(&near, &allowance(1e6, runs_ahead)), None, "{runs_ahead}");
    }
}

#[test]
fn of_two_the_more_doubtful_one_is_looked_at_and_what_is_worth_most_is_saved_for() {
    let third = TargetIndex(2);
    let doubtful = [candidate(BEST, 100.0, 0.05), candidate(OTHER, 110.0, 0.1), candidate(third, 110.0, 0.3)];
    assert_eq!(looked_at(&doubtful, &allowance(1e6, 500.0)), Some(third));
    let [_, (_, cheap), (_, dear)] = doubtful
        .each_ref()
        .map(|it| (it.target, 110.0 * (0.5 * deviation(&it.outlook.unwrap()).powi(2)).exp() - 100.0));
    assert!(cheap < dear);
    assert_eq!(looked_at(&doubtful, &allowance(0.5 * (cheap + dear), 500.0)), None);
    assert_eq!(looked_at(&doubtful[..2], &allowance(0.5 * (cheap + dear), 500.0)), Some(OTHER));
}

#[test]
fn what_it_takes_to_get_a_target_going_and_all_runs_of_a_visit_are_part_of_its_cost() {
    let near = [candidate(BEST, 100.0, 0.1), candidate(OTHER, 105.0, 0.1)];
    let looks = |left_ns, runs, start_ns: Option<f64>| {
        let allowance = Allowance { runs, ..allowance(left_ns, 1e7) };
        explore(&near, BEST, &allowance, |_| start_ns).is_some()
    };
    assert!(looks(10.0, 1, Some(0.0)));
    assert!(!looks(10.0, 3, Some(0.0)));
    assert!(!looks(1e3, 1, Some(1e6)));
    assert!(!looks(1e9, 1, None));
    assert!(looks(2e6, 1, Some(1e6)));
}

#[test]
fn the_expected_saving_is_the_mean_of_what_draws_save() {
    let mut draws = Draws::new(5);
    for (time_ns, told) in [(90.0, 0.1), (100.0, 0.05), (110.0, 0.2), (130.0, 0.1), (160.0, 0.4)] {
        let saved: Vec<f64> =
            (0..400_000).map(|_| (100.0 - time_ns * (told * draws.normal()).exp()).max(0.0)).collect();
        let count = saved.len() as f64;
        let mean = saved.iter().sum::<f64>() / count;
        let error = (saved.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count / count).sqrt();
        let told_ns = expected_saving_ns(100.0, time_ns, told).unwrap();
        assert!((told_ns - mean).abs() < 4.0 * error, "{time_ns} {told}: {told_ns}, drawn {mean} ± {error}");
    }
    for (time_ns, told) in [(200.0, 0.1), (f64::NAN, 0.1), (150.0, 0.0), (100.0, 0.0)] {
        assert_eq!(expected_saving_ns(100.0, time_ns, told), None, "{time_ns} {told}");
    }
}

#[test]
fn a_visit_that_began_goes_on_while_anything_is_left() {
    let far = [candidate(BEST, 100.0, 0.01), candidate(OTHER, 200.0, 0.01)];
    let held = |left_ns, held| {
        explore(&far, BEST, &Allowance { held: Some(held), ..allowance(left_ns, 1.0) }, |_| None)
    };
    assert_eq!(held(1.0, OTHER).map(|(target, _)| target), Some(OTHER));
    assert_eq!(held(0.0, OTHER), None);
    assert_eq!(held(1.0, BEST), None);
    assert_eq!(held(1.0, TargetIndex(9)), None);
}

/// Uses a case for `runs` runs on targets with the `truths` as times, predicted to within a third; gives the regret in
/// percent of the last half, and the account.
fn use_case(truths: &[f64], runs: u64, share: f64, seed: u64) -> (f64, Account) {
    let mut draws = Draws::new(seed);
    let mut account = Account::new(share);
    let mut beliefs: Vec<Belief> = truths
        .iter()
        .map(|truth| {
            let predicted = truth * (0.2 * draws.normal()).exp();
            let interval = Interval { low: predicted / 1.5, high: predicted * 1.5 };
            Belief::from_prediction(predicted, interval, 0).unwrap()
        })
        .collect();
    let least = truths.iter().copied().fold(f64::INFINITY, f64::min);
    let mut late = 0.0;
    for run in 1..=runs {
        let now = run * 1_000_000_000;
        let of_belief = |(index, belief): (usize, &Belief)| {
            candidate(TargetIndex(index as u16), belief.time_ns(), belief.deviation(now))
        };
        let candidates: Vec<_> = beliefs.iter().enumerate().map(of_belief).collect();
        let best = (0..beliefs.len()).min_by(|&a, &b| beliefs[a].time_ns().total_cmp(&beliefs[b].time_ns()));
        let best = TargetIndex(best.unwrap() as u16);
        let allowance = allowance(account.left_ns(), run as f64);
        let explored = explore(&candidates, best, &allowance, |_| Some(0.0));
        let chosen = usize::from(explored.map_or(best, |(target, _)| target).0);
        let time = truths[chosen] * (0.05 * draws.normal()).exp();
        account.spend(time, explored.map(|_| beliefs[usize::from(best.0)].time_ns()));
        beliefs[chosen].observe(time, now);
        late += if run > runs / 2 { truths[chosen] / least - 1.0 } else { 0.0 };
    }
    (200.0 * late / runs as f64, account)
}

#[test]
fn after_50_runs_the_choice_is_within_2_percent_of_the_best_and_exploring_within_its_share() {
    let (mut late, mut shares) = (0.0, Vec::new());
    let worlds = 200;
    for seed in 0..worlds {
        let mut draws = Draws::new(1_000 + seed);
        let truths: Vec<f64> = (0..16).map(|_| 1e6 * (0.5 * draws.normal()).exp()).collect();
        let (half, account) = use_case(&truths, 100, 0.01, seed);
        late += half;
        shares.push(account.explored_ns / account.total_ns);
    }
    let mean = late / worlds as f64;
    assert!(mean < 2.0, "regret of runs 51 to 100: {mean} %");
    shares.sort_by(f64::total_cmp);
    let (middle, most) = (shares[shares.len() / 2], shares[shares.len() - 1]);
    assert!(middle <= 0.01 && most < 0.02, "explored {middle} and at most {most} of the time");
}

#[test]
fn a_greater_share_finds_more() {
    let regret =
        |share| (0..100).map(|seed| use_case(&[1.0e6, 1.1e6, 1.2e6, 1.3e6], 200, share, seed).0).sum::<f64>();
    assert!(regret(0.02) < regret(0.0), "{} {}", regret(0.02), regret(0.0));
}
