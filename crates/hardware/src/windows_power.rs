//! What Windows' answers about power and heat mean: source, charge, rate and time of the battery, scheme, mode, zones.
//!
//! Invariant: pure; the answers come from `os::windows` or from a test, and a figure that a battery or a zone makes
//! up when it knows none is a reason.

use std::collections::BTreeMap;

use siliconroute_core::Reading;

use crate::conditions::PowerSource;

/// The length of a `SYSTEM_BATTERY_STATE`.
pub(crate) const BATTERY_STATE_BYTES: usize = 32;
/// `BATTERY_UNKNOWN_RATE`.
const UNKNOWN_RATE: i32 = i32::MIN;
/// More than any adapter of a laptop delivers.
const HIGHEST_RATE_MILLIWATTS: u32 = 1_000_000;
/// Two weeks; `BATTERY_UNKNOWN_TIME` is far more.
const LONGEST_SECONDS: u32 = 14 * 24 * 3600;
/// As many temperatures as conditions hold.
const ZONE_LIMIT: usize = 24;
const KELVIN_AT_ZERO_CELSIUS: f64 = 273.15;
/// Zones that the firmware does not measure stand at absolute zero or at some made-up extreme.
const PLAUSIBLE_CELSIUS: std::ops::RangeInclusive<f64> = -40.0..=150.0;

/// Interprets a `SYSTEM_POWER_STATUS`.
pub(crate) fn power_status(line: u8, flag: u8, percent: u8) -> (Reading<PowerSource>, Reading<f64>) {
    let source = match line {
        0 => Reading::Available(PowerSource::Battery),
        1 => Reading::Available(PowerSource::Ac),
        _ => Reading::unavailable("Windows does not know the power source"),
    };
    let charge = match (flag, percent) {
        (255, _) => Reading::unavailable("Windows does not know the battery"),
        (flag, _) if flag & 128 != 0 => Reading::unavailable("no battery, says Windows"),
        (_, 0..=100) => Reading::Available(f64::from(percent)),
        _ => Reading::unavailable("Windows does not know the battery's charge"),
    };
    (source, charge)
}

/// The power that all batteries together give, in watts, from a `SYSTEM_BATTERY_STATE`; negative while they are charged.
pub(crate) fn battery_discharge_watts(state: &[u8; BATTERY_STATE_BYTES]) -> Reading<f64> {
    // Four flags of a byte each (mains, present, charging, discharging), four bytes of padding, then numbers of
    // four bytes: capacity, charge, rate.
    let [_, present, charging, discharging] = [0, 1, 2, 3].map(|flag| state[flag] != 0);
    let rate = i32::from_le_bytes([state[16], state[17], state[18], state[19]]);
    if !present {
        return Reading::unavailable("no battery, says Windows");
    }
    if rate == UNKNOWN_RATE || rate.unsigned_abs() > HIGHEST_RATE_MILLIWATTS {
        return Reading::unavailable("the battery does not tell its rate");
    }
    // Firmware disagrees about the sign of the rate, not about the direction.
    let watts = f64::from(rate.unsigned_abs()) / 1000.0;
    match (charging, discharging) {
        (false, true) if rate == 0 => Reading::unavailable("the battery has not measured its rate yet"),
        (false, true) => Reading::Available(watts),
        (true, false) if rate != 0 => Reading::Available(-watts),
        _ if rate == 0 => Reading::Available(0.0),
        _ => Reading::unavailable("the battery does not tell whether it is charged or used"),
    }
}

/// How long the batteries last, from a `SYSTEM_BATTERY_STATE`.
pub(crate) fn battery_left_ns(state: &[u8; BATTERY_STATE_BYTES]) -> Reading<u64> {
    let [_, present, charging, discharging] = [0, 1, 2, 3].map(|flag| state[flag] != 0);
    let seconds = u32::from_le_bytes([state[20], state[21], state[22], state[23]]);
    if !present {
        return Reading::unavailable("no battery, says Windows");
    }
    if charging || !discharging {
        return Reading::unavailable("the battery is not used");
    }
    let known = Some(seconds).filter(|seconds| (1..=LONGEST_SECONDS).contains(seconds));
    Reading::from_option(
        known.map(|seconds| u64::from(seconds) * 1_000_000_000),
        "Windows still reckons how long the battery lasts",
    )
}

/// The schemes that every Windows has, by the first part of their id; others go by their own name.
pub(crate) fn scheme_name(first_part: u32, own_name: Option<String>) -> String {
    match (first_part, own_name) {
        (0x381b_4222, _) => "balanced".to_owned(),
        (0x8c5e_7fda, _) => "high performance".to_owned(),
        (0xa184_1308, _) => "power saver".to_owned(),
        (0xe9a4_2b02, _) => "ultimate performance".to_owned(),
        (_, Some(name)) => name,
        (id, None) => format!("scheme {id:08x}"),
    }
}

/// The registry's value that holds the power mode under a power source.
pub(crate) fn power_mode_value(source: PowerSource) -> &'static str {
    match source {
        PowerSource::Ac => "ActiveOverlayAcPowerScheme",
        PowerSource::Battery => "ActiveOverlayDcPowerScheme",
    }
}

/// The power mode that the user chose in the settings, from the id of the overlay over the power scheme.
///
/// The value is missing until the mode is chosen for the first time.
pub(crate) fn power_mode(overlay: Option<&str>) -> Reading<String> {
    let Some(overlay) = overlay else {
        return Reading::unavailable("the registry holds no power mode, as long as none was chosen");
    };
    let id = overlay.trim_matches(['{', '}', ' ']).to_ascii_lowercase();
    let name = match id.as_str() {
        "00000000-0000-0000-0000-000000000000" => "balanced",
        "961cc777-2547-4f9d-8174-7d86181b8a7a" => "best power efficiency",
        "3af9b8d9-7c97-431d-ad78-34a8bfea439f" => "better performance",
        "ded574b5-45a0-4f42-8737-46345c09c238" => "best performance",
        _ => return Reading::Available(format!("overlay {}", id.chars().take(40).collect::<String>())),
    };
    Reading::Available(name.to_owned())
}

/// The values of a performance counter by instance.
type Values = Reading<Vec<(String, f64)>>;

/// Temperatures by thermal zone, in degrees Celsius, from the counters of tenths of a kelvin and of whole ones.
///
/// A zone that has no tenths counts by its whole kelvins; of two zones of one name the hotter counts.
pub(crate) fn zone_temperatures(tenths: &Values, kelvins: &Values) -> Reading<BTreeMap<String, f64>> {
    let reason = match (tenths, kelvins) {
        (Reading::Unavailable(_), Reading::Unavailable(reason)) => reason.clone(),
        _ => "Windows measures no thermal zone of this machine".to_owned(),
    };
    let celsius = |values: &Values, unit: f64| -> BTreeMap<String, f64> {
        let mut zones = BTreeMap::<String, f64>::new();
        for (name, value) in values.available().into_iter().flatten() {
            let celsius = value * unit - KELVIN_AT_ZERO_CELSIUS;
            let name = name.trim_start_matches('\\');
            if PLAUSIBLE_CELSIUS.contains(&celsius) && !name.eq_ignore_ascii_case("_Total") {
                let hottest = zones.entry(name.to_owned()).or_insert(celsius);
                *hottest = hottest.max(celsius);
            }
        }
        zones
    };
    let mut zones = celsius(kelvins, 1.0);
    zones.extend(celsius(tenths, 0.1));
    let zones: BTreeMap<String, f64> = zones.into_iter().take(ZONE_LIMIT).collect();
    Reading::from_option((!zones.is_empty()).then_some(zones), &reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::windows_machines::fake_battery_state;

    #[test]
    fn power_statuses_are_told_apart() {
        #[track_caller]
        fn check(status: (u8, u8, u8), source: Option<PowerSource>, percent: Option<f64>) {
            let (found, charge) = power_status(status.0, status.1, status.2);
            assert_eq!((found.available().copied(), charge.available().copied()), (source, percent));
        }
        check((1, 9, 93), Some(PowerSource::Ac), Some(93.0));
        check((0, 1, 12), Some(PowerSource::Battery), Some(12.0));
        check((1, 128, 255), Some(PowerSource::Ac), None);
        check((255, 255, 255), None, None);
        check((0, 0, 255), Some(PowerSource::Battery), None);
    }

    #[test]
    fn a_battery_gives_takes_or_rests() {
        #[track_caller]
        fn check(state: [u8; BATTERY_STATE_BYTES], expected: Result<f64, &str>) {
            match (battery_discharge_watts(&state), expected) {
                (Reading::Available(watts), Ok(expected)) => {
                    assert!((watts - expected).abs() < 1e-9, "{watts}");
                }
                (Reading::Unavailable(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
        let (charging, discharging) = ((true, false), (false, true));
        check(fake_battery_state(true, discharging, -14_200), Ok(14.2));
        check(fake_battery_state(true, discharging, 14_200), Ok(14.2));
        check(fake_battery_state(true, charging, 45_000), Ok(-45.0));
        check(fake_battery_state(true, (false, false), 0), Ok(0.0));
        check(fake_battery_state(true, charging, 0), Ok(0.0));
        check(fake_battery_state(true, discharging, 0), Err("not measured"));
        check(fake_battery_state(true, discharging, i32::MIN), Err("does not tell its rate"));
        check(fake_battery_state(true, discharging, i32::MAX), Err("does not tell its rate"));
        check(fake_battery_state(true, (false, false), -500), Err("charged or used"));
        check(fake_battery_state(true, (true, true), -500), Err("charged or used"));
        check(fake_battery_state(false, (false, false), 0), Err("no battery"));
        check([0xff; BATTERY_STATE_BYTES], Err("charged or used"));
    }

    #[test]
    fn a_battery_lasts_for_a_known_time_only_while_it_is_used() {
        #[track_caller]
        fn check(flags: (bool, bool), seconds: u32, expected: Result<u64, &str>) {
            let mut state = fake_battery_state(true, flags, -14_200);
            state[20..24].copy_from_slice(&seconds.to_le_bytes());
            match (battery_left_ns(&state), expected) {
                (Reading::Available(ns), Ok(expected)) => assert_eq!(ns, expected),
                (Reading::Unavailable(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
        let (charging, discharging) = ((true, false), (false, true));
        check(discharging, 10_800, Ok(10_800_000_000_000));
        check(discharging, 0, Err("still reckons"));
        check(discharging, u32::MAX, Err("still reckons"));
        check(charging, 10_800, Err("not used"));
        check((false, false), 10_800, Err("not used"));
        let none = battery_left_ns(&fake_battery_state(false, (false, false), 0));
        assert_eq!(none, Reading::unavailable("no battery, says Windows"));
    }

    #[test]
    fn schemes_have_names() {
        assert_eq!(scheme_name(0x381b_4222, Some("Ausbalanciert".to_owned())), "balanced");
        assert_eq!(scheme_name(7, Some("Mine".to_owned())), "Mine");
        assert_eq!(scheme_name(7, None), "scheme 00000007");
    }

    #[test]
    fn power_modes_have_names() {
        #[track_caller]
        fn check(overlay: Option<&str>, expected: Option<&str>) {
            assert_eq!(power_mode(overlay).available().map(String::as_str), expected);
        }
        check(Some("00000000-0000-0000-0000-000000000000"), Some("balanced"));
        check(Some("961cc777-2547-4f9d-8174-7d86181b8a7a"), Some("best power efficiency"));
        check(Some("{DED574B5-45A0-4F42-8737-46345C09C238}"), Some("best performance"));
        check(Some("é"), Some("overlay é"));
        check(None, None);
        assert_ne!(power_mode_value(PowerSource::Ac), power_mode_value(PowerSource::Battery));
    }

    fn values(zones: &[(&str, f64)]) -> Values {
        Reading::Available(zones.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn zones_are_told_in_celsius() {
        let tenths = values(&[(r"\_TZ.THRM", 3252.0), (r"\_TZ.TZ01", 0.0), (r"\_TZ.THRM", 3012.0)]);
        let kelvins =
            values(&[(r"\_TZ.THRM", 325.0), (r"\_TZ.TZ01", 301.0), ("_Total", 626.0), ("x", f64::NAN)]);
        let zones = zone_temperatures(&tenths, &kelvins);
        let zones: Vec<(&str, i64)> = zones
            .available()
            .unwrap()
            .iter()
            .map(|(name, celsius)| (name.as_str(), (celsius * 100.0).round() as i64))
            .collect();
        assert_eq!(zones, [("_TZ.THRM", 5205), ("_TZ.TZ01", 2785)]);
    }

    #[test]
    fn without_a_zone_there_is_a_reason() {
        let reason = "Windows has no counter of thermal zones (error 0xc0000bb8)";
        let off = Reading::unavailable(reason);
        assert_eq!(zone_temperatures(&off, &off), Reading::unavailable(reason));
        let none = zone_temperatures(&values(&[("a", 0.0)]), &values(&[]));
        assert_eq!(none, Reading::unavailable("Windows measures no thermal zone of this machine"));
        let many: Vec<(String, f64)> = (0..99).map(|zone| (format!("z{zone}"), 300.0)).collect();
        let zones = zone_temperatures(&off, &Reading::Available(many));
        assert_eq!(zones.available().map(BTreeMap::len), Some(ZONE_LIMIT));
    }
}
