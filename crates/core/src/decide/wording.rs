//! How a decision and its figures are said.
//!
//! Invariant: whatever the figures are, there is a sentence; none holds NaN or a number that tells nothing.

use super::{Bar, Candidate, Decision, Fired, Lineup, Source};
use crate::knowledge::{Energy, TargetIndex};
use crate::predict::Basis;
use crate::statistics::Interval;
use crate::workload::Goal;

impl Decision<'_> {
    /// The reason in one plain sentence with the figures that decided.
    pub fn sentence(&self, knowledge: &impl Lineup) -> String {
        let Some(chosen) = self.chosen.and_then(|target| self.candidate(target)) else {
            let reason = "each one is excluded for the reason beside it";
            return format!("no target is suitable: {reason}");
        };
        let next = self.runner_up.and_then(|target| self.candidate(target));
        let sentence = match (self.goal, chosen.energy) {
            (Goal::Battery | Goal::Balanced, Some(energy)) => self.of_energy(knowledge, chosen, energy, next),
            _ => self.of_time(knowledge, chosen, next),
        };
        let rules = self.fired.iter().map(|fired| fired.sentence(knowledge));
        let explored = self.exploration.map(|explored| {
            let best = &knowledge.target(explored.instead_of).key;
            let [cost, left] = [explored.expected_cost_ns, explored.left_ns].map(format_duration_ns);
            format!("it is looked at again, since it may be faster than {best}: expected to cost {cost} of the {left} left")
        });
        std::iter::once(sentence).chain(rules).chain(explored).collect::<Vec<_>>().join("; ")
    }

    fn of_time(
        &self,
        knowledge: &impl Lineup,
        chosen: &Candidate<'_>,
        next: Option<&Candidate<'_>>,
    ) -> String {
        let Ok(best) = chosen.outlook else { return String::new() };
        let name = &knowledge.target(chosen.target).key;
        let basis = best.source.sentence();
        let time = format_duration_ns(best.time_ns);
        let range = format!("95 % interval {}", format_interval_ns(best.interval, " to "));
        let needs = match best.source {
            Source::Measured { .. } | Source::Served { .. } => "needs",
            Source::Imported { .. } => "is expected to need",
            Source::Predicted(Basis { extrapolated: false, .. }) => "is predicted to need",
            Source::Predicted(Basis { extrapolated: true, .. }) => "may need",
        };
        let head = format!("{name} {needs} {time} ({basis}, {range})");
        let Some((other, after)) = next.and_then(|next| Some((next.target, next.outlook.ok()?))) else {
            return format!("{head}; no other target is suitable");
        };
        let other = &knowledge.target(other).key;
        let ratio = after.time_ns / best.time_ns;
        let next_time = format_duration_ns(after.time_ns);
        if self.is_tie() {
            format!("{head}; {other} with {next_time} is not separable from it")
        } else {
            format!("{head}; the next, {other}, needs {next_time}, {ratio:.2} times as long")
        }
    }

    fn of_energy(
        &self,
        knowledge: &impl Lineup,
        chosen: &Candidate<'_>,
        energy: Energy,
        next: Option<&Candidate<'_>>,
    ) -> String {
        let figures = |candidate: &Candidate<'_>| {
            let joules = candidate.energy.map(|energy| format_joules(energy.joules));
            let time = candidate.outlook.ok().map(|prediction| format_duration_ns(prediction.time_ns));
            [joules, time].into_iter().flatten().collect::<Vec<_>>().join(" in ")
        };
        let (name, taken) = (&knowledge.target(chosen.target).key, figures(chosen));
        let basis = if energy.measured { "measured" } else { "by the power that its other cases drew" };
        let scope = energy.scope.title();
        let Interval { low, high } = energy.interval;
        let range = format!("{} to {}", format_joules(low), format_joules(high));
        let head =
            format!("{name} takes {taken} ({basis}, of {scope}, rest subtracted, 95 % interval {range})");
        let Some(next) = next else { return format!("{head}; no other target is suitable") };
        let (other, taken) = (&knowledge.target(next.target).key, figures(next));
        if self.is_tie() {
            format!("{head}; {other} with {taken} is not separable from it")
        } else {
            format!("{head}; the next, {other}, takes {taken}")
        }
    }
}

impl Source {
    /// Where the figure comes from, in words.
    pub fn sentence(&self) -> String {
        match self {
            Self::Measured { sessions: 1 } => "measured in 1 session".to_owned(),
            Self::Measured { sessions } => format!("measured in {sessions} sessions"),
            Self::Imported { machines, assumed } => {
                let s = if *machines == 1 { "" } else { "s" };
                let how = if *assumed { ", how far such machines differ being assumed" } else { "" };
                format!("imported from {machines} other machine{s} of this kind{how}")
            }
            Self::Served { runs, strained } => {
                let s = if *runs == 1 { "" } else { "s" };
                let when = if *strained { " under strain" } else { "" };
                format!("as {runs} run{s}{when} showed")
            }
            Self::Predicted(basis) => format!("predicted {}", basis.sentence()),
        }
    }
}

impl Basis {
    /// What the prediction rests on, such as `by F5 (work by operator)` or `from 3 times of the model at other shapes (80 %)
    /// and F5 (20 %)`.
    pub fn sentence(&self) -> String {
        let outside = if self.extrapolated { ", outside of the measured range" } else { "" };
        let law = format!("{} ({})", self.law.name(), self.law.title());
        let mut sources = Vec::new();
        let percent = |weight: f32| format!("{:.0} %", weight * 100.0);
        let times = |count: u16| if count == 1 { "1 time".to_owned() } else { format!("{count} times") };
        if self.shapes > 0 {
            let (times, weight) = (times(self.shapes), percent(self.shapes_weight));
            sources.push(format!("{weight} from {times} of the model here"));
        }
        if self.elsewhere > 0 {
            let (times, weight) = (times(self.elsewhere), percent(self.elsewhere_weight));
            sources.push(format!("{weight} from {times} of it on other targets"));
        }
        if sources.is_empty() {
            return format!("by {law}{outside}");
        }
        sources.push(format!("{} by {law}{outside}", percent(self.law_weight())));
        sources.join(", ")
    }
}

impl Fired {
    /// What the rule did, in one clause.
    pub fn sentence(&self, knowledge: &impl Lineup) -> String {
        let key = |target: TargetIndex| &knowledge.target(target).key;
        let chip = |target: TargetIndex| &knowledge.target(target).chip;
        match *self {
            Self::LowBattery { charge_percent, limit_percent } => format!(
                "the battery is at {charge_percent:.0} %, under {limit_percent:.0} %, so energy decides"
            ),
            Self::BusyChip { target, busy_percent, factor } => {
                let (key, chip) = (key(target), chip(target));
                format!(
                    "others load {chip} with {busy_percent:.0} %, so {key} counts as {factor:.2} times slower"
                )
            }
            Self::HotChip { target, celsius, factor } => {
                let (key, chip) = (key(target), chip(target));
                format!("{chip} is at {celsius:.0} °C, so {key} counts as {factor:.2} times slower")
            }
            Self::EnergyUnknown { apart: true, .. } => {
                "what is known of the targets' energy is of different \
                scopes, which cannot be compared, so time decides"
                    .to_owned()
            }
            Self::EnergyUnknown { known: 0, .. } => {
                "energy is known of no target, so time decides".to_owned()
            }
            Self::EnergyUnknown { known: 1, .. } => {
                "energy is known of one target alone, so time decides".to_owned()
            }
            Self::EnergyUnknown { known, of, .. } => {
                format!("energy is known of {known} of {of} targets alone, so time decides")
            }
            Self::EnergyPartlyKnown { known, of } => {
                format!("energy is known of {known} of {of} targets, and the others come after them")
            }
            Self::QuarantineLifted => {
                "no other target is left, so what failed lately may try again".to_owned()
            }
            Self::DeadlineUnreachable => {
                "no target is known to meet the deadline, so the fastest is taken".to_owned()
            }
            Self::ThroughputUnreachable => {
                "no target is known to reach so many inferences a second, so the fastest is taken".to_owned()
            }
            Self::PowerUnchecked { unknown, of } => format!(
                "the power budget could not be checked for {}, whose power was never measured",
                share(unknown, of)
            ),
            Self::MemoryUnchecked { unknown, of } => format!(
                "the memory budget could not be checked for {}, whose need was never seen",
                share(unknown, of)
            ),
            Self::ColdStart { passed_over } => {
                format!("a cold start goes to the CPU, since {} is not faster enough", key(passed_over))
            }
            Self::Running { passed_over } => format!(
                "{} is faster once it runs, but not yet by what it takes to wake it up",
                key(passed_over)
            ),
            Self::Volatility { passed_over } => {
                format!("{} may be as fast, and its sessions differ more", key(passed_over))
            }
        }
    }
}

/// So many of the targets, in words.
fn share(some: u16, of: u16) -> String {
    match (some, of) {
        (1, 1) => "the only target".to_owned(),
        (1, of) => format!("one of {of} targets"),
        (some, of) if some == of => format!("any of the {of} targets"),
        (some, of) => format!("{some} of {of} targets"),
    }
}

impl Bar {
    /// What forbids the target, in a few words.
    pub fn brief(&self) -> &'static str {
        match self {
            Self::Quarantined => "failed lately",
            Self::TooHot { .. } => "too hot",
            Self::Memory { .. } => "too much memory",
            Self::FreeMemory { .. } => "too little is free",
            Self::Power { .. } => "too much power",
            Self::Deadline { .. } => "may be too late",
            Self::Throughput { .. } => "may be too slow",
        }
    }

    /// What forbids the target, in one line.
    pub fn sentence(&self) -> String {
        match *self {
            Self::Quarantined => "failed lately, and is left out for a while".to_owned(),
            Self::TooHot { celsius, limit_celsius } => {
                format!("its chip is at {celsius:.0} °C, over {limit_celsius:.0} °C")
            }
            Self::Memory { needs_bytes, may_have_bytes } => format!(
                "was seen to take {} MiB of memory, over the budget of {} MiB",
                needs_bytes >> 20,
                may_have_bytes >> 20
            ),
            Self::FreeMemory { needs_bytes, free_bytes } => format!(
                "was seen to take {} MiB of memory, and {} MiB are free",
                needs_bytes >> 20,
                free_bytes >> 20
            ),
            Self::Power { watts, budget_watts } => {
                format!("draws {watts:.1} W, over the budget of {budget_watts:.1} W")
            }
            Self::Deadline { may_take_ns } => {
                format!("may take {}, which is over the deadline", format_duration_ns(may_take_ns))
            }
            Self::Throughput { reaches_per_second } => {
                format!(
                    "reaches {reaches_per_second:.1} inferences a second with certainty, which are too few"
                )
            }
        }
    }
}

/// Writes an energy with three significant digits and a fitting unit.
pub fn format_joules(joules: f64) -> String {
    if !joules.is_finite() {
        return "unknown".to_owned();
    }
    let joules = three_digits(joules);
    let (value, unit) = match joules.abs() {
        size if size < 1e-3 => (joules * 1e6, "µJ"),
        size if size < 1.0 => (joules * 1e3, "mJ"),
        _ => (joules, "J"),
    };
    let decimals = match value.abs() {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Ends of an interval that lie further apart than this tell nothing.
const WIDEST_RATIO: f64 = 1e3;

/// Writes an interval of durations, its ends joined by `between`, or that it is too wide to tell anything: its
/// upper end is over 1000 times its lower one.
pub fn format_interval_ns(interval: Interval, between: &str) -> String {
    let Interval { low, high } = interval;
    // Not the other way round, so that NaN counts as wide.
    if high <= low * WIDEST_RATIO {
        format!("{}{between}{}", format_duration_ns(low), format_duration_ns(high))
    } else {
        "too wide to tell".to_owned()
    }
}

/// Writes a duration with three significant digits and a fitting unit; 0.01 ns is the least that is told apart.
pub fn format_duration_ns(ns: f64) -> String {
    if ns == 0.0 {
        return "0 ns".to_owned();
    }
    if ns > 0.0 && ns < 0.01 {
        return "< 0.01 ns".to_owned();
    }
    // Rounded first, so that 999.6 µs becomes 1.00 ms and not 1000 µs.
    let (value, unit) = match three_digits(ns) {
        _ if !ns.is_finite() => return "unknown".to_owned(),
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// Rounds to three significant digits; 0, NaN and infinities stay.
fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let step = 10_f64.powi(value.abs().log10().floor() as i32 - 2);
    (value / step).round() * step
}
