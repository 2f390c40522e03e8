//! Joules of an inference, as `bench --energy` shows them.
//!
//! Invariant: what is not known has its reason; sessions are joined only where the same meter told them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use siliconroute::Error;
use siliconroute::campaign::EnergyWindows;
use siliconroute_core::Reading;
use siliconroute_core::energy::{EnergyEstimate, Meter, NOT_MEASURED, estimate_energy};
use siliconroute_core::statistics::{Interval, join_sessions};
use siliconroute_core::trial::Trial;

use super::configuration::Configuration;
use crate::arguments::Bench;
use crate::output::Output;

/// The shortest window in which a meter that is read once a second tells enough.
const SHORTEST_S: f64 = 5.0;
const LONGEST_S: f64 = 3_600.0;

/// The windows that the arguments ask for.
pub(super) fn windows(arguments: &Bench) -> Result<Option<EnergyWindows>, Error> {
    if !arguments.energy {
        return Ok(None);
    }
    let unfit = || {
        Error::Usage(format!(
            "--energy-windows takes two times, of rest and of load, each from {SHORTEST_S} to {LONGEST_S} seconds"
        ))
    };
    let [idle, load] = arguments.energy_windows[..] else { return Err(unfit()) };
    let time = |seconds: f64| {
        if !(SHORTEST_S..=LONGEST_S).contains(&seconds) {
            return Err(unfit());
        }
        Duration::try_from_secs_f64(seconds).map_err(|_out_of_range| unfit())
    };
    Ok(Some(EnergyWindows { idle: time(idle)?, load: time(load)? }))
}

/// What a trial's meters say of one inference.
fn of_trial(trial: &Trial) -> Reading<EnergyEstimate> {
    match &trial.outcome {
        Ok(measured) => measured.energy.clone().and_then(|run| estimate_energy(&run)),
        Err(failure) => Reading::unavailable(failure.to_string()),
    }
}

/// The energy of one configuration over its sessions.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionEnergy {
    meter: Meter,
    /// The median over the sessions.
    joules: f64,
    /// Within the only session, or between sessions.
    interval: Option<Interval>,
    gross_joules: f64,
}

impl SessionEnergy {
    /// Joins what the sessions tell that were read by the meter of the first one.
    pub(super) fn of(trials: &[&Trial]) -> Reading<Self> {
        let mut reason = None;
        let mut told: Vec<EnergyEstimate> = Vec::new();
        for trial in trials {
            match of_trial(trial) {
                Reading::Available(estimate) => told.push(estimate),
                Reading::Unavailable(why) => {
                    reason.get_or_insert(why);
                }
            }
        }
        let Some(first) = told.first() else {
            return Reading::Unavailable(reason.unwrap_or_else(|| NOT_MEASURED.to_owned()));
        };
        let meter = first.meter.clone();
        told.retain(|estimate| estimate.meter == meter);
        let median = |of: fn(&EnergyEstimate) -> f64| join_sessions(&told.iter().map(of).collect::<Vec<_>>());
        let (Some(joules), Some(gross)) = (median(|it| it.joules), median(|it| it.gross_joules)) else {
            return Reading::unavailable("the sessions' energies are no numbers");
        };
        let interval = match &told[..] {
            [only] => Some(only.interval),
            _ => joules.interval,
        };
        Reading::Available(Self { meter, joules: joules.median, interval, gross_joules: gross.median })
    }
}

impl fmt::Display for SessionEnergy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = unit(self.joules);
        write!(f, "{:.3} {unit}", self.joules * scale)?;
        if let Some(interval) = self.interval {
            write!(f, " [{:.3} – {:.3}]", interval.low * scale, interval.high * scale)?;
        }
        write!(f, " of the {}, by {}", self.meter.scope, self.meter.method)
    }
}

/// A fitting unit and how many of it are a joule.
fn unit(joules: f64) -> (&'static str, f64) {
    match joules.abs() {
        size if size < 1e-3 => ("µJ", 1e6),
        size if size < 1.0 => ("mJ", 1e3),
        _ => ("J", 1.0),
    }
}

/// What meters said of a trial, as programs read it, with the readings themselves.
pub(super) fn document(trial: &Trial) -> Value {
    let mut document = match of_trial(trial) {
        Reading::Available(it) => json!({
            "joules_per_inference": it.joules, "ci95_low": it.interval.low, "ci95_high": it.interval.high,
            "gross_joules_per_inference": it.gross_joules,
            "gross_ci95_low": it.gross_interval.low, "gross_ci95_high": it.gross_interval.high,
            "idle_watts": it.idle_watts, "load_watts": it.load_watts,
            "method": it.meter.method, "scope": it.meter.scope, "meter": it.meter.name, "chip": it.meter.chip,
            "calls": it.calls, "seconds": it.seconds, "method_version": it.method_version,
        }),
        Reading::Unavailable(reason) => json!({"unavailable": reason}),
    };
    if let Ok(Reading::Available(run)) = trial.outcome.as_ref().map(|measured| &measured.energy) {
        document["readings"] = json!(run);
    }
    document
}

/// The fields of the energy columns.
pub(super) fn csv_fields(energy: &Reading<SessionEnergy>) -> [String; 7] {
    let none = String::new;
    match energy {
        Reading::Available(it) => {
            let end = |of: fn(&Interval) -> f64| {
                it.interval.as_ref().map_or_else(none, |interval| format!("{:e}", of(interval)))
            };
            [
                format!("{:e}", it.joules),
                end(|it| it.low),
                end(|it| it.high),
                format!("{:e}", it.gross_joules),
                it.meter.method.to_string(),
                it.meter.scope.to_string(),
                none(),
            ]
        }
        Reading::Unavailable(reason) => {
            let reason = format!("\"{}\"", reason.replace('"', "\"\""));
            [none(), none(), none(), none(), none(), none(), reason]
        }
    }
}

/// Tells for which configurations there is no energy, and why: each reason once.
pub(super) fn tell_absences(output: &Output, all: &[Configuration<'_>]) {
    let mut reasons: Vec<(String, BTreeSet<String>)> = Vec::new();
    for one in all {
        if let Reading::Unavailable(reason) = one.energy() {
            let what = one.target.to_string();
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, targets)) => {
                    targets.insert(what);
                }
                None => reasons.push((reason, BTreeSet::from([what]))),
            }
        }
    }
    for (reason, targets) in reasons {
        let targets: Vec<String> = targets.into_iter().collect();
        output.note(format!("energy on {} is not available: {reason}", targets.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use siliconroute_core::energy::{EnergyMethod, EnergyScope};

    use super::*;

    fn energy(joules: f64) -> SessionEnergy {
        let meter = Meter {
            method: EnergyMethod::Counter,
            scope: EnergyScope::Package,
            name: "rapl package-0".to_owned(),
            chip: None,
        };
        let interval = Some(Interval { low: joules * 0.9, high: joules * 1.1 });
        SessionEnergy { meter, joules, interval, gross_joules: joules * 2.0 }
    }

    #[test]
    fn joules_are_shown_in_a_unit_that_fits_with_scope_and_method() {
        #[track_caller]
        fn check(joules: f64, expected: &str) {
            assert_eq!(energy(joules).to_string(), expected);
        }
        check(0.25, "250.000 mJ [225.000 – 275.000] of the package, by counter");
        check(2.0, "2.000 J [1.800 – 2.200] of the package, by counter");
        check(0.000_05, "50.000 µJ [45.000 – 55.000] of the package, by counter");
    }

    #[test]
    fn what_is_absent_is_an_empty_field_with_its_reason() {
        let fields = csv_fields(&Reading::unavailable("needs \"root\""));
        assert_eq!(fields.join(","), ",,,,,,\"needs \"\"root\"\"\"");
        let fields = csv_fields(&Reading::Available(energy(0.5)));
        assert_eq!(fields.join(","), "5e-1,4.5e-1,5.5e-1,1e0,counter,package,");
    }
}
