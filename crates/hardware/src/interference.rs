//! What else happened on the machine between two snapshots: other programs, other machines, heat, power.
//!
//! Invariant: pure, so it can be computed from stored snapshots as well as from fresh ones.

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::conditions::Conditions;

/// The system counts CPU time in steps of up to 10 ms for each core; over a shorter time than this the steps
/// would be a tenth of the result and more.
const SHORTEST_NS: u64 = 100_000_000;

/// Share of the machine's CPU time beyond which what others took counts as a disturbance.
const DISTURBED_SHARE: f64 = 0.05;

/// What disturbed the time between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// The time between the two.
    pub elapsed_ns: Reading<u64>,
    /// The share of all CPU time that other machines of the same host took, 0 to 1.
    pub steal_share: Reading<f64>,
    /// The cores that programs other than the measured process kept busy, kernel work included.
    pub other_busy_cores: Reading<f64>,
    /// The share of all CPU time that other programs and other machines took together, 0 to 1; of other machines as far
    /// as the system tells of them.
    pub taken_share: Reading<f64>,
    /// Whether they took more than 5 %, so that a measurement meanwhile may be slower than it would be alone.
    pub disturbed: Reading<bool>,
    /// Times that heat slowed a core or a package.
    pub throttle_events: Reading<u64>,
    /// Time that packages spent slowed by heat, in milliseconds.
    pub throttled_ms: Reading<u64>,
    /// The change of the median clock, in MHz: negative where the cores slowed down.
    pub clock_change_mhz: Reading<f64>,
    /// The change of the processor's temperature, in degrees Celsius.
    pub temperature_change_celsius: Reading<f64>,
    /// Whether the machine changed from mains to battery or back; a change there and back is not seen.
    pub power_source_changed: Reading<bool>,
    /// The change of the battery's charge, in percent of its capacity.
    pub battery_change_percent: Reading<f64>,
}

impl Interference {
    /// Compares two snapshots of one machine, `earlier` being the first.
    ///
    /// `own_cpu_ns` is the CPU time that the measured process spent between the two. Counters that went back,
    /// and times under 0.1 s, are reasons. A process that seems to have used more than the whole machine is a
    /// matter of the counters' steps, and leaves 0 cores to the others.
    pub fn between(earlier: &Conditions, later: &Conditions, own_cpu_ns: &Reading<u64>) -> Self {
        let elapsed_ns = grown(&earlier.uptime_ns, &later.uptime_ns, "uptime").and_then(|ns| {
            if ns < SHORTEST_NS {
                Reading::unavailable(format!(
                    "{} ms passed between the snapshots, too little for counters in steps of 10 ms",
                    ns / 1_000_000
                ))
            } else {
                Reading::Available(ns)
            }
        });
        let (then, now) = (&earlier.cpu_times, &later.cpu_times);
        let user = grown(&then.user_ns, &now.user_ns, "CPU time");
        let system = grown(&then.system_ns, &now.system_ns, "CPU time");
        let idle = grown(&then.idle_ns, &now.idle_ns, "CPU time");
        let steal = grown(&then.steal_ns, &now.steal_ns, "steal time");
        let busy = user.zip(system).map(|(user, system)| user.saturating_add(system));
        // Windows and macOS tell of no other machines, and what programs took is known all the same.
        let untold = then.steal_ns.available().is_none() && now.steal_ns.available().is_none();
        let known_steal = if untold { Reading::Available(0) } else { steal.clone() };
        let times = elapsed_ns.clone().zip(busy.clone()).zip(idle);
        let share = |part: f64, all: f64| {
            let share = (all > 0.0).then(|| part / all);
            Reading::from_option(share, "no CPU time has passed between the two snapshots")
        };
        let all = |busy: u64, idle: u64, steal: u64| busy as f64 + idle as f64 + steal as f64;
        let steal_share = times
            .clone()
            .zip(steal)
            .and_then(|(((_, busy), idle), steal)| share(steal as f64, all(busy, idle, steal)));
        let taken = times.zip(known_steal).zip(own_cpu_ns.clone());
        let taken_share = taken.and_then(|((((_, busy), idle), steal), own)| {
            share(busy.saturating_sub(own) as f64 + steal as f64, all(busy, idle, steal))
        });
        let other_busy_cores = elapsed_ns
            .clone()
            .zip(busy)
            .zip(own_cpu_ns.clone())
            .map(|((elapsed, busy), own)| busy.saturating_sub(own) as f64 / elapsed as f64);
        let (cool, hot) = (&earlier.throttling, &later.throttling);
        let core_events = grown(&cool.core_events, &hot.core_events, "throttling");
        let package_events = grown(&cool.package_events, &hot.package_events, "throttling");
        Self {
            elapsed_ns,
            steal_share,
            other_busy_cores,
            disturbed: taken_share.clone().map(|share| share > DISTURBED_SHARE),
            taken_share,
            throttle_events: core_events
                .zip(package_events)
                .map(|(core, package)| core.saturating_add(package)),
            throttled_ms: grown(&cool.package_throttled_ms, &hot.package_throttled_ms, "throttling"),
            clock_change_mhz: earlier
                .cpu_clocks
                .clone()
                .zip(later.cpu_clocks.clone())
                .map(|(then, now)| now.median_mhz - then.median_mhz),
            temperature_change_celsius: change(
                &earlier.cpu_temperature_celsius,
                &later.cpu_temperature_celsius,
            ),
            power_source_changed: earlier
                .power_source
                .clone()
                .zip(later.power_source.clone())
                .map(|(then, now)| then != now),
            battery_change_percent: change(&earlier.battery_percent, &later.battery_percent),
        }
    }
}

fn grown(then: &Reading<u64>, now: &Reading<u64>, what: &str) -> Reading<u64> {
    then.clone().zip(now.clone()).and_then(|(then, now)| {
        Reading::from_option(now.checked_sub(then), &format!("the {what} counter went back"))
    })
}

fn change(then: &Reading<f64>, now: &Reading<f64>) -> Reading<f64> {
    then.clone().zip(now.clone()).map(|(then, now)| now - then)
}

#[cfg(test)]
mod tests;
