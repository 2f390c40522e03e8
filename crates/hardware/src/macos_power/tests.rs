//! Power and heat of made-up Macs.

use super::*;
use crate::fixture::macs::{self, fake_battery_entry, table};
use crate::macos_table::Value;

#[track_caller]
fn check_reason<T: std::fmt::Debug>(reading: &Reading<T>, expected: &str) {
    match reading {
        Reading::Unavailable(reason) if reason.contains(expected) => {}
        other => panic!("{other:?} does not give the reason `{expected}`"),
    }
}

#[test]
fn a_laptop_on_its_battery_tells_charge_rate_and_time() {
    let power = macs::fake_m1_on_battery();
    assert_eq!(power.power_source(), Reading::Available(PowerSource::Battery));
    // Not the mouse's five percent.
    assert_eq!(power.battery_percent(), Reading::Available(81.0));
    assert_eq!(power.battery_discharge_watts(), Reading::Available(7.5));
    assert_eq!(power.battery_left_ns(), Reading::Available(312 * 60_000_000_000));
}

#[test]
fn a_laptop_on_mains_is_charged() {
    let power = macs::fake_m3_on_mains();
    assert_eq!(power.power_source(), Reading::Available(PowerSource::Ac));
    assert_eq!(power.battery_percent(), Reading::Available(64.0));
    assert_eq!(power.battery_discharge_watts(), Reading::Available(-40.0));
    check_reason(&power.battery_left_ns(), "the mains feed the machine");
    let full = PowerAnswers { battery: Reading::Available(fake_battery_entry(0, 12_900, true)), ..power };
    assert_eq!(full.battery_discharge_watts(), Reading::Available(0.0));
}

#[test]
fn the_source_alone_can_be_asked_for() {
    let power = PowerAnswers::of_source(Some("Battery Power".to_owned()));
    assert_eq!(power.power_source(), Reading::Available(PowerSource::Battery));
}

#[test]
fn a_mac_mini_has_no_battery() {
    let power = macs::fake_mac_mini();
    assert_eq!(power.power_source(), Reading::Available(PowerSource::Ac));
    check_reason(&power.battery_percent(), "no battery");
    check_reason(&power.battery_discharge_watts(), "no battery");
    check_reason(&power.battery_left_ns(), "no battery");
}

#[test]
fn a_battery_that_still_reckons_has_reasons() {
    let mut power = macs::fake_m1_on_battery();
    power.sources = vec![macs::fake_battery_source("Battery Power", 80, false, -1)];
    power.battery = Reading::Available(fake_battery_entry(0, 12_000, false));
    check_reason(&power.battery_left_ns(), "still reckons");
    check_reason(&power.battery_discharge_watts(), "not measured its rate yet");
    power.battery = Reading::Available(table(&[("TimeRemaining", Value::Number(90))]));
    assert_eq!(power.battery_left_ns(), Reading::Available(90 * 60_000_000_000));
    check_reason(&power.battery_discharge_watts(), "does not tell its rate");
    power.battery = Reading::unavailable(NO_ENTRY);
    check_reason(&power.battery_discharge_watts(), "no entry AppleSmartBattery");
}

#[test]
fn the_smoothed_rate_counts_where_there_is_no_other() {
    let mut power = macs::fake_m1_on_battery();
    power.battery =
        Reading::Available(table(&[("Amperage", Value::Number(-500)), ("Voltage", Value::Number(11_000))]));
    assert_eq!(power.battery_discharge_watts(), Reading::Available(5.5));
}

#[test]
fn answers_that_cannot_be_are_reasons() {
    let mut power = macs::fake_m1_on_battery();
    for (rate, voltage) in [(i64::MIN, 12_000), (i64::MAX, 12_000), (-500, 0), (-500, -1), (-500, i64::MAX)] {
        power.battery = Reading::Available(fake_battery_entry(rate, voltage, false));
        check_reason(&power.battery_discharge_watts(), "does not tell its rate");
    }
    for (charge, capacity) in [(-1, 100), (50, 0), (50, -100)] {
        power.sources = vec![table(&[
            ("Type", Value::Text("InternalBattery".to_owned())),
            ("Current Capacity", Value::Number(charge)),
            ("Max Capacity", Value::Number(capacity)),
        ])];
        check_reason(&power.battery_percent(), "does not tell its charge");
    }
    power.sources = vec![table(&[
        ("Type", Value::Text("InternalBattery".to_owned())),
        ("Current Capacity", Value::Number(i64::MAX)),
        ("Max Capacity", Value::Number(1)),
        ("Time to Empty", Value::Number(i64::MAX)),
    ])];
    assert_eq!(power.battery_percent(), Reading::Available(100.0));
    check_reason(&power.battery_left_ns(), "still reckons");
}

#[test]
fn a_battery_that_was_taken_out_is_none() {
    let mut power = macs::fake_m3_on_mains();
    power.sources[0].0.insert("Is Present".to_owned(), Value::Flag(false));
    check_reason(&power.battery_percent(), "no battery");
}

#[test]
fn other_sources_are_named() {
    #[track_caller]
    fn check(providing: Option<&str>, expected: &str) {
        let power = PowerAnswers { providing: providing.map(str::to_owned), ..macs::fake_m1_on_battery() };
        check_reason(&power.power_source(), expected);
        check_reason(&power.battery_left_ns(), expected);
    }
    check(Some("UPS Power"), "a UPS feeds the machine");
    check(Some("é Power"), "`é Power`");
    check(None, "names no power source");
}

#[test]
fn modes_and_states_have_names() {
    assert_eq!(power_profile(true), "low power");
    assert_ne!(power_profile(false), power_profile(true));
    assert_eq!(thermal_state(0), Reading::Available(ThermalState::Nominal));
    assert_eq!(thermal_state(2), Reading::Available(ThermalState::Serious));
    assert!(ThermalState::Critical > ThermalState::Fair);
    for odd in [-1, 4, i64::MAX] {
        check_reason(&thermal_state(odd), "which is not known");
    }
}
