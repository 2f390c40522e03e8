//! Joules per inference, from what meters read while a target rested and while it worked.
//!
//! Invariant: pure. A figure is given only where the load can be told from rest; whatever stands against one is a
//! reason, never 0. What an interval covers in simulation: docs/methodology.md.
//!
//! Reading order: this file (what is kept and what is made of it), `counter` (counters that wrap), `pieces` (readings
//! as energy over stretches of time), `ratio` (the estimate with its error).

mod counter;
mod pieces;
mod ratio;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use counter::CounterTrack;

use crate::chip::ChipKey;
use crate::reading::Reading;
use crate::statistics::{CONFIDENCE, Interval, student};
use pieces::pieces;
use ratio::Blocks;

/// Version of the method by which estimates are made from a run.
pub const METHOD_VERSION: u32 = 1;

/// What a trial says for which nobody asked for energy.
pub const NOT_MEASURED: &str = "not measured";

/// Share of each window that is cut off its beginning: clocks, fans and averages of drivers settle in it.
const SETTLING: f64 = 0.2;

/// One-sided probability with which equal powers are taken for a load: `1 − (1 + 0.98) ÷ 2`.
const SEPARABLE: f64 = 0.98;

/// Two halves of a load whose joules per call lie further apart than this share had not settled.
const UNSETTLED: f64 = 0.2;

/// How energy is told; the earlier, the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyMethod {
    /// A counter of energy in the chip or its driver.
    Counter,
    /// Readings of power, integrated over time.
    Power,
    /// The power that the battery gives.
    Battery,
}

/// What a meter's figure is of; the earlier, the closer to the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergyScope {
    /// A processor's package: its cores with the GPU and NPU that sit in it.
    Package,
    /// The board of a GPU, with its memory.
    Board,
    /// The whole machine.
    Machine,
}

impl EnergyScope {
    /// All scopes, the closest to the chip first.
    pub const ALL: [Self; 3] = [Self::Package, Self::Board, Self::Machine];

    /// Position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// What it is of, in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Package => "the processor's package",
            Self::Board => "the chip's board",
            Self::Machine => "the whole machine",
        }
    }
}

impl fmt::Display for EnergyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Power => "power",
            Self::Battery => "battery",
        })
    }
}

impl fmt::Display for EnergyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Package => "package",
            Self::Board => "board",
            Self::Machine => "machine",
        })
    }
}

/// What tells energy or power.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Meter {
    /// How it is told. A counter reads in joules, the others in watts.
    pub method: EnergyMethod,
    /// What the figure is of.
    pub scope: EnergyScope,
    /// A name that tells the meters of a machine apart, such as `rapl package-0`.
    pub name: String,
    /// The chip; `None` for the whole machine.
    pub chip: Option<ChipKey>,
}

/// One reading of a meter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeterPoint {
    /// When, in seconds on the run's scale.
    pub at_s: f64,
    /// Joules since some fixed moment, or watts.
    pub value: f64,
}

/// All readings of one meter in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeterSeries {
    /// The meter.
    pub meter: Meter,
    /// The readings, oldest first.
    pub points: Vec<MeterPoint>,
    /// How often it told nothing.
    pub missed: u32,
    /// Why it told nothing the first time that it did not.
    pub absence: Option<String>,
}

/// A stretch of time, in seconds on the run's scale.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeWindow {
    /// Its beginning.
    pub begin_s: f64,
    /// Its end.
    pub end_s: f64,
}

impl TimeWindow {
    /// What is left of it once it has settled.
    fn settled(self) -> Self {
        Self { begin_s: self.begin_s + SETTLING * (self.end_s - self.begin_s), end_s: self.end_s }
    }
}

/// How many calls were done by some moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WorkDone {
    /// When, in seconds on the run's scale.
    pub at_s: f64,
    /// Calls since the load began.
    pub calls: u64,
}

/// One measurement of energy, as it is kept: a window of rest, a window of load, and what the meters read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnergyRun {
    /// The rest, session alive.
    pub idle: TimeWindow,
    /// The load: one call after the other.
    pub load: TimeWindow,
    /// The progress of the load, from its beginning to its end.
    pub progress: Vec<WorkDone>,
    /// The meters that may tell the target's energy.
    pub series: Vec<MeterSeries>,
}

/// Joules per inference, by one meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnergyEstimate {
    /// The meter.
    pub meter: Meter,
    /// Joules of one inference beyond what the rest takes: `(P_load − P_idle) · T ÷ n`.
    pub joules: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// Joules of one inference with the rest's share in them: `P_load · T ÷ n`.
    pub gross_joules: f64,
    /// Its 95 % interval.
    pub gross_interval: Interval,
    /// Power at rest, in watts.
    pub idle_watts: f64,
    /// Power under load, in watts.
    pub load_watts: f64,
    /// Calls in the part of the load that counts.
    pub calls: f64,
    /// That part's length, in seconds.
    pub seconds: f64,
    /// Version of the method.
    pub method_version: u32,
}

/// The estimate of the best meter that can tell the load from rest.
///
/// Counters come before integrated power, which comes before the battery; of one method, the scope closest to the
/// chip comes first. Unavailable with every meter's reason where none can tell.
pub fn estimate_energy(run: &EnergyRun) -> Reading<EnergyEstimate> {
    let mut series: Vec<&MeterSeries> = run.series.iter().collect();
    series.sort_by(|one, other| one.meter.cmp(&other.meter));
    let mut reasons = Vec::new();
    for series in series {
        match estimate_by_meter(run, series) {
            Reading::Available(estimate) => return Reading::Available(estimate),
            Reading::Unavailable(reason) => reasons.push(format!("{}: {reason}", series.meter.name)),
        }
    }
    Reading::unavailable(if reasons.is_empty() { "no meter was read".to_owned() } else { reasons.join("; ") })
}

/// The estimates of one run that may be compared with those of other runs: of each scope that can tell the load from
/// rest, the best method's.
pub fn estimate_by_scope(run: &EnergyRun) -> Vec<EnergyEstimate> {
    let of_scope = |scope: EnergyScope| {
        let mut series: Vec<&MeterSeries> = run.series.iter().filter(|it| it.meter.scope == scope).collect();
        series.sort_by(|one, other| one.meter.cmp(&other.meter));
        series.into_iter().find_map(|series| estimate(run, series).ok())
    };
    EnergyScope::ALL.into_iter().filter_map(of_scope).collect()
}

/// The estimate by one meter's readings.
///
/// Each window is cut into blocks of at least two steps of the sensor where there are enough. Energy over calls is a
/// ratio of sums, and its error comes from how far the blocks lie from it (the delta method; batch means where
/// neighbours are alike). Idle and load add in quadrature, with Student's t for the degrees of freedom of Welch and
/// Satterthwaite.
pub fn estimate_by_meter(run: &EnergyRun, series: &MeterSeries) -> Reading<EnergyEstimate> {
    match estimate(run, series) {
        Ok(estimate) => Reading::Available(estimate),
        Err(reason) => Reading::Unavailable(reason),
    }
}

fn estimate(run: &EnergyRun, series: &MeterSeries) -> Result<EnergyEstimate, String> {
    let blocks = |window: TimeWindow, what: &str| {
        let pieces = pieces(series, window.settled()).map_err(|reason| format!("{reason} {what}"))?;
        Ok::<_, String>(Blocks::of(&pieces))
    };
    let (idle, load) = (blocks(run.idle, "at rest")?, blocks(run.load, "under load")?);
    let load = load.with_calls(|at_s| calls_by(&run.progress, at_s));
    if load.calls() <= 0.0 {
        return Err("no call was done in the part of the load that counts".to_owned());
    }
    let resolution = pieces::resolution(series);
    let idle_power = idle.power(resolution);
    let (gross, net) = (load.per_call(0.0, resolution), load.per_call(idle_power.value, resolution));
    let seconds_per_call = load.seconds() / load.calls();
    let idle_error = idle_power.error * seconds_per_call;
    let error = net.error.hypot(idle_error);
    let degrees = ratio::joint_degrees(&[(net.error, net.degrees), (idle_error, idle_power.degrees)]);
    let factor = |confidence| student::critical(confidence, degrees).unwrap_or(f64::INFINITY);
    if ![net.value, error, gross.value, gross.error, idle_power.value].iter().all(|it| it.is_finite()) {
        return Err("its readings are no power of this world".to_owned());
    }
    if net.value <= factor(SEPARABLE) * error {
        let (load_watts, idle_watts) = (load.power(resolution).value, idle_power.value);
        return Err(format!(
            "its {load_watts:.2} W under load cannot be told from its {idle_watts:.2} W at rest"
        ));
    }
    if let Some(percent) = load.unsettled(idle_power.value, UNSETTLED) {
        return Err(format!("the joules of a call still changed by {percent:.0} % within the load"));
    }
    let around = |value: f64, half_width: f64| Interval { low: value - half_width, high: value + half_width };
    let gross_factor = student::critical(CONFIDENCE, gross.degrees).unwrap_or(f64::INFINITY);
    Ok(EnergyEstimate {
        meter: series.meter.clone(),
        joules: net.value,
        interval: around(net.value, factor(CONFIDENCE) * error),
        gross_joules: gross.value,
        gross_interval: around(gross.value, gross_factor * gross.error),
        idle_watts: idle_power.value,
        load_watts: load.power(resolution).value,
        calls: load.calls(),
        seconds: load.seconds(),
        method_version: METHOD_VERSION,
    })
}

/// Calls done by `at_s`, on the straight line between the two moments of which it is known.
fn calls_by(progress: &[WorkDone], at_s: f64) -> f64 {
    let next = progress.partition_point(|done| done.at_s <= at_s);
    match (next.checked_sub(1).and_then(|index| progress.get(index)), progress.get(next)) {
        (Some(before), Some(after)) if after.at_s > before.at_s => {
            let share = (at_s - before.at_s) / (after.at_s - before.at_s);
            before.calls as f64 + share * after.calls.saturating_sub(before.calls) as f64
        }
        (Some(known), _) | (None, Some(known)) => known.calls as f64,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests;
