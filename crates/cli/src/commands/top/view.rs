//! One look at the machine as a table and as a line.
//!
//! Invariant: every sensor has its row or its sentence; those of a part that tell nothing for one reason share one.

use siliconroute::identify::{BusySource, ChipSample, Limit, PowerState};
use siliconroute::sampler::Look;
use siliconroute::telemetry::{MeterTelemetry, Telemetry};
use siliconroute_core::Reading;
use siliconroute_core::energy::EnergyMethod;

use crate::output::{Listing, bytes, table};

/// What one sensor tells.
type Row = (String, Reading<String>);

/// The sensors of one part of the machine.
struct Part {
    name: String,
    rows: Vec<Row>,
}

/// The table of everything that is told.
pub(super) fn listing(told: &Telemetry) -> Listing {
    let mut listed = table(&["sensor", "now"]);
    for part in parts(told) {
        for (sensor, reading) in &part.rows {
            if let Reading::Available(value) = reading {
                listed.add_row([&format!("{} {sensor}", part.name), value]);
            }
        }
    }
    listed
}

/// What is not told, with the reasons: one sentence for all sensors of a part that share theirs.
pub(super) fn absences(told: &Telemetry) -> Vec<String> {
    let mut sentences = Vec::new();
    for part in parts(told) {
        let mut absent: Vec<(&str, Vec<&str>)> = Vec::new();
        for (sensor, reading) in &part.rows {
            if let Reading::Unavailable(reason) = reading {
                match absent.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, sensors)) => sensors.push(sensor),
                    None => absent.push((reason, vec![sensor])),
                }
            }
        }
        let sentence = |(reason, sensors): (&str, Vec<&str>)| {
            format!("{} {}: not available: {reason}", part.name, sensors.join(", "))
        };
        sentences.extend(absent.into_iter().map(sentence));
    }
    sentences
}

/// The look in one line, a dash for what is not told.
pub(super) fn line(told: &Telemetry, look: &Look) -> String {
    let mut words = vec![format!("+{:.1} s", look.at.as_secs_f64())];
    for part in parts(told) {
        let values: Vec<&str> =
            part.rows.iter().filter_map(|(_, reading)| reading.available().map(String::as_str)).collect();
        let values = if values.is_empty() { "–".to_owned() } else { values.join(", ") };
        words.push(format!("{}: {values}", part.name));
    }
    words.join(" | ")
}

fn row(name: &str, reading: Reading<String>) -> Row {
    (name.to_owned(), reading)
}

fn parts(told: &Telemetry) -> Vec<Part> {
    let cpu = &told.cpu;
    let clock = match &cpu.clocks {
        Reading::Available(clocks) => Reading::Available(format!(
            "{:.0} MHz ({:.0} – {:.0} MHz)",
            clocks.median_mhz, clocks.min_mhz, clocks.max_mhz
        )),
        Reading::Unavailable(_) => cpu.clock_mhz.clone().map(megahertz),
    };
    let throttled = cpu.throttling.clone().and_then(|it| it.package_events);
    let mut parts = vec![
        Part {
            name: "cpu".to_owned(),
            rows: vec![
                row("load", cpu.busy_percent.clone().map(percent)),
                row("clock", clock),
                row("temperature", cpu.temperature_celsius.clone().map(celsius)),
                row("slowed by heat", throttled.map(|times| format!("{times} × since the start"))),
                row(
                    "limit of its clock",
                    cpu.throttling.clone().and_then(|it| it.clock_limit_percent).map(percent),
                ),
                row("load average", cpu.load_average_1m.clone().map(|load| format!("{load:.2}"))),
            ],
        },
        Part {
            name: "memory".to_owned(),
            rows: vec![row("free", told.free_memory_bytes.clone().map(bytes))],
        },
        Part {
            name: "power".to_owned(),
            rows: vec![
                row("source", told.power.source.clone().map(|source| source_name(source).to_owned())),
                row("profile", told.power.profile.clone()),
                row("battery", told.power.battery_percent.clone().map(percent)),
                row("battery gives", told.power.battery_discharge_watts.clone().map(watts)),
            ],
        },
    ];
    match &told.chips {
        Reading::Available(chips) => {
            for sample in chips {
                let mut part = chip(sample);
                if part.name == parts[0].name {
                    // The machine has told the rest of its processor.
                    part.rows.retain(|(sensor, _)| ["power", "held back by"].contains(&sensor.as_str()));
                    parts[0].rows.append(&mut part.rows);
                } else {
                    parts.push(part);
                }
            }
        }
        Reading::Unavailable(reason) => {
            let rows = vec![row("sensors", Reading::Unavailable(reason.clone()))];
            parts.push(Part { name: "chips".to_owned(), rows });
        }
    }
    parts.push(Part { name: "energy".to_owned(), rows: meters(&told.meters) });
    parts.push(Part { name: "temperatures".to_owned(), rows: temperatures(told) });
    parts
}

fn chip(sample: &ChipSample) -> Part {
    let state = sample.power_state.clone().map(|state| match state {
        PowerState::Awake => "awake".to_owned(),
        PowerState::Asleep => "asleep".to_owned(),
    });
    let busy = sample.busy.clone().map(|busy| match busy.source {
        BusySource::Counted | BusySource::DriverAverage => percent(busy.percent),
        BusySource::Awake => format!("at most {}", percent(busy.percent)),
    });
    let limits = sample.limits.clone().map(|limits| {
        let names: Vec<&str> = limits.iter().map(|limit| limit_name(*limit)).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    });
    Part {
        name: sample.chip.to_string(),
        rows: vec![
            row("state", state),
            row("load", busy),
            row("power", sample.power_watts.clone().map(watts)),
            row("clock", sample.clock_mhz.clone().map(megahertz)),
            row("temperature", sample.temperature_celsius.clone().map(celsius)),
            row("memory in use", sample.memory_used_bytes.clone().map(bytes)),
            row("held back by", limits),
        ],
    }
}

fn meters(meters: &Reading<Vec<MeterTelemetry>>) -> Vec<Row> {
    match meters {
        Reading::Available(meters) => meters
            .iter()
            // The power of a chip stands among its sensors.
            .filter(|it| it.meter.method != EnergyMethod::Power)
            .map(|it| {
                let told = it.watts.clone().map(|power| format!("{} ({})", watts(power), it.meter.scope));
                row(&it.meter.name, told)
            })
            .collect(),
        Reading::Unavailable(reason) => vec![row("all", Reading::Unavailable(reason.clone()))],
    }
}

fn temperatures(told: &Telemetry) -> Vec<Row> {
    match &told.temperatures_celsius {
        Reading::Available(all) => {
            all.iter().map(|(name, value)| row(name, Reading::Available(celsius(*value)))).collect()
        }
        Reading::Unavailable(reason) => vec![row("all", Reading::Unavailable(reason.clone()))],
    }
}

fn source_name(source: siliconroute::telemetry::PowerSource) -> &'static str {
    match source {
        siliconroute::telemetry::PowerSource::Ac => "mains",
        siliconroute::telemetry::PowerSource::Battery => "battery",
    }
}

fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Heat => "heat",
        Limit::Power => "power",
        Limit::Current => "current",
        Limit::Other => "something else",
    }
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

fn watts(value: f64) -> String {
    format!("{value:.1} W")
}

fn megahertz(value: f64) -> String {
    format!("{value:.0} MHz")
}

fn celsius(value: f64) -> String {
    format!("{value:.0} °C")
}

#[cfg(test)]
mod tests;
