//! What slows the processor of a Linux machine down: heat counters of Intel's processors, limits on the clock.
//!
//! Invariant: counters only; whether they grew is for two snapshots to tell.

use std::collections::BTreeMap;
use std::path::Path;

use siliconroute_core::Reading;

use super::sensors::clock_policies;
use crate::conditions::Throttling;
use crate::roots::{Roots, list_numbered, read_number, read_word};

/// Reads counters and limits.
pub(crate) fn read(roots: &Roots) -> Throttling {
    let counts = HeatCounts::read(roots);
    Throttling {
        core_events: total(&counts.core_events, &counts.missing),
        package_events: total(&counts.package_events, &counts.missing),
        package_throttled_ms: total(&counts.package_ms, &counts.missing),
        clock_limit_percent: clock_limit_percent(roots),
        thermal_state: Reading::unavailable("Linux sums up no state of the machine's heat"),
    }
}

/// Counters by the core or package that they belong to.
///
/// Every logical CPU has a copy of its core's and its package's counter, which it raises when it is the one
/// that is interrupted; the largest copy is the closest to the truth.
#[derive(Default)]
struct HeatCounts {
    core_events: BTreeMap<(String, String), u64>,
    package_events: BTreeMap<String, u64>,
    package_ms: BTreeMap<String, u64>,
    missing: String,
}

impl HeatCounts {
    fn read(roots: &Roots) -> Self {
        let folder = roots.sys.join("devices/system/cpu");
        let mut counts = Self::default();
        let cpus = match list_numbered(&folder, "cpu") {
            Reading::Available(cpus) => cpus,
            Reading::Unavailable(reason) => return Self { missing: reason, ..Self::default() },
        };
        counts.missing = format!("no CPU has a folder thermal_throttle in {}", folder.display());
        for cpu in cpus {
            let cpu = folder.join(cpu);
            let heat = cpu.join("thermal_throttle");
            if !heat.is_dir() {
                continue;
            }
            let word = |name: &str| {
                read_word(&cpu.join("topology").join(name)).available().cloned().unwrap_or_default()
            };
            let (package, core) = (word("physical_package_id"), word("core_id"));
            raise(&mut counts.core_events, (package.clone(), core), &heat.join("core_throttle_count"));
            raise(&mut counts.package_events, package.clone(), &heat.join("package_throttle_count"));
            raise(&mut counts.package_ms, package, &heat.join("package_throttle_total_time_ms"));
        }
        counts
    }
}

fn raise<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, path: &Path) {
    if let Reading::Available(count) = read_number::<u64>(path) {
        let largest = counts.entry(key).or_insert(count);
        *largest = (*largest).max(count);
    }
}

fn total<K>(counts: &BTreeMap<K, u64>, missing: &str) -> Reading<u64> {
    let sum = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    Reading::from_option((!counts.is_empty()).then_some(sum), missing)
}

/// The tightest limit on a clock, of the clock that the hardware can reach.
fn clock_limit_percent(roots: &Roots) -> Reading<f64> {
    let (folder, policies) = clock_policies(roots);
    let mut tightest: Option<f64> = None;
    for policy in &policies {
        let policy = folder.join(policy);
        let khz = |name: &str| {
            read_number::<f64>(&policy.join(name))
                .available()
                .copied()
                .filter(|khz| *khz > 0.0 && khz.is_finite())
        };
        let Some(hardware) = khz("cpuinfo_max_freq") else { continue };
        // The firmware's own limit is a file of the driver for ACPI tables, and not of every other.
        let limits = [khz("scaling_max_freq"), khz("bios_limit")];
        let Some(limit) = limits.into_iter().flatten().min_by(f64::total_cmp) else { continue };
        let percent = (limit / hardware * 100.0).min(100.0);
        tightest = Some(tightest.map_or(percent, |least| least.min(percent)));
    }
    Reading::from_option(tightest, &format!("no limit of a clock in {}", folder.display()))
}
