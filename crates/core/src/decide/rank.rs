//! Ranks the candidates of a decision for a goal, under the rules.
//!
//! Invariant: ranking reads what stands in its arguments and nothing else, so a stored decision ranks the same again.

use smallvec::SmallVec;

use super::context::Context;
use super::rules::{Bar, Fired, Rules};
use super::{Candidate, INLINE_TARGETS, Limits, Prediction, Query, Source};
use crate::chip::ChipKind;
use crate::knowledge::{Knowledge, TargetIndex};
use crate::workload::{Goal, Workload};

/// The best two candidates, and the rules that fired on the way.
pub(super) struct Ranking {
    pub(super) chosen: Option<TargetIndex>,
    pub(super) runner_up: Option<TargetIndex>,
    pub(super) goal: Goal,
    pub(super) fired: SmallVec<[Fired; 4]>,
}

/// Bars what the limits and rules forbid, scores the others, and chooses.
pub(super) fn rank(
    knowledge: &Knowledge,
    query: &Query<'_>,
    context: &Context,
    candidates: &mut [Candidate<'_>],
) -> Ranking {
    let rules = query.rules;
    let mut fired = SmallVec::new();
    let mut goal = effective_goal(query.goal, context, rules, &mut fired);
    for candidate in candidates.iter_mut() {
        candidate.barred = bar(knowledge, query, context, candidate);
    }
    // Factors of the rules, by candidate.
    let mut times: SmallVec<[Option<f64>; INLINE_TARGETS]> = SmallVec::with_capacity(candidates.len());
    for candidate in candidates.iter_mut() {
        times.push(effective_time(knowledge, goal, context, rules, candidate, &mut fired));
    }
    bar_late(query.limits, candidates, &mut times, &mut fired);
    let open = times.iter().flatten().count();
    let known =
        (candidates.iter().zip(&times)).filter(|(it, time)| time.is_some() && it.energy.is_some()).count();
    let cheapest = query.limits.deadline_ns.is_some() && !fired.contains(&Fired::DeadlineUnreachable);
    if cheapest && goal == Goal::Fastest {
        // Any target that is in time will do, so the least energy decides where it is known.
        goal = if known == open { Goal::Battery } else { goal };
    } else if matches!(goal, Goal::Battery | Goal::Balanced) && known < 2 && known < open {
        if open > 1 {
            fired.push(Fired::EnergyUnknown { known: known as u16 });
        }
        goal = Goal::Fastest;
    }
    score(goal, candidates, &times);
    let (mut chosen, mut runner_up) = best_two(candidates, |_| true);
    if goal == Goal::Fastest && !cheapest {
        prefer_cpu(knowledge, query.workload, rules, candidates, (&mut chosen, &mut runner_up), &mut fired);
        prefer_steady(
            knowledge,
            query.workload,
            rules,
            candidates,
            (&mut chosen, &mut runner_up),
            &mut fired,
        );
    }
    Ranking { chosen, runner_up, goal, fired }
}

fn effective_goal(goal: Goal, context: &Context, rules: &Rules, fired: &mut SmallVec<[Fired; 4]>) -> Goal {
    match (rules.low_battery_percent, context.charge_on_battery_percent) {
        (Some(limit_percent), Some(charge_percent)) if charge_percent < limit_percent => {
            if goal != Goal::Battery {
                fired.push(Fired::LowBattery { charge_percent, limit_percent });
            }
            Goal::Battery
        }
        _ => goal,
    }
}

/// What forbids a candidate that has a prediction.
fn bar(
    knowledge: &Knowledge,
    query: &Query<'_>,
    context: &Context,
    candidate: &Candidate<'_>,
) -> Option<Bar> {
    let Ok(prediction) = &candidate.outlook else { return None };
    if query.rules.quarantine && context.quarantined.contains(&candidate.target) {
        return Some(Bar::Quarantined);
    }
    let free = context.free_memory_bytes.filter(|_| query.rules.free_memory);
    let memory = [query.limits.memory_bytes, free].into_iter().flatten().min();
    if let Some(may_have_bytes) = memory
        && let Some(needs_bytes) = knowledge.memory_needed(query.case, candidate.target)
        && needs_bytes > may_have_bytes
    {
        return Some(Bar::Memory { needs_bytes, may_have_bytes });
    }
    if let (Some(budget_watts), Some(energy)) = (query.limits.power_watts, &candidate.energy) {
        let watts = energy.joules / (prediction.time_ns * 1e-9);
        if watts > budget_watts {
            return Some(Bar::Power { watts, budget_watts });
        }
    }
    None
}

/// The predicted time with what the state of the chip adds to it; `None` for a candidate that is out.
fn effective_time(
    knowledge: &Knowledge,
    goal: Goal,
    context: &Context,
    rules: &Rules,
    candidate: &mut Candidate<'_>,
    fired: &mut SmallVec<[Fired; 4]>,
) -> Option<f64> {
    let Ok(Prediction { time_ns, source, .. }) = candidate.outlook else { return None };
    if candidate.barred.is_some() {
        return None;
    }
    let target = candidate.target;
    let entry = knowledge.target(target);
    let Some(now) = context.chip(&entry.chip) else { return Some(time_ns) };
    let mut time = time_ns;
    // What runs under strain have told holds the load already.
    let told = matches!(source, Source::Served { strained: true, .. });
    if let (Some(rule), Some(busy_percent)) = (rules.busy_chip, now.busy_percent)
        && entry.chip_kind != ChipKind::Cpu
        && !told
        && busy_percent > rule.over_percent
    {
        fired.push(Fired::BusyChip { target, busy_percent, factor: rule.factor });
        time *= rule.factor;
    }
    if let (Some(rule), Some(celsius), Goal::Cool) = (rules.hot_chip, now.celsius, goal) {
        let Some(factor) = rule.factor(celsius) else {
            candidate.barred = Some(Bar::TooHot { celsius, limit_celsius: rule.over_celsius });
            return None;
        };
        if factor > 1.0 {
            fired.push(Fired::HotChip { target, celsius, factor });
            time *= factor;
        }
    }
    Some(time)
}

/// Bars the candidates that are not known to meet the deadline, if another one is.
fn bar_late(
    limits: Limits,
    candidates: &mut [Candidate<'_>],
    times: &mut [Option<f64>],
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let Some(deadline_ns) = limits.deadline_ns else { return };
    let upper = |candidate: &Candidate<'_>, time: f64| {
        let prediction = candidate.outlook.ok()?;
        // What the chip's state adds to the time, it adds to its interval.
        Some(prediction.interval.high * (time / prediction.time_ns))
    };
    let in_time = |candidate: &Candidate<'_>, time: &Option<f64>| {
        time.and_then(|time| upper(candidate, time)).is_some_and(|upper| upper <= deadline_ns)
    };
    if !candidates.iter().zip(times.iter()).any(|(candidate, time)| in_time(candidate, time)) {
        if times.iter().any(Option::is_some) {
            fired.push(Fired::DeadlineUnreachable);
        }
        return;
    }
    for (candidate, time) in candidates.iter_mut().zip(times) {
        if !in_time(candidate, time)
            && let Some(may_take_ns) = time.and_then(|time| upper(candidate, time))
        {
            candidate.barred = Some(Bar::Deadline { may_take_ns });
            *time = None;
        }
    }
}

/// Scores every candidate that is in: less is better.
fn score(goal: Goal, candidates: &mut [Candidate<'_>], times: &[Option<f64>]) {
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let least_time = least(&mut times.iter().flatten().copied());
    let joules = |candidate: &Candidate<'_>| candidate.energy.map(|energy| energy.joules);
    let open = || candidates.iter().zip(times).filter(|(_, time)| time.is_some());
    let least_joules = least(&mut open().filter_map(|(candidate, _)| joules(candidate)));
    for (candidate, time) in candidates.iter_mut().zip(times) {
        candidate.score = time.and_then(|time| match goal {
            Goal::Fastest | Goal::Cool => Some(time),
            Goal::Battery => joules(candidate),
            Goal::Balanced => Some(0.5 * time / least_time + 0.5 * joules(candidate)? / least_joules),
        });
    }
}

/// The two least scores; equal ones go to the target listed first.
fn best_two(
    candidates: &[Candidate<'_>],
    admits: impl Fn(&Candidate<'_>) -> bool,
) -> (Option<TargetIndex>, Option<TargetIndex>) {
    let mut best: Option<(f64, TargetIndex)> = None;
    let mut second: Option<(f64, TargetIndex)> = None;
    for candidate in candidates.iter().filter(|candidate| admits(candidate)) {
        let Some(score) = candidate.score else { continue };
        if best.is_none_or(|(least, _)| score < least) {
            second = best;
            best = Some((score, candidate.target));
        } else if second.is_none_or(|(least, _)| score < least) {
            second = Some((score, candidate.target));
        }
    }
    (best.map(|(_, target)| target), second.map(|(_, target)| target))
}

type BestTwo<'a> = (&'a mut Option<TargetIndex>, &'a mut Option<TargetIndex>);

fn candidate<'c, 'k>(candidates: &'c [Candidate<'k>], target: TargetIndex) -> &'c Candidate<'k> {
    &candidates[usize::from(target.0)]
}

/// The rule of cold starts: the CPU, unless another chip is faster by the margin.
fn prefer_cpu(
    knowledge: &Knowledge,
    workload: Workload,
    rules: &Rules,
    candidates: &[Candidate<'_>],
    (chosen, runner_up): BestTwo<'_>,
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let (Some(margin), Workload::ColdStart, Some(best)) = (rules.cold_start_margin, workload, *chosen) else {
        return;
    };
    let on_cpu = |candidate: &Candidate<'_>| knowledge.target(candidate.target).chip_kind == ChipKind::Cpu;
    if on_cpu(candidate(candidates, best)) {
        return;
    }
    let (Some(cpu), _) = best_two(candidates, on_cpu) else { return };
    let score = |target| candidate(candidates, target).score.unwrap_or(f64::INFINITY);
    if score(best) > (1.0 - margin) * score(cpu) {
        fired.push(Fired::ColdStart { passed_over: best });
        (*chosen, *runner_up) = (Some(cpu), Some(best));
    }
}

/// The rule of volatility: of two that cannot be told apart, the steadier.
fn prefer_steady(
    knowledge: &Knowledge,
    workload: Workload,
    rules: &Rules,
    candidates: &[Candidate<'_>],
    (chosen, runner_up): BestTwo<'_>,
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let (Some(band), Some(best), Some(next)) = (rules.volatility_band, *chosen, *runner_up) else { return };
    let (first, second) = (candidate(candidates, best), candidate(candidates, next));
    let (Some(least), Some(other)) = (first.score, second.score) else { return };
    let (Ok(one), Ok(two)) = (first.outlook, second.outlook) else { return };
    let (Some(spread), Some(steadier)) = (knowledge.spread(best, workload), knowledge.spread(next, workload))
    else {
        return;
    };
    if other <= least * (1.0 + band)
        && other >= least
        && steadier < spread
        && one.interval.overlaps(&two.interval)
    {
        fired.push(Fired::Volatility { passed_over: best });
        (*chosen, *runner_up) = (Some(next), Some(best));
    }
}
