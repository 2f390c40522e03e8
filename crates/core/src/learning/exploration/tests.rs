//! What is explored, and what it costs: targets and times are made up, from fixed seeds.

use super::*;
use crate::learning::Belief;
use crate::statistics::Interval;

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

fn allowance(left_ns: f64, draw: u64) -> Allowance {
    Allowance { left_ns, seed: 1, draw, open: None, runs: 1, held: None }
}

/// How often of 1,000 decisions `OTHER` is looked at.
fn visits(candidates: &[Candidate<'_>], left_ns: f64, best: TargetIndex) -> usize {
    let explored = |draw| explore(candidates, best, &allowance(left_ns, draw), |_| Some(0.0));
    (0..1_000).filter(|&draw| explored(draw).is_some_and(|(target, _)| target == OTHER)).count()
}

#[test]
fn what_may_be_faster_is_looked_at_within_the_allowance() {
    let near = [candidate(BEST, 100.0, 0.1), candidate(OTHER, 105.0, 0.1)];
    let sure = [candidate(BEST, 100.0, 0.01), candidate(OTHER, 150.0, 0.01)];
    assert!((200..600).contains(&visits(&near, 1e6, BEST)), "{}", visits(&near, 1e6, BEST));
    assert_eq!(visits(&sure, 1e6, BEST), 0);
    for left_ns in [0.0, -1.0, f64::NAN, 4.9] {
        assert_eq!(visits(&near, left_ns, BEST), 0, "{left_ns}");
    }
    assert_eq!(visits(&near[..1], 1e6, BEST), 0);
    assert_eq!(visits(&near, 1e6, TargetIndex(7)), 0);
    let mut barred = near;
    barred[1].barred = Some(crate::decide::Bar::Quarantined);
    assert_eq!(visits(&barred, 1e6, BEST), 0);
}

#[test]
fn what_it_takes_to_get_a_target_going_and_all_runs_of_a_visit_are_part_of_its_cost() {
    let near = [candidate(BEST, 100.0, 0.1), candidate(OTHER, 105.0, 0.1)];
    let visits = |left_ns, runs, start_ns: Option<f64>| {
        let explored =
            |draw| explore(&near, BEST, &Allowance { runs, ..allowance(left_ns, draw) }, |_| start_ns);
        (0..1_000).filter(|&draw| explored(draw).is_some()).count()
    };
    assert!(visits(10.0, 1, Some(0.0)) > 200);
    assert_eq!(visits(10.0, 3, Some(0.0)), 0);
    assert_eq!(visits(1e3, 1, Some(1e6)), 0);
    assert_eq!(visits(1e9, 1, None), 0);
    assert!(visits(2e6, 1, Some(1e6)) > 200);
}

#[test]
fn a_visit_that_began_goes_on_while_anything_is_left() {
    let far = [candidate(BEST, 100.0, 0.01), candidate(OTHER, 200.0, 0.01)];
    let held = |left_ns, held| {
        explore(&far, BEST, &Allowance { held: Some(held), ..allowance(left_ns, 1) }, |_| None)
    };
    assert_eq!(held(1.0, OTHER).map(|(target, _)| target), Some(OTHER));
    assert_eq!(held(0.0, OTHER), None);
    assert_eq!(held(1.0, BEST), None);
    assert_eq!(held(1.0, TargetIndex(9)), None);
}

#[test]
fn one_seed_explores_the_same_again() {
    let candidates = [candidate(BEST, 100.0, 0.2), candidate(OTHER, 110.0, 0.3)];
    let choices = |seed| {
        let explored =
            |draw| explore(&candidates, BEST, &Allowance { seed, ..allowance(1e6, draw) }, |_| Some(0.0));
        (0..200).map(explored).collect::<Vec<_>>()
    };
    assert_eq!(choices(7), choices(7));
    assert_ne!(choices(7), choices(8));
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
        let allowance = Allowance { seed, ..allowance(account.left_ns(), run) };
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
