//! A simulated machine of known power with simulated sensors, for tests alone.
//!
//! Invariant: one seed gives one series; the truth stands beside it.

use crate::energy::{
    CounterTrack, EnergyMethod, EnergyRun, EnergyScope, Meter, MeterPoint, MeterSeries, TimeWindow, WorkDone,
};
use crate::reading::Reading;
use crate::statistics::draws::Draws;

/// Steps of the simulated time.
const STEP_S: f64 = 0.01;
const IDLE_S: f64 = 15.0;
const END_S: f64 = 45.0;

/// A machine that rests for 15 s and works for 30 s.
#[derive(Debug, Clone, Copy)]
pub(super) struct World {
    pub(super) idle_watts: f64,
    pub(super) load_watts: f64,
    /// Standard deviation of the power's average over a second, relative to it.
    pub(super) noise: f64,
    /// Correlation of the power with that of a second before.
    pub(super) alike: f64,
    /// Time in which the power comes within a third of its level under load.
    pub(super) rise_s: f64,
    pub(super) call_s: f64,
}

impl Default for World {
    fn default() -> Self {
        Self { idle_watts: 8.0, load_watts: 28.0, noise: 0.05, alike: 0.0, rise_s: 0.0, call_s: 0.013 }
    }
}

/// A sensor that is read once a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sensor {
    pub(super) method: EnergyMethod,
    /// Joules at which a counter starts again.
    pub(super) wraps_at_j: Option<f64>,
    /// Share of readings that fail.
    pub(super) dropout: f64,
    /// How late it tells what was.
    pub(super) lag_s: f64,
    /// Time between two renewals of what it tells.
    pub(super) renewed_s: f64,
    /// Steps of its watts.
    pub(super) step: f64,
}

impl Sensor {
    pub(super) fn counter() -> Self {
        Self::of(EnergyMethod::Counter)
    }

    /// Tells the average of the second before.
    pub(super) fn power() -> Self {
        Self::of(EnergyMethod::Power)
    }

    pub(super) fn battery() -> Self {
        Self::of(EnergyMethod::Battery)
    }

    fn of(method: EnergyMethod) -> Self {
        Self { method, wraps_at_j: None, dropout: 0.0, lag_s: 0.0, renewed_s: 0.0, step: 0.0 }
    }

    fn meter(self) -> Meter {
        let scope = match self.method {
            EnergyMethod::Battery => EnergyScope::Machine,
            EnergyMethod::Counter | EnergyMethod::Power => EnergyScope::Package,
        };
        Meter { method: self.method, scope, name: format!("simulated {}", self.method), chip: None }
    }
}

impl World {
    /// The joules of one call beyond rest.
    pub(super) fn true_joules(&self) -> f64 {
        (self.load_watts - self.idle_watts) * self.call_s
    }

    /// What `sensors` tell of one run.
    pub(super) fn run(&self, sensors: &[Sensor], seed: u64) -> EnergyRun {
        let mut draws = Draws::new(seed);
        let energy = self.energy(&mut draws);
        let progress = (0..=60_u32)
            .map(|half| WorkDone {
                at_s: IDLE_S + f64::from(half) / 2.0,
                calls: (f64::from(half) / 2.0 / self.call_s).round() as u64,
            })
            .collect();
        EnergyRun {
            idle: TimeWindow { begin_s: 0.0, end_s: IDLE_S },
            load: TimeWindow { begin_s: IDLE_S, end_s: END_S },
            progress,
            series: sensors.iter().map(|sensor| sensor.series(&energy, &mut draws)).collect(),
        }
    }

    /// Joules by time, in steps of [`STEP_S`].
    fn energy(&self, draws: &mut Draws) -> Vec<f64> {
        let steps = (END_S / STEP_S) as usize + 1;
        let per_second = 1.0 / STEP_S;
        // Each second has a deviation of its own, which follows the one before.
        let mut deviation = 0.0;
        let (mut total, mut energy) = (0.0, vec![0.0]);
        for step in 1..steps {
            let at_s = step as f64 * STEP_S;
            if (step - 1) % per_second as usize == 0 {
                deviation = self.alike * deviation
                    + (1.0 - self.alike * self.alike).sqrt() * self.noise * draws.normal();
            }
            let level = if at_s <= IDLE_S {
                self.idle_watts
            } else if self.rise_s > 0.0 {
                let risen = 1.0 - (-(at_s - IDLE_S) / self.rise_s).exp();
                self.idle_watts + (self.load_watts - self.idle_watts) * risen
            } else {
                self.load_watts
            };
            total += level * (1.0 + deviation) * STEP_S;
            energy.push(total);
        }
        energy
    }
}

impl Sensor {
    fn series(self, energy: &[f64], draws: &mut Draws) -> MeterSeries {
        let joules_at = |at_s: f64| energy[((at_s / STEP_S).round().max(0.0) as usize).min(energy.len() - 1)];
        let unit = 1e6;
        let mut track = CounterTrack::new(self.wraps_at_j.map(|joules| (joules * unit) as u64));
        let mut series = MeterSeries { meter: self.meter(), points: Vec::new(), missed: 0, absence: None };
        for second in 0..=END_S as u32 {
            // A thread that sleeps wakes a little late.
            let at_s = f64::from(second) + 0.02 * draws.uniform();
            if draws.uniform() < self.dropout {
                series.missed += 1;
                series.absence.get_or_insert_with(|| "simulated dropout".to_owned());
                continue;
            }
            let told_s = at_s - self.lag_s;
            let told_s = if self.renewed_s > 0.0 {
                (told_s / self.renewed_s).floor() * self.renewed_s
            } else {
                told_s
            };
            let value = match self.method {
                EnergyMethod::Counter => {
                    let raw = (joules_at(told_s) * unit) as u64;
                    let raw = self.wraps_at_j.map_or(raw, |full| raw % (full * unit) as u64);
                    match track.advance(Reading::Available(raw)) {
                        Reading::Available(total) => total as f64 / unit,
                        Reading::Unavailable(_) => continue,
                    }
                }
                EnergyMethod::Power | EnergyMethod::Battery => {
                    let over_s = self.renewed_s.max(1.0);
                    let watts =
                        (joules_at(told_s) - joules_at(told_s - over_s)) / over_s.min(told_s.max(STEP_S));
                    if self.step > 0.0 { (watts / self.step).round() * self.step } else { watts }
                }
            };
            series.points.push(MeterPoint { at_s, value });
        }
        series
    }
}
