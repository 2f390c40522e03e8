//! Counters of captured machines, as their kernels show them.

use super::*;
use crate::fixture::{Tree, chip, laptops};

const PACKAGE: &str = "sys/class/powercap/intel-rapl:0/energy_uj";

fn value(readings: &[MeterReading], name: &str) -> Reading<f64> {
    readings.iter().find(|reading| reading.meter.name.starts_with(name)).expect("the meter").value.clone()
}

#[track_caller]
fn reason(reading: &Reading<f64>, part: &str) {
    assert!(matches!(reading, Reading::Unavailable(why) if why.contains(part)), "{reading:?}");
}

#[test]
fn packages_and_the_platform_are_counted_and_parts_of_packages_are_not() {
    let tree = laptops::intel_with_npu();
    let mut meters = EnergyMeters::new(&tree.roots(), &laptops::chips(&tree));
    let readings = meters.read();
    let of = |reading: &MeterReading| (reading.meter.name.clone(), reading.meter.scope);
    assert_eq!(
        readings.iter().map(of).collect::<Vec<_>>(),
        [("rapl package-0".to_owned(), EnergyScope::Package), ("rapl psys".to_owned(), EnergyScope::Machine)]
    );
    assert_eq!(readings[0].meter.chip, Some(ChipKey::cpu()));
    assert_eq!(value(&readings, "rapl package-0"), Reading::Available(0.0));
    assert_eq!(meters.absence(), None);
}

#[test]
fn a_package_is_followed_over_the_turn_of_its_counter() {
    // Full at 262143328850 µJ, 0.32885 J above the first reading.
    let tree = laptops::intel_with_npu();
    let mut meters = EnergyMeters::new(&tree.roots(), &[]);
    meters.read();
    let tree = tree.file(PACKAGE, "262143328850\n");
    assert_eq!(value(&meters.read(), "rapl package-0"), Reading::Available(0.32885));
    let tree = tree.file(PACKAGE, "5000000\n");
    assert_eq!(value(&meters.read(), "rapl package-0"), Reading::Available(5.32885));
    // One that is gone for a while is followed from where it was.
    std::fs::remove_file(tree.roots().root.join(PACKAGE)).unwrap();
    reason(&value(&meters.read(), "rapl package-0"), "energy_uj does not exist");
    let tree = tree.file(PACKAGE, "7000000\n");
    assert_eq!(value(&meters.read(), "rapl package-0"), Reading::Available(7.32885));
    let _tree = tree.file(PACKAGE, "6000000\n");
    reason(&value(&meters.read(), "rapl package-0"), "went back");
}

#[test]
fn a_gpu_is_counted_unless_it_sleeps() {
    let device = "sys/class/drm/card1/device";
    let tree = laptops::intel_with_npu()
        .file(&format!("{device}/hwmon/hwmon7/energy1_input"), "1000000\n")
        .file(&format!("{device}/power/runtime_status"), "active\n");
    let mut meters = EnergyMeters::new(&tree.roots(), &laptops::chips(&tree));
    meters.read();
    let tree = tree.file(&format!("{device}/hwmon/hwmon7/energy1_input"), "3500000\n");
    let readings = meters.read();
    assert_eq!(value(&readings, "hwmon gpu:"), Reading::Available(2.5));
    let meter = &readings.iter().find(|it| it.meter.name.starts_with("hwmon")).unwrap().meter;
    assert_eq!((meter.scope, meter.method), (EnergyScope::Board, EnergyMethod::Counter));
    let _tree = tree.file(&format!("{device}/power/runtime_status"), "suspended\n");
    reason(&value(&meters.read(), "hwmon gpu:"), "asleep");
}

#[test]
fn a_machine_without_counters_says_where_it_looked() {
    let tree = Tree::new().directory("sys/class");
    let mut meters = EnergyMeters::new(&tree.roots(), &[chip("cpu"), chip("gpu:10de:2d18@0000:01:00.0")]);
    assert_eq!(meters.read(), Vec::new());
    assert!(meters.absence().unwrap().contains("class/powercap"), "{:?}", meters.absence());
}

#[cfg(unix)]
#[test]
fn a_counter_that_is_kept_from_users_says_what_it_needs() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = laptops::intel_with_npu();
    let path = tree.roots().root.join(PACKAGE);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    if std::fs::File::open(&path).is_ok() {
        // Root reads everything.
        return;
    }
    let readings = EnergyMeters::new(&tree.roots(), &[]).read();
    reason(&value(&readings, "rapl package-0"), "needs the right to read");
}

#[test]
fn what_lies_in_the_package_is_known_of_some_chips() {
    #[track_caller]
    fn check(key: &str, expected: bool) {
        assert_eq!(lies_in_package(&chip(key)), expected, "{key}");
    }
    check("cpu", true);
    check("npu:8086:7d1d@0000:00:0b.0", true);
    check("gpu:8086:7d55@0000:00:02.0", true);
    // A card of Intel's, and GPUs of AMD's, which sit in the processor or on a card.
    check("gpu:8086:56a0@0000:03:00.0", false);
    check("gpu:1002:150e@0000:65:00.0", false);
    check("gpu:10de:2d18@0000:01:00.0", false);
    check("gpu:8086:7d55", false);
}

#[test]
fn the_counters_of_the_running_machine_can_be_read() {
    let mut meters = EnergyMeters::detect(&[chip("cpu")]);
    let readings = meters.read();
    assert_eq!(readings.is_empty(), meters.absence().is_some());
}
