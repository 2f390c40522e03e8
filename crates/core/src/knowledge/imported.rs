//! Times that other machines measured on hardware of the same kind: what may be expected here before anything is measured.
//!
//! Invariant: an imported time is a prior. It is never an [`Estimate`](super::Estimate) of this machine, its interval
//! spans what machines of one kind differ by, and a measured time takes its place.
//!
//! Logarithms of the times of one case on machines of a kind are taken for normal around a common mean. Their standard
//! deviation `σ` is [`ASSUMED_SPREAD`] with [`ASSUMED_DEGREES`] of freedom before machines tell theirs, which is the
//! conjugate (scaled inverse chi-square) prior of Gelman and others, *Bayesian Data Analysis*, section 2.6.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::accuracy::{AccuracyClass, OutputDifference};
use crate::identity::CaseId;
use crate::statistics::{CONFIDENCE, Interval, median, student};
use crate::target::TargetKey;
use crate::workload::Workload;

/// Standard deviation of the logarithm of a time between machines of one kind, before machines tell it. With
/// [`ASSUMED_DEGREES`] it expects of one machine in 19 that it is over 1.5 times faster or slower than is usual.
///
/// An assumption. Machines with one chip differ in its power limit, which makers may choose from about one to two for
/// a mobile processor, in cooling and in the number of memory channels; between 15 W and 28 W the clock, and with it
/// the time, changes by about a third.
pub const ASSUMED_SPREAD: f64 = 0.15;

/// How many degrees of freedom the assumption counts for: as much as five machines would tell.
pub const ASSUMED_DEGREES: usize = 4;

/// A time that another machine measured on a target of the same kind as one of this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedFacts {
    /// The target of this machine.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// Tells machines apart.
    pub machine: u32,
    /// The median of one session.
    pub time_ns: f64,
    /// How far the outputs lay from the reference, where they were compared with another target's.
    pub outputs: Option<OutputDifference>,
}

/// What other machines of the same kind say of a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Imported {
    /// The geometric mean over the machines, of each the median of its sessions.
    pub time_ns: f64,
    /// Where this machine's time lies with 95 % confidence.
    pub interval: Interval,
    /// How many machines tell.
    pub machines: u32,
    /// Whether the interval rests on the assumption alone, since no two machines tell how far they differ.
    pub assumed: bool,
    /// Whether the outputs satisfied each class on every machine that compared them.
    satisfies: [bool; 3],
}

impl Imported {
    /// Whether no machine found outputs that fail `class`.
    pub fn satisfies(&self, class: AccuracyClass) -> bool {
        self.satisfies[class as usize]
    }
}

/// By case: for each target the times by workload.
pub(super) type ImportedTimes = HashMap<CaseId, Box<[[Option<Imported>; 3]]>>;

/// The logarithms of one configuration's times, by machine.
type Told = BTreeMap<Machine, f64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Machine {
    This,
    Other(u32),
}

/// How far machines of a kind differ.
#[derive(Debug, Clone, Copy)]
struct Spread {
    deviation: f64,
    degrees: usize,
}

/// Joins imported times. `index` gives the position of each target, `measured` the time of this machine.
pub(super) fn join(
    facts: Vec<ImportedFacts>,
    index: &HashMap<TargetKey, usize>,
    measured: impl Fn(CaseId, usize, usize) -> Option<f64>,
) -> ImportedTimes {
    let mut sessions: BTreeMap<(usize, usize, CaseId), BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    let mut satisfies: HashMap<(usize, usize, CaseId), [bool; 3]> = HashMap::new();
    for fact in facts {
        let Some(&target) = index.get(&fact.target) else { continue };
        if !(fact.time_ns.is_finite() && fact.time_ns > 0.0) {
            continue;
        }
        let key = (target, fact.workload.index(), fact.case);
        sessions.entry(key).or_default().entry(fact.machine).or_default().push(fact.time_ns.ln());
        let classes = satisfies.entry(key).or_insert([true; 3]);
        if let Some(outputs) = fact.outputs {
            for class in AccuracyClass::ALL {
                classes[class as usize] &= outputs.satisfies(class);
            }
        }
    }
    let told = |machines: &BTreeMap<u32, Vec<f64>>| -> Told {
        machines.iter().filter_map(|(it, times)| Some((Machine::Other(*it), median(times)?))).collect()
    };
    let mut by_kind: BTreeMap<(usize, usize), Vec<(CaseId, Told)>> = BTreeMap::new();
    for ((target, workload, case), machines) in &sessions {
        by_kind.entry((*target, *workload)).or_default().push((*case, told(machines)));
    }
    let mut joined: HashMap<CaseId, Vec<[Option<Imported>; 3]>> = HashMap::new();
    for ((target, workload), cases) in by_kind {
        let with_this = cases.iter().map(|(case, told)| {
            let mut told = told.clone();
            let own = measured(*case, target, workload).filter(|time| *time > 0.0);
            told.extend(own.map(|time_ns| (Machine::This, time_ns.ln())));
            told
        });
        let spread = learn_spread(&with_this.collect::<Vec<_>>());
        for (case, told) in cases {
            let row = joined.entry(case).or_insert_with(|| vec![[None; 3]; index.len()]);
            let satisfies = satisfies.get(&(target, workload, case)).copied().unwrap_or([true; 3]);
            row[target][workload] = expect(&told, spread, satisfies);
        }
    }
    joined.into_iter().map(|(case, row)| (case, row.into_boxed_slice())).collect()
}

/// How far machines differ, from the cases that several of them measured.
///
/// What sets one machine apart shows in all of its cases, so the cases of two machines tell no more of machines than
/// two of them can: the degrees of freedom are those of machines.
fn learn_spread(cases: &[Told]) -> Spread {
    let (mut squares, mut deviations) = (0.0, 0);
    let mut machines = BTreeSet::new();
    for told in cases.iter().filter(|told| told.len() > 1) {
        let mean = told.values().sum::<f64>() / told.len() as f64;
        squares += told.values().map(|value| (value - mean).powi(2)).sum::<f64>();
        deviations += told.len() - 1;
        machines.extend(told.keys().copied());
    }
    let learned = machines.len().saturating_sub(1);
    let found = if deviations == 0 { 0.0 } else { squares / deviations as f64 };
    let assumed = ASSUMED_DEGREES as f64 * ASSUMED_SPREAD.powi(2);
    let degrees = ASSUMED_DEGREES + learned;
    Spread { deviation: ((assumed + learned as f64 * found) / degrees as f64).sqrt(), degrees }
}

/// What the machines that told make expect of another one of their kind.
fn expect(told: &Told, spread: Spread, satisfies: [bool; 3]) -> Option<Imported> {
    let count = told.len() as f64;
    let mean = told.values().sum::<f64>() / count;
    let half_width =
        student::critical(CONFIDENCE, spread.degrees)? * spread.deviation * (1.0 + 1.0 / count).sqrt();
    let interval = Interval { low: (mean - half_width).exp(), high: (mean + half_width).exp() };
    let time_ns = mean.exp();
    if told.is_empty() || !(time_ns.is_finite() && interval.high.is_finite() && interval.low > 0.0) {
        return None;
    }
    let assumed = spread.degrees == ASSUMED_DEGREES;
    Some(Imported { time_ns, interval, machines: told.len() as u32, assumed, satisfies })
}

#[cfg(test)]
mod tests;
