//! What of the conditions reaches a decision.

use super::*;

#[test]
fn a_charge_counts_on_battery_alone() {
    let unknown = Reading::unavailable("made up for a test");
    let (mains, battery) = (Reading::Available(PowerSource::Ac), Reading::Available(PowerSource::Battery));
    for (source, percent, expected) in [
        (&battery, Reading::Available(20.0), Some(20.0)),
        (&battery, Reading::unavailable("made up for a test"), None),
        (&mains, Reading::Available(20.0), None),
        (&Reading::unavailable("made up for a test"), Reading::Available(20.0), None),
    ] {
        assert_eq!(charge_on_battery(source, &percent), expected);
    }
    assert_eq!(cpu_now(&unknown), None);
    assert_eq!(cpu_now(&Reading::Available(81.0)).and_then(|now| now.celsius), Some(81.0));
}

#[test]
fn this_machine_has_a_context() {
    let context = detect_context();
    assert!(!context.ignore_measurements && context.quarantined.is_empty());
    assert!(context.charge_on_battery_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
}
