//! Energy of a warm session: a window of rest, then one of load, with the meters read throughout.
//!
//! Invariant: a session whose energy cannot be told keeps its times; what stands against it is a reason.

use std::time::Duration;

use siliconroute_core::Reading;
use siliconroute_core::energy::{EnergyRun, TimeWindow, WorkDone};
use siliconroute_core::trial::Sample;

use super::subject::Subject;
use super::{Setting, Workers};

/// Time that the load asks of a worker at once.
const BLOCK: Duration = Duration::from_millis(500);

/// Least time between two moments of which the progress is kept.
const PROGRESS_STEP: Duration = Duration::from_millis(100);

/// How long the windows of energy are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnergyWindows {
    /// The rest, session alive.
    pub idle: Duration,
    /// The load.
    pub load: Duration,
}

impl Default for EnergyWindows {
    fn default() -> Self {
        Self { idle: Duration::from_secs(15), load: Duration::from_secs(30) }
    }
}

impl EnergyWindows {
    /// Both together.
    pub fn total(self) -> Duration {
        self.idle + self.load
    }
}

/// What a trial of which energy was asked says where none is measured.
pub(super) const SUSTAINED_ALONE: &str =
    "energy is measured of single sessions in the sustained workload alone";

/// Measures the energy of one subject.
pub(super) fn measure(
    subject: &mut Subject<'_>,
    workers: &mut Workers<'_>,
    setting: &Setting<'_>,
    windows: EnergyWindows,
) {
    let surroundings = setting.surroundings;
    let left = setting.until.map(|until| until.saturating_sub(surroundings.elapsed()));
    let energy = if left.is_some_and(|left| left < windows.total()) {
        let seconds = windows.total().as_secs_f64();
        Reading::unavailable(format!("the budget left no room for {seconds:.0} s of rest and load"))
    } else {
        match surroundings.begin_metering(subject.found) {
            Reading::Available(()) => run(subject, workers, setting, windows),
            Reading::Unavailable(reason) => Reading::Unavailable(reason),
        }
    };
    surroundings.end_metering();
    if let Ok(progress) = &mut subject.state {
        progress.energy = energy;
    }
}

fn run(
    subject: &mut Subject<'_>,
    workers: &mut Workers<'_>,
    setting: &Setting<'_>,
    windows: EnergyWindows,
) -> Reading<EnergyRun> {
    let surroundings = setting.surroundings;
    let begin = surroundings.metered_now();
    surroundings.rest(windows.idle);
    let loaded = surroundings.metered_now();
    let mut done = vec![(loaded, 0)];
    let mut failure = None;
    subject.with_session(workers, setting, |progress, session| {
        let mut calls = 0_u64;
        loop {
            match session.sample(0, progress.calls_per_sample, u32::MAX, BLOCK) {
                Ok(block) => calls += count(&block.samples),
                Err(error) => {
                    failure = Some(error.to_string());
                    return Err(error);
                }
            }
            let now = surroundings.metered_now();
            let over = now.saturating_sub(loaded) >= windows.load;
            let last = done.last().map_or(loaded, |(at, _)| *at);
            if over || now.saturating_sub(last) >= PROGRESS_STEP {
                done.push((now, calls));
            }
            if over || surroundings.is_cancelled() {
                return Ok(());
            }
        }
    });
    let end = done.last().map_or(loaded, |(at, _)| *at);
    if surroundings.is_cancelled() {
        return Reading::unavailable("interrupted");
    }
    if let Some(failure) = failure {
        return Reading::Unavailable(failure);
    }
    let seconds = |time: Duration| time.saturating_sub(begin).as_secs_f64();
    surroundings.meter_series(subject.found, begin, end).map(|series| EnergyRun {
        idle: TimeWindow { begin_s: 0.0, end_s: seconds(loaded) },
        load: TimeWindow { begin_s: seconds(loaded), end_s: seconds(end) },
        progress: done.iter().map(|&(at, calls)| WorkDone { at_s: seconds(at), calls }).collect(),
        series,
    })
}

fn count(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| u64::from(sample.calls)).sum()
}
