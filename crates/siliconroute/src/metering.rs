//! Which meters tell the energy of a target, and what they read between two moments.
//!
//! Invariant: pure over the sampler's looks; a meter of another chip never stands for the target's.

use std::collections::BTreeMap;
use std::time::Duration;

use siliconroute_core::energy::{EnergyScope, Meter, MeterPoint, MeterSeries};
use siliconroute_core::{Chip, ChipKey, Reading};
use siliconroute_hardware::lies_in_package;

use crate::sampler::Look;

/// Whether what `meter` tells holds the energy of `chip`.
pub(crate) fn tells_energy_of(meter: &Meter, chip: &Chip) -> bool {
    match (&meter.chip, meter.scope) {
        (None, EnergyScope::Machine) => true,
        (None, EnergyScope::Package | EnergyScope::Board) => false,
        (Some(key), _) if *key == chip.key => true,
        // A package's counter holds the chips that sit in it.
        (Some(key), EnergyScope::Package) => *key == ChipKey::cpu() && lies_in_package(chip),
        (Some(_), EnergyScope::Board | EnergyScope::Machine) => false,
    }
}

/// What the meters of `chip` read in `looks` from `begin` to `end`, in seconds since `begin`; a reason where none of
/// them told anything.
pub(crate) fn meter_series(
    looks: &[Look],
    chip: &Chip,
    begin: Duration,
    end: Duration,
) -> Reading<Vec<MeterSeries>> {
    let mut all: BTreeMap<Meter, MeterSeries> = BTreeMap::new();
    let mut unread = None;
    for look in looks.iter().filter(|look| (begin..=end).contains(&look.at)) {
        let readings = match &look.sighting.meters {
            Reading::Available(readings) => readings,
            Reading::Unavailable(reason) => {
                unread.get_or_insert_with(|| reason.clone());
                continue;
            }
        };
        for reading in readings.iter().filter(|reading| tells_energy_of(&reading.meter, chip)) {
            let series = all.entry(reading.meter.clone()).or_insert_with(|| MeterSeries {
                meter: reading.meter.clone(),
                points: Vec::new(),
                missed: 0,
                absence: None,
            });
            match &reading.value {
                // Nothing that is no number could be kept.
                Reading::Available(value) if !value.is_finite() => {
                    series.missed += 1;
                    series.absence.get_or_insert_with(|| format!("it told {value}, which is no quantity"));
                }
                Reading::Available(value) => {
                    series.points.push(MeterPoint {
                        at_s: look.at.saturating_sub(begin).as_secs_f64(),
                        value: *value,
                    });
                }
                Reading::Unavailable(reason) => {
                    series.missed += 1;
                    series.absence.get_or_insert_with(|| reason.clone());
                }
            }
        }
    }
    if all.values().any(|series| !series.points.is_empty()) {
        return Reading::Available(all.into_values().collect());
    }
    let reasons: Vec<String> = all
        .into_values()
        .filter_map(|series| Some(format!("{}: {}", series.meter.name, series.absence?)))
        .collect();
    Reading::unavailable(if reasons.is_empty() {
        unread.unwrap_or_else(|| format!("no meter holds the energy of {}", chip.key))
    } else {
        reasons.join("; ")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use siliconroute_core::ChipKind;
    use siliconroute_core::chip::ChipIdentity;
    use siliconroute_core::energy::EnergyMethod;
    use siliconroute_hardware::{Glance, MeterReading};

    use super::*;
    use crate::sampler::Sighting;

    fn chip(key: &str, kind: ChipKind, vendor: u16, address: &str) -> Chip {
        let identity = ChipIdentity {
            pci_vendor: Some(vendor),
            bus_address: Some(address.to_owned()),
            ..ChipIdentity::default()
        };
        Chip {
            key: ChipKey(key.to_owned()),
            kind,
            vendor: String::new(),
            name: String::new(),
            identity,
            memory_bytes: None,
            software: false,
            driver: None,
        }
    }

    fn meter(scope: EnergyScope, chip: Option<&str>) -> Meter {
        let chip = chip.map(|key| ChipKey(key.to_owned()));
        Meter { method: EnergyMethod::Counter, scope, name: "test".to_owned(), chip }
    }

    #[test]
    fn a_meter_tells_the_energy_of_what_it_holds() {
        use EnergyScope::{Board, Machine, Package};
        let cpu = chip("cpu", ChipKind::Cpu, 0x8086, "");
        let inside = chip("gpu:in", ChipKind::Gpu, 0x8086, "0000:00:02.0");
        let card = chip("gpu:card", ChipKind::Gpu, 0x10de, "0000:01:00.0");
        for (meter, expected) in [
            (meter(Package, Some("cpu")), [true, true, false]),
            (meter(Machine, None), [true, true, true]),
            (meter(Board, Some("gpu:card")), [false, false, true]),
            (meter(Board, Some("gpu:in")), [false, true, false]),
            (meter(Package, None), [false, false, false]),
        ] {
            assert_eq!(
                [&cpu, &inside, &card].map(|chip| tells_energy_of(&meter, chip)),
                expected,
                "{meter:?}"
            );
        }
    }

    #[test]
    fn readings_between_two_moments_are_a_series_and_reasons_count() {
        let cpu = chip("cpu", ChipKind::Cpu, 0x8086, "");
        let look = |second: u64, value: Reading<f64>| Look {
            number: second,
            at: Duration::from_secs(second),
            took: Duration::ZERO,
            sighting: Arc::new(Sighting {
                glance: Glance::unavailable("not asked"),
                details: Reading::unavailable("not asked"),
                chips: Reading::unavailable("not asked"),
                meters: Reading::Available(vec![MeterReading {
                    meter: meter(EnergyScope::Package, Some("cpu")),
                    value,
                }]),
            }),
        };
        let told = |joules: f64| Reading::Available(joules);
        let looks = [
            look(0, told(1.0)),
            look(1, told(2.0)),
            look(2, Reading::unavailable("gone")),
            look(3, told(9.0)),
        ];
        let seconds = Duration::from_secs;
        let series = meter_series(&looks, &cpu, seconds(1), seconds(3));
        let Reading::Available(series) = series else { panic!("{series:?}") };
        assert_eq!(
            series[0].points,
            [MeterPoint { at_s: 0.0, value: 2.0 }, MeterPoint { at_s: 2.0, value: 9.0 }]
        );
        assert_eq!((series[0].missed, series[0].absence.as_deref()), (1, Some("gone")));
        let none = meter_series(&looks, &cpu, seconds(2), seconds(2));
        assert_eq!(none, Reading::unavailable("test: gone"));
        let card = chip("gpu:card", ChipKind::Gpu, 0x10de, "0000:01:00.0");
        let none = meter_series(&looks, &card, seconds(0), seconds(3));
        assert_eq!(none, Reading::unavailable("no meter holds the energy of gpu:card"));
    }
}
