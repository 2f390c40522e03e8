//! What runs of several cases tell of how their target's times wander, from fixed seeds.

use super::*;
use crate::statistics::{Draws, Interval};

const MINUTE_NS: u64 = 60_000_000_000;
const MS: f64 = 1e6;

fn known(deviation: f64) -> Belief {
    let half = (1.96 * deviation).exp();
    Belief::from_prediction(MS, Interval { low: MS / half, high: MS * half }, 0).unwrap()
}

/// Cases that are run in turns for `minutes`, 20 times a minute each, while their times wander by `per_day`; gives what the
/// target is believed to have wandered to, what it has in truth, and the rate that is believed.
fn run_in_turns(cases: usize, minutes: u64, per_day: f64, seed: u64) -> (f64, f64, f64) {
    let (mut wander, mut draws, mut truth) = (Wander::default(), Draws::new(seed), 0.0);
    let mut beliefs = vec![known(0.05); cases];
    let mut rates = USUAL_RATES;
    for minute in 1..=minutes {
        truth += per_day * (MINUTE_NS as f64 / DAY_NS).sqrt() * draws.normal();
        let at = minute as usize % cases;
        let of = (CaseId([at as u8; 32]), Workload::Sustained);
        for run in 0..20_u64 {
            let now_ns = minute * MINUTE_NS + run * 2_000_000;
            let before = beliefs[at].clone();
            let belief = &mut beliefs[at];
            belief.wandered(wander.level, wander.unknown(before.followed_ns(), now_ns, &rates));
            let time_ns = MS * (truth + 0.08 * draws.normal()).exp();
            let unseen_ns = now_ns.saturating_sub(before.seen_ns());
            if before.runs() > 0 && unseen_ns >= TELLS_AFTER_NS {
                let (_, own, _, scatter) = before.parts(now_ns);
                let off_by = (time_ns / before.time_ns()).ln();
                wander.learn_rate(&Surprise { off_by, unseen_ns, variance: own + scatter });
                rates = shared(&rates, [&wander].into_iter());
            }
            wander.visit(of, belief, now_ns, &rates);
            let changed = belief.observe(time_ns, now_ns).is_some();
            wander.learn(belief, changed, now_ns);
        }
    }
    (wander.level, truth, wander.variance_per_day(&rates).sqrt())
}

#[test]
fn what_all_cases_of_a_target_do_is_followed_by_all_of_them() {
    let mut off_by: Vec<f64> = (0..20)
        .map(|seed| {
            let (believed, truth, rate) = run_in_turns(20, 2_000, 0.3, seed);
            assert!((0.05..=0.4).contains(&rate), "seed {seed}: {rate} a day");
            (believed - truth).abs()
        })
        .collect();
    off_by.sort_by(f64::total_cmp);
    // Times have wandered by a third meanwhile.
    assert!(off_by[10] < 0.1, "{off_by:?}");
}

#[test]
fn where_nothing_wanders_little_is_believed_to() {
    let mut rates: Vec<f64> = (0..20)
        .map(|seed| {
            let (believed, _, rate) = run_in_turns(20, 2_000, 0.0, seed);
            assert!(believed.abs() < 0.03, "seed {seed}: {believed}");
            rate
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    // After rests of 20 minutes, slow rates can hardly be told apart.
    assert!(rates[10] < 0.12, "{rates:?}");
}

#[test]
fn one_that_changes_by_itself_draws_no_other_along() {
    let (mut wander, mut belief) = (Wander::default(), known(0.05));
    let of = (CaseId([1; 32]), Workload::Sustained);
    let mut changed = false;
    for run in 1..=40_u64 {
        let now_ns = run * 1_000_000;
        belief.wandered(wander.level, wander.unknown(belief.followed_ns(), now_ns, &USUAL_RATES));
        wander.visit(of, &mut belief, now_ns, &USUAL_RATES);
        let time_ns = if run > 20 { 3.0 * MS } else { MS };
        let change = belief.observe(time_ns, now_ns).is_some();
        wander.learn(&mut belief, change, now_ns);
        changed |= change;
    }
    assert!(changed && wander.level.abs() < 0.02, "{}", wander.level);
}

#[test]
fn targets_that_nobody_runs_are_believed_to_wander_as_the_others_do() {
    let mut seen = Wander::default();
    let mut draws = Draws::new(9);
    for _ in 0..300 {
        let off_by = (0.01_f64 + 0.3 * 0.3 / 24.0).sqrt() * draws.normal();
        seen.learn_rate(&Surprise { off_by, unseen_ns: 60 * MINUTE_NS, variance: 0.01 });
    }
    let unseen = Wander::default();
    let mut rates = USUAL_RATES;
    for _ in 0..50 {
        // Three targets are run, thirteen are not.
        let targets = std::iter::repeat_n(&seen, 3).chain(std::iter::repeat_n(&unseen, 13));
        rates = shared(&rates, targets);
    }
    let per_day = |wander: &Wander, rates| wander.variance_per_day(rates).sqrt();
    let (of_seen, of_unseen) = (per_day(&seen, &rates), per_day(&unseen, &rates));
    let usual = per_day(&unseen, &USUAL_RATES);
    assert!((0.2..0.4).contains(&of_seen), "{of_seen}");
    // The usual rates count as much as two targets that are run.
    let expected = (0.6 * of_seen * of_seen + 0.4 * usual * usual).sqrt();
    assert!((of_unseen / expected - 1.0).abs() < 0.05, "{of_unseen}, expected {expected}");
}

#[test]
fn what_knowledge_was_off_by_for_some_cases_is_expected_of_the_others() {
    let mut wander = Wander::default();
    let (off_by, alone) = wander.offset(1_000 * MINUTE_NS, &USUAL_RATES);
    assert!(off_by.abs() < 1e-12 && alone > 0.0, "{off_by} {alone}");
    for _ in 0..10 {
        wander.learn_offset(None, Some((-0.2, 400.0)));
        wander.learn_offset(Some((-0.2, 400.0)), Some((-0.3, 400.0)));
    }
    let (off_by, variance) = wander.offset(1_000 * MINUTE_NS, &USUAL_RATES);
    assert!((-0.3..-0.27).contains(&off_by) && variance < alone / 10.0, "{off_by} {variance}");
    // Before times can have wandered, knowledge is as good as it says.
    assert_eq!(wander.offset(0, &USUAL_RATES), (0.0, 0.0));
}
