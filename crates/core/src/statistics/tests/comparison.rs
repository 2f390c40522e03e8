//! Student's t, the signed-rank center, and comparisons of two targets.

use super::*;
use crate::statistics::signed_rank::estimate_paired_center;
use crate::statistics::student;

#[test]
fn student_matches_an_independent_implementation() {
    // scipy.stats.t: ppf and sf; tests/golden/statistics.py.
    for (confidence, degrees, expected) in [
        (0.95, 1, 12.706_204_736_174_694),
        (0.95, 2, 4.302_652_729_749_462),
        (0.95, 4, 2.776_445_105_197_793_4),
        (0.95, 7, 2.364_624_251_592_784),
        (0.95, 30, 2.042_272_456_301_237_8),
        (0.95, 101, 1.983_731_002_955_606),
        (0.99, 5, 4.032_142_983_555_228),
        (0.999, 3, 12.923_978_636_687_961),
    ] {
        let found = student::critical(confidence, degrees).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-11, "{degrees}: {found}");
    }
    for (t, degrees, expected) in [
        (0.5, 1, 0.704_832_764_699_133_5),
        (2.0, 1, 0.295_167_235_300_866_5),
        (2.5, 2, 0.129_611_720_221_510_82),
        (-2.5, 3, 0.087_706_647_008_065_56),
        (1.0, 8, 0.346_593_507_087_334_16),
        (3.3, 9, 0.009_229_908_318_547_019),
        (4.0, 1000, 6.800_991_920_878_163e-5),
    ] {
        let found = student::two_sided_p(t, degrees);
        assert!((found - expected).abs() < 1e-13, "{t}, {degrees}: {found}");
    }
    assert_eq!(student::critical(0.95, 0), None);
    assert_eq!(student::critical(1.0, 3), None);
    assert_close(student::two_sided_p(f64::INFINITY, 4), 0.0);
    assert!((student::critical(0.95, 100_000).unwrap() - student::NORMAL_95).abs() < 1e-4);
}

#[test]
fn signed_rank_matches_an_independent_implementation() {
    // p: scipy.stats.wilcoxon(method="exact"); estimate and ends: tests/golden/statistics.py.
    let differences = [0.031, -0.004, 0.022, 0.017, 0.048, 0.009, -0.012, 0.027, 0.035, 0.011];
    let found = estimate_paired_center(&differences, 0.95).unwrap();
    assert_close(found.p, 0.019_531_25);
    assert_close(found.estimate, 0.019);
    let interval = found.interval.unwrap();
    assert_close(interval.low, 0.005);
    assert_close(interval.high, 0.031);
}

#[test]
fn six_differences_are_the_least_that_reach_95_percent() {
    let five = [0.1, 0.2, 0.3, 0.4, 0.5];
    assert_eq!(estimate_paired_center(&five, 0.95).unwrap().interval, None);
    let six = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
    let found = estimate_paired_center(&six, 0.95).unwrap();
    assert_eq!(found.interval, Some(Interval { low: 0.1, high: 0.6 }));
    assert_close(found.p, 0.031_25);
}

#[test]
fn equal_differences_of_0_are_no_evidence_at_all() {
    let found = estimate_paired_center(&[0.0; 20], 0.95).unwrap();
    assert_close(found.p, 1.0);
    assert_eq!(found.interval, Some(Interval { low: 0.0, high: 0.0 }));
    assert!(estimate_paired_center(&[], 0.95).is_none());
}

/// Rounds of sessions whose ratio of first to second is given per session.
fn compare(ratios: &[f64], rounds: u32) -> Option<Comparison> {
    let blocks: Vec<(u32, [f64; 3], [f64; 3])> = ratios
        .iter()
        .zip(0..)
        .flat_map(|(ratio, session)| {
            (0..rounds).map(move |round| {
                let level = 100.0 + f64::from(round);
                (session, [level * ratio, level * ratio, 1e6], [level, level, level])
            })
        })
        .collect();
    let rounds: Vec<PairedRound<'_>> = blocks
        .iter()
        .map(|(session, first, second)| PairedRound { session: *session, first, second })
        .collect();
    compare_paired(&rounds)
}

#[test]
fn sessions_that_agree_have_a_verdict_in_percent_of_the_second() {
    let slower = compare(&[1.05, 1.06, 1.05, 1.04, 1.05], 4).unwrap();
    assert_eq!((slower.scope, slower.sessions, slower.rounds), (Scope::Sessions, 5, 20));
    let Verdict::Slower { percent, interval } = slower.verdict else { panic!("{slower:?}") };
    assert!((percent - 5.0).abs() < 0.05 && interval.contains(5.0) && interval.low > 3.5, "{slower:?}");
    let faster = compare(&[0.80, 0.81, 0.80, 0.79, 0.80], 4).unwrap();
    let Verdict::Faster { percent, interval } = faster.verdict else { panic!("{faster:?}") };
    assert!((percent - 20.0).abs() < 0.1 && interval.contains(20.0) && interval.low > 18.0, "{faster:?}");
}

#[test]
fn paired_interval_is_students_over_sessions() {
    let ratios = [1.02_f64, 0.99, 1.04, 1.01];
    let found = compare(&ratios, 3).unwrap();
    // scipy.stats.ttest_1samp of the logs; tests/golden/statistics.py.
    assert_close(found.p.unwrap(), 0.246_470_431_519_386_83);
    let interval = found.interval.unwrap();
    assert!(
        (interval.low - 0.982_248_393_603_666_3).abs() < 1e-9
            && (interval.high - 1.048_512_741_800_418_3).abs() < 1e-9
    );
    assert_eq!(found.verdict, Verdict::NotSeparable);
}

#[test]
fn sessions_that_disagree_are_not_separable_however_many_rounds_they_have() {
    let found = compare(&[1.2, 0.9, 1.1], 500).unwrap();
    assert_eq!(found.verdict, Verdict::NotSeparable);
    assert!(found.session_spread.unwrap() > 0.1);
}

#[test]
fn one_session_speaks_for_itself_and_needs_a_large_difference() {
    for (ratio, separable) in [(1.05, false), (1.30, true), (0.5, true)] {
        let found = compare(&[ratio], 12).unwrap();
        assert_eq!((found.scope, found.session_spread), (Scope::OneSession, None));
        assert!(found.interval.unwrap().contains(found.ratio));
        assert_eq!(found.verdict != Verdict::NotSeparable, separable, "{found:?}");
    }
    let few = compare(&[1.5], 5).unwrap();
    assert_eq!((few.interval, few.p, few.verdict), (None, None, Verdict::NotSeparable));
}

#[test]
fn few_rounds_give_a_range_that_does_not_contradict_the_medians() {
    let mut contradictions = 0;
    let mut one_sided = 0;
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // One in four is an outlier.
        let level = (state >> 33) as f64 / f64::from(1_u32 << 31);
        if state >> 62 == 0 { 20.0 + level } else { 1.0 + level }
    };
    for count in [1, 3, 5] {
        for _ in 0..2000 {
            let pairs: Vec<[[f64; 1]; 2]> = (0..count).map(|_| [[draw()], [draw()]]).collect();
            let rounds: Vec<PairedRound<'_>> =
                pairs.iter().map(|[first, second]| PairedRound { session: 0, first, second }).collect();
            let found = compare_paired(&rounds).unwrap();
            let range = found.range.unwrap();
            assert_eq!(found.interval, None);
            assert!(range.low <= found.ratio * (1.0 + 1e-12) && found.ratio <= range.high * (1.0 + 1e-12));
            let of =
                |side: usize| median(&pairs.iter().map(|pair| pair[side][0]).collect::<Vec<_>>()).unwrap();
            let medians = of(0) / of(1);
            contradictions += u32::from((medians < 1.0) != (found.ratio < 1.0));
            if !range.contains(1.0) {
                one_sided += 1;
                assert_eq!(medians < 1.0, range.high < 1.0, "{pairs:?}");
            }
        }
    }
    // What the center alone would have told.
    assert!(contradictions > 100 && one_sided > 100, "{contradictions} {one_sided}");
}

#[test]
fn rounds_that_were_not_side_by_side_have_no_range() {
    assert_eq!(compare_unpaired(&[10.0], &[20.0]).unwrap().range, None);
    let several = compare(&[1.2, 0.9, 1.1], 2).unwrap().range.unwrap();
    assert!((several.low - 0.9).abs() < 1e-9 && (several.high - 1.2).abs() < 1e-9);
}

#[test]
fn rounds_without_a_time_are_left_out() {
    let empty = PairedRound { session: 0, first: &[], second: &[1.0] };
    let zero = PairedRound { session: 0, first: &[0.0], second: &[1.0] };
    let unknown = PairedRound { session: 0, first: &[f64::NAN], second: &[1.0] };
    assert_eq!(compare_paired(&[empty, zero, unknown]), None);
    assert_eq!(compare_paired(&[]), None);
    let good = PairedRound { session: 0, first: &[2.0], second: &[1.0] };
    assert_eq!(compare_paired(&[empty, good]).unwrap().rounds, 1);
}

#[test]
fn campaigns_made_apart_match_welch() {
    let found = compare_unpaired(&[10.0, 10.4, 9.9, 10.2], &[11.0, 11.9, 11.2]).unwrap();
    // Welch's t of the logs with its degrees of freedom rounded down; tests/golden/statistics.py.
    assert!((found.p.unwrap() - 0.047_876_614_909_137_36).abs() < 1e-12, "{:?}", found.p);
    assert!((found.ratio - 0.891_109_937_098_419_9).abs() < 1e-12, "{}", found.ratio);
}

#[test]
fn one_session_on_either_side_leaves_the_spread_unknown() {
    let found = compare_unpaired(&[10.0], &[20.0, 21.0, 20.5]).unwrap();
    assert_eq!((found.interval, found.session_spread, found.p), (None, None, None));
    assert_eq!((found.scope, found.verdict), (Scope::OneSession, Verdict::NotSeparable));
    assert_eq!(compare_unpaired(&[], &[1.0]), None);
    assert_eq!(compare_unpaired(&[1.0, -1.0], &[1.0]), None);
}

#[test]
fn identical_sessions_are_not_separable() {
    let found = compare_unpaired(&[5.0, 5.0], &[5.0, 5.0]).unwrap();
    assert_eq!((found.p, found.verdict), (Some(1.0), Verdict::NotSeparable));
}

#[test]
fn pairs_judged_together_need_smaller_p_values() {
    let with_p = |p: f64| Comparison { p: Some(p), ..compare(&[1.05, 1.06, 1.05, 1.04, 1.05], 4).unwrap() };
    let mut pairs = [with_p(0.015), with_p(0.004), with_p(0.009), with_p(0.6)];
    judge_together(&mut pairs);
    // Holm: 0.004·4, 0.009·3, 0.015·2, 0.6.
    for (pair, expected) in pairs.iter().zip([0.03, 0.016, 0.027, 0.6]) {
        assert_close(pair.adjusted_p.unwrap(), expected);
    }
    let separable = pairs.map(|pair| pair.verdict != Verdict::NotSeparable);
    assert_eq!(separable, [false, true, false, false]);
    judge_together(&mut []);
}

#[test]
fn a_withheld_verdict_stays_so_and_costs_the_others_nothing() {
    let with_p = |p: f64| Comparison { p: Some(p), ..compare(&[1.05, 1.06, 1.05, 1.04, 1.05], 4).unwrap() };
    let mut pairs = [with_p(0.001).withheld(), with_p(0.015)];
    judge_together(&mut pairs);
    assert_eq!(pairs[0].verdict, Verdict::Withheld);
    assert_close(pairs[1].adjusted_p.unwrap(), 0.015);
    assert_ne!(pairs[1].verdict, Verdict::NotSeparable);
}

#[test]
fn comparison_survives_json() {
    let found = compare(&[1.05, 1.06, 1.05, 1.04, 1.05], 4).unwrap();
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.contains(r#""verdict":{"verdict":"slower","#), "{text}");
    assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), found);
}

#[test]
fn what_nothing_could_test_is_no_member_of_the_family() {
    let tested = Comparison { p: Some(0.015), ..compare(&[1.05, 1.06, 1.05, 1.04, 1.05], 4).unwrap() };
    let untested = compare_unpaired(&[1.0], &[1.1]).unwrap();
    let mut pairs = [tested, untested];
    judge_together(&mut pairs);
    assert_close(pairs[0].adjusted_p.unwrap(), 0.015);
    assert_eq!((pairs[1].p, pairs[1].adjusted_p, pairs[1].verdict), (None, None, Verdict::NotSeparable));
}
