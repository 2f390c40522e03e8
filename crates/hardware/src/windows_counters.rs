//! What Windows' performance counters of GPUs and NPUs say: instances by process, adapter and engine.
//!
//! Invariant: pure; the counters come from `os::windows` or from a test.

use std::collections::BTreeMap;

use siliconroute_core::chip::ChipIdentity;

/// What an instance's name tells, such as `pid_4168_luid_0x00000000_0x0000D1B9_phys_0_eng_3_engtype_Compute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) pid: Option<u32>,
    /// The adapter, as DXGI numbers it too.
    pub(crate) luid: u64,
    /// The adapter's part and the engine in it.
    pub(crate) engine: (u32, u32),
}

/// A counter's value of one instance.
pub(crate) type Value = (Instance, f64);

/// Reads the name of an instance; `None` where it names no adapter.
pub(crate) fn parse_instance(name: &str) -> Option<Instance> {
    let mut words = name.split('_');
    let mut pid = None;
    let mut luid = None;
    let mut engine = (0, 0);
    while let Some(word) = words.next() {
        match word {
            "pid" => pid = Some(words.next()?.parse().ok()?),
            "luid" => {
                let mut half = || u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
                luid = Some(u64::from(half()?) << 32 | u64::from(half()?));
            }
            "phys" => engine.0 = words.next()?.parse().ok()?,
            "eng" => engine.1 = words.next()?.parse().ok()?,
            // What follows is the engine's kind, in words of the driver's choice.
            _ => break,
        }
    }
    Some(Instance { pid, luid: luid?, engine })
}

/// Whether the counters can be matched to a chip.
pub(crate) fn is_placed(chip: &ChipIdentity) -> bool {
    chip.luid.is_some() || chip.bus_address.is_some() || chip.instance.is_some()
}

/// Whether the adapter that the counters call `luid`, and that is at `place`, is the chip.
///
/// Where both places are known they decide, since the LUID is another one after the driver has started again.
pub(crate) fn is_chip(chip: &ChipIdentity, luid: u64, place: Option<&str>) -> bool {
    let mut own = [&chip.bus_address, &chip.instance].into_iter().flatten().peekable();
    match place {
        Some(place) if own.peek().is_some() => own.any(|own| own.eq_ignore_ascii_case(place)),
        _ => chip.luid == Some(luid),
    }
}

/// The load of an adapter's busiest engine in percent, summed over the processes that it worked for; 0 where no
/// process has opened the adapter.
pub(crate) fn busiest_engine(values: &[Value], is_chip: impl Fn(u64) -> bool) -> f64 {
    let mut engines = BTreeMap::<(u64, (u32, u32)), f64>::new();
    for (instance, percent) in values.iter().filter(|(instance, _)| is_chip(instance.luid)) {
        if percent.is_finite() && *percent >= 0.0 {
            *engines.entry((instance.luid, instance.engine)).or_default() += percent;
        }
    }
    engines.into_values().fold(0.0, f64::max).min(100.0)
}

/// The sum of the values of an adapter, of one process where `pid` names one; `None` where there is none.
pub(crate) fn sum_bytes(values: &[Value], pid: Option<u32>, is_chip: impl Fn(u64) -> bool) -> Option<u64> {
    let mine = |(instance, _): &&Value| is_chip(instance.luid) && (pid.is_none() || instance.pid == pid);
    let bytes: Vec<f64> = values
        .iter()
        .filter(mine)
        .map(|(_, bytes)| *bytes)
        .filter(|bytes| bytes.is_finite() && *bytes >= 0.0)
        .collect();
    (!bytes.is_empty()).then(|| bytes.iter().sum::<f64>() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_instances_are_read() {
        #[track_caller]
        fn check(name: &str, pid: Option<u32>, luid: u64, engine: (u32, u32)) {
            assert_eq!(parse_instance(name), Some(Instance { pid, luid, engine }));
        }
        check("pid_4168_luid_0x00000000_0x0000D1B9_phys_0_eng_3_engtype_3D", Some(4168), 0xd1b9, (0, 3));
        check(
            "pid_8_luid_0x00000001_0x0000000A_phys_1_eng_12_engtype_Compute_0",
            Some(8),
            0x1_0000_000a,
            (1, 12),
        );
        check("luid_0x00000000_0x0000D1B9_phys_0", None, 0xd1b9, (0, 0));
        for name in ["", "_Total", "pid_x_luid_0x0_0x1", "pid_4", "luid_0x00000000", "luid_0_1", "eng_1"] {
            assert_eq!(parse_instance(name), None, "{name}");
        }
    }

    fn value(name: &str, value: f64) -> Value {
        (parse_instance(name).unwrap(), value)
    }

    #[test]
    fn a_chip_is_found_by_its_place_and_else_by_its_number() {
        #[track_caller]
        fn check(chip: &ChipIdentity, luid: u64, place: Option<&str>, expected: bool) {
            assert_eq!(is_chip(chip, luid, place), expected);
        }
        let placed = ChipIdentity {
            bus_address: Some("0000:01:00.0".to_owned()),
            luid: Some(7),
            ..ChipIdentity::default()
        };
        check(&placed, 8, Some("0000:01:00.0"), true);
        // After the driver has started again the number may be another adapter's.
        check(&placed, 7, Some("0000:02:00.0"), false);
        check(&placed, 7, None, true);
        check(&placed, 8, None, false);
        let hexagon = ChipIdentity {
            instance: Some(r"ACPI\QCOM0D0A\2&DABA3FF&0".to_owned()),
            ..ChipIdentity::default()
        };
        check(&hexagon, 9, Some(r"ACPI\QCOM0D0A\2&daba3ff&0"), true);
        check(&hexagon, 9, None, false);
        assert!(is_placed(&placed) && is_placed(&hexagon) && !is_placed(&ChipIdentity::default()));
    }

    #[test]
    fn an_adapter_is_as_busy_as_its_busiest_engine() {
        let values = [
            value("pid_1_luid_0x0_0x5_phys_0_eng_0_engtype_3D", 20.0),
            value("pid_2_luid_0x0_0x5_phys_0_eng_0_engtype_3D", 15.0),
            value("pid_2_luid_0x0_0x5_phys_0_eng_1_engtype_Copy", 30.0),
            value("pid_2_luid_0x0_0x6_phys_0_eng_0_engtype_Neural", 99.0),
            value("pid_2_luid_0x0_0x6_phys_0_eng_0_engtype_Neural", f64::NAN),
        ];
        assert!((busiest_engine(&values, |luid| luid == 5) - 35.0).abs() < 1e-9);
        assert!((busiest_engine(&values, |luid| luid == 6) - 99.0).abs() < 1e-9);
        assert!(busiest_engine(&values, |luid| luid == 7).abs() < 1e-9);
    }

    #[test]
    fn memory_is_told_by_adapter_and_by_process() {
        let values = [
            value("pid_1_luid_0x0_0x5_phys_0", 1024.0),
            value("pid_2_luid_0x0_0x5_phys_0", 4096.0),
            value("pid_2_luid_0x0_0x6_phys_0", -1.0),
        ];
        assert_eq!(sum_bytes(&values, None, |luid| luid == 5), Some(5120));
        assert_eq!(sum_bytes(&values, Some(2), |luid| luid == 5), Some(4096));
        assert_eq!(sum_bytes(&values, Some(2), |luid| luid == 6), None);
        assert_eq!(sum_bytes(&values, Some(3), |luid| luid == 5), None);
    }
}
