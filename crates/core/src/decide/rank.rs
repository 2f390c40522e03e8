//! Ranks the candidates of a decision for a goal, under the rules.
//!
//! Invariant: ranking reads what stands in its arguments and nothing else, so a stored decision ranks the same again.

use smallvec::SmallVec;

use super::context::Context;
use super::rules::{Bar, Fired, Rules};
use super::{Candidate, INLINE_TARGETS, Limits, Lineup, Prediction, Source, Startable, Terms};
use crate::chip::ChipKind;
use crate::energy::EnergyScope;
use crate::knowledge::TargetIndex;
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
    knowledge: &impl Startable,
    query: &Terms,
    context: &Context,
    candidates: &mut [Candidate<'_>],
) -> Ranking {
    let rules = &query.rules;
    let mut fired = SmallVec::new();
    let mut goal = effective_goal(query.goal, context, rules, &mut fired);
    for candidate in candidates.iter_mut() {
        candidate.barred = bar(query, context, candidate, query.rules.quarantine);
    }
    lift_quarantine(query, context, candidates, &mut fired);
    // Factors of the rules, by candidate.
    let mut times: SmallVec<[Option<f64>; INLINE_TARGETS]> = SmallVec::with_capacity(candidates.len());
    for candidate in candidates.iter_mut() {
        times.push(effective_time(knowledge, goal, context, rules, candidate, &mut fired));
    }
    let reachable = bar_late(query.limits, candidates, &mut times, &mut fired);
    let count = times.iter().flatten().count();
    tell_unchecked(query.limits, candidates, &times, &mut fired);
    let (energy_scope, known, apart) = comparable(candidates, &times);
    let limited = query.limits.deadline_ns.is_some() || query.limits.least_per_second.is_some();
    // Any target that keeps to the limits will do, so the cheapest is taken.
    let cheapest = limited && reachable;
    let by_energy = cheapest && goal == Goal::Fastest || matches!(goal, Goal::Battery | Goal::Balanced);
    let unknown = Fired::EnergyUnknown { known: known as u16, of: count as u16, apart };
    if limited && !reachable {
        goal = Goal::Fastest;
    } else if by_energy && cheapest && goal == Goal::Fastest {
        if known == count {
            goal = Goal::Battery;
        } else if count > 1 {
            fired.push(unknown);
        }
    } else if by_energy && known < 2 && known < count {
        if count > 1 {
            fired.push(unknown);
        }
        goal = Goal::Fastest;
    } else if by_energy && known < count {
        fired.push(Fired::EnergyPartlyKnown { known: known as u16, of: count as u16 });
    }
    if goal == Goal::Fastest {
        add_waking(knowledge, query, context, candidates, &mut times, &mut fired);
    }
    score(goal, energy_scope, candidates, &times);
    let (mut chosen, mut runner_up) = best_two(candidates, |_| true);
    if goal == Goal::Fastest && !limited {
        prefer_cpu(knowledge, query.workload, rules, candidates, (&mut chosen, &mut runner_up), &mut fired);
        prefer_steady(knowledge, query, candidates, (&mut chosen, &mut runner_up), &mut fired);
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
fn bar(query: &Terms, context: &Context, candidate: &Candidate<'_>, quarantine: bool) -> Option<Bar> {
    candidate.outlook.ok()?;
    if quarantine && context.quarantined.contains(&candidate.target) {
        return Some(Bar::Quarantined);
    }
    let budget = query.limits.memory_bytes;
    let free = context.free_memory_bytes.filter(|_| query.rules.free_memory);
    if let Some(needs_bytes) = candidate.memory_bytes {
        if let Some(may_have_bytes) = budget.filter(|budget| needs_bytes > *budget) {
            return Some(Bar::Memory { needs_bytes, may_have_bytes });
        }
        if let Some(free_bytes) = free.filter(|free| needs_bytes > *free) {
            return Some(Bar::FreeMemory { needs_bytes, free_bytes });
        }
    }
    if let Some(budget_watts) = query.limits.power_watts
        && let Some(watts) = candidate.load_watts
        && watts > budget_watts
    {
        return Some(Bar::Power { watts, budget_watts });
    }
    None
}

/// Lets targets that failed lately try again where no other is left.
fn lift_quarantine(
    query: &Terms,
    context: &Context,
    candidates: &mut [Candidate<'_>],
    fired: &mut SmallVec<[Fired; 4]>,
) {
    if candidates.iter().any(|candidate| candidate.outlook.is_ok() && candidate.barred.is_none()) {
        return;
    }
    for candidate in candidates.iter_mut().filter(|it| it.barred == Some(Bar::Quarantined)) {
        candidate.barred = bar(query, context, candidate, false);
        if candidate.barred.is_none() && !fired.contains(&Fired::QuarantineLifted) {
            fired.push(Fired::QuarantineLifted);
        }
    }
}

/// The candidates that may be taken.
fn open<'c, 'k>(
    candidates: &'c [Candidate<'k>],
    times: &'c [Option<f64>],
) -> impl Iterator<Item = &'c Candidate<'k>> {
    candidates.iter().zip(times).filter(|(_, time)| time.is_some()).map(|(candidate, _)| candidate)
}

/// Says of how many candidates that may be taken a budget could not be checked.
fn tell_unchecked(
    limits: Limits,
    candidates: &[Candidate<'_>],
    times: &[Option<f64>],
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let count = |is_unknown: fn(&Candidate<'_>) -> bool| {
        let unknown = open(candidates, times).filter(|candidate| is_unknown(candidate)).count();
        (unknown as u16, open(candidates, times).count() as u16)
    };
    if limits.power_watts.is_some()
        && let (unknown @ 1.., of) = count(|candidate| candidate.load_watts.is_none())
    {
        fired.push(Fired::PowerUnchecked { unknown, of });
    }
    if limits.memory_bytes.is_some()
        && let (unknown @ 1.., of) = count(|candidate| candidate.memory_bytes.is_none())
    {
        fired.push(Fired::MemoryUnchecked { unknown, of });
    }
}

/// The scope in which the energy of most candidates that may be taken is known, the closest of equal ones; of how many
/// it is, and whether more are known in others.
fn comparable(candidates: &[Candidate<'_>], times: &[Option<f64>]) -> (Option<EnergyScope>, usize, bool) {
    let mut known = [0_usize; EnergyScope::ALL.len()];
    for energy in open(candidates, times).filter_map(|candidate| candidate.energy) {
        known[energy.scope.index()] += 1;
    }
    let mut best = (None, 0);
    for (scope, count) in EnergyScope::ALL.into_iter().zip(known) {
        if count > best.1 {
            best = (Some(scope), count);
        }
    }
    (best.0, best.1, known.iter().sum::<usize>() > best.1)
}

/// The predicted time with what the state of the chip adds to it; `None` for a candidate that is out.
fn effective_time(
    knowledge: &impl Lineup,
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

/// Adds what it takes to wake another target up while one is running, spread over the runs to come.
///
/// How many those are is not known; as many as came already is a guess by which switching costs at most twice what it would
/// with foresight (Karlin et al., "Competitive Randomized Algorithms for Nonuniform Problems", Algorithmica 11, 1994, on
/// when to stop renting skis).
fn add_waking(
    knowledge: &impl Startable,
    query: &Terms,
    context: &Context,
    candidates: &[Candidate<'_>],
    times: &mut [Option<f64>],
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let Some(running) = context.running.filter(|_| query.workload == Workload::Sustained) else { return };
    let position = usize::from(running.target.0);
    let Some(running_ns) = times.get(position).copied().flatten() else { return };
    let mut passed_over: Option<(f64, TargetIndex)> = None;
    for (index, time) in times.iter_mut().enumerate() {
        let target = TargetIndex(index as u16);
        let Some(time_ns) = time.filter(|&time_ns| index != position && time_ns < running_ns) else {
            continue;
        };
        let waking_ns = knowledge.waking_ns(&candidates[index], query.workload);
        let with_waking = time_ns + waking_ns / f64::from(running.runs.max(1));
        *time = Some(with_waking);
        if passed_over.is_none_or(|(least, _)| time_ns < least) {
            passed_over = Some((time_ns, target));
        }
    }
    let switches = times.iter().flatten().any(|&time| time < running_ns);
    if let Some((_, passed_over)) = passed_over.filter(|_| !switches) {
        fired.push(Fired::Running { passed_over });
    }
}

/// Bars the candidates that are not known to keep to the limits of time, if another one is; whether one is.
fn bar_late(
    limits: Limits,
    candidates: &mut [Candidate<'_>],
    times: &mut [Option<f64>],
    fired: &mut SmallVec<[Fired; 4]>,
) -> bool {
    let Limits { deadline_ns, least_per_second, .. } = limits;
    if deadline_ns.is_none() && least_per_second.is_none() {
        return true;
    }
    // What the chip's state adds to the time, it adds to whatever the time is within.
    let late = |candidate: &Candidate<'_>, time: f64| {
        let prediction = candidate.outlook.ok()?;
        let slower = time / prediction.time_ns;
        let may_take_ns = candidate.within_ns.unwrap_or(prediction.interval.high) * slower;
        if deadline_ns.is_some_and(|deadline| may_take_ns > deadline) {
            return Some(Bar::Deadline { may_take_ns });
        }
        // A rate follows from the usual time: slow calls and quick ones make up for one another.
        let reaches_per_second = 1e9 / (prediction.interval.high * slower);
        least_per_second
            .is_some_and(|least| reaches_per_second < least)
            .then_some(Bar::Throughput { reaches_per_second })
    };
    let judged = |candidate: &Candidate<'_>, time: &Option<f64>| time.map(|time| late(candidate, time));
    let mut bars = candidates.iter().zip(times.iter()).filter_map(|(it, time)| judged(it, time)).peekable();
    if bars.peek().is_none() {
        return true;
    }
    let (mut lags, mut keeps) = (false, false);
    for bar in bars {
        match bar {
            None => keeps = true,
            // It meets the deadline, where there is one.
            Some(Bar::Throughput { .. }) => lags = true,
            Some(_) => {}
        }
    }
    if !keeps {
        fired.push(if lags { Fired::ThroughputUnreachable } else { Fired::DeadlineUnreachable });
        return false;
    }
    for (candidate, time) in candidates.iter_mut().zip(times) {
        if let Some(Some(bar)) = judged(candidate, time) {
            candidate.barred = Some(bar);
            *time = None;
        }
    }
    true
}

/// Scores every candidate that is in: less is better.
fn score(goal: Goal, scope: Option<EnergyScope>, candidates: &mut [Candidate<'_>], times: &[Option<f64>]) {
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let least_time = least(&mut times.iter().flatten().copied());
    let joules = |candidate: &Candidate<'_>| {
        candidate.energy.filter(|energy| Some(energy.scope) == scope).map(|energy| energy.joules)
    };
    let least_joules = least(&mut open(candidates, times).filter_map(joules));
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
    knowledge: &impl Lineup,
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

/// The rule of volatility: of two that cannot be told apart, the steadier. It takes no cold start from the CPU.
fn prefer_steady(
    knowledge: &impl Lineup,
    query: &Terms,
    candidates: &[Candidate<'_>],
    (chosen, runner_up): BestTwo<'_>,
    fired: &mut SmallVec<[Fired; 4]>,
) {
    let (Some(band), Some(best), Some(next)) = (query.rules.volatility_band, *chosen, *runner_up) else {
        return;
    };
    let on_cpu = |target| knowledge.target(target).chip_kind == ChipKind::Cpu;
    let cold = query.workload == Workload::ColdStart && query.rules.cold_start_margin.is_some();
    if cold && on_cpu(best) && !on_cpu(next) {
        return;
    }
    let (first, second) = (candidate(candidates, best), candidate(candidates, next));
    let (Some(least), Some(other)) = (first.score, second.score) else { return };
    let (Ok(one), Ok(two)) = (first.outlook, second.outlook) else { return };
    let (Some(spread), Some(steadier)) = (first.spread, second.spread) else { return };
    if other <= least * (1.0 + band)
        && other >= least
        && steadier < spread
        && one.interval.overlaps(&two.interval)
    {
        fired.push(Fired::Volatility { passed_over: best });
        (*chosen, *runner_up) = (Some(next), Some(best));
    }
}
