//! Trials stay with their chips when Windows starts again: other LUIDs, another order of the adapters.

use siliconroute::Router;
use siliconroute::event::Silent;
use siliconroute::up::{UpPlan, UpReport};
use siliconroute_core::chip::{ChipIdentity, ListedAdapter};
use siliconroute_core::{ChipKey, ChipKind, Reading};
use siliconroute_engine::onnxruntime::ReportedDevice;
use siliconroute_testkit::{FakeEngine, FakeLauncher, FakeTarget, TimeLaw};

use crate::simulated::{DECIDED, LEARNED, Simulated, key, ort, rten};

/// A chip with its ids, and how fast it is.
type MadeUp = (&'static str, (u32, u32), TimeLaw);

const FAST: TimeLaw = TimeLaw { overhead_ns: 200_000.0, ns_per_flop: 0.000_5, ns_per_byte: 0.0 };
const SLOW: TimeLaw = TimeLaw { overhead_ns: 200_000.0, ns_per_flop: 0.004, ns_per_byte: 0.0 };

const HYBRID: [MadeUp; 2] = [
    ("gpu:1002:164e@0000:08:00.0", (0x1002, 0x164e), SLOW),
    ("gpu:10de:2d18@0000:01:00.0", (0x10de, 0x2d18), FAST),
];
const EQUAL: [MadeUp; 2] = [
    ("gpu:10de:2684@0000:01:00.0", (0x10de, 0x2684), SLOW),
    ("gpu:10de:2684@0000:41:00.0", (0x10de, 0x2684), FAST),
];

/// The engines of a start of Windows on which chip `first` is at DXGI's position 0, and the LUIDs count from `luid`.
///
/// Each device's target is named as a worker names it, from what a runtime library tells and Windows lists.
fn start(chips: &[MadeUp; 2], first: usize, luid: u64) -> FakeLauncher {
    let position = |chip: usize| u32::from(chip != first);
    let luid_of = |chip: usize| luid + u64::from(position(chip));
    let listed = chips.iter().enumerate().map(|(chip, (name, ids, _))| ListedAdapter {
        kind: ChipKind::Gpu,
        identity: ChipIdentity { luid: Some(luid_of(chip)), ..ChipIdentity::of_ids(ids.0, ids.1) },
        chip: Reading::Available(ChipKey((*name).to_owned())),
        position: Some(position(chip)),
    });
    let listed = Reading::Available(listed.collect());
    let mut devices: Vec<(usize, ReportedDevice)> = (0..2)
        .map(|chip| {
            let told = [("LUID", luid_of(chip)), ("DxgiAdapterNumber", position(chip).into())];
            let (vendor_id, device_id) = chips[chip].1;
            let hardware = told.map(|(name, value)| (name.to_owned(), value.to_string())).into();
            (chip, ReportedDevice { kind: ChipKind::Gpu, vendor_id, device_id, hardware })
        })
        .collect();
    devices.sort_by_key(|(chip, _)| position(*chip));
    let target = |(chip, device): &(usize, ReportedDevice)| {
        let tie = device.chip(&listed);
        assert_eq!(tie.unclear, None);
        FakeTarget::new(&format!("{}/dml", tie.chip), chips[*chip].2)
    };
    FakeLauncher::new(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new("fakegpu", devices.iter().map(target).collect()),
        FakeEngine::new("rten", vec![rten()]),
    ])
}

fn up(simulated: &Simulated, look_again: bool) -> UpReport {
    let mut options = simulated.home.options(&simulated.launcher);
    // Whatever the targets depend on, such as a driver, has changed too, so that all are looked for again.
    options.settings.software_adapters = look_again;
    Router::open(options).unwrap().up(&UpPlan::default(), &mut Silent).unwrap()
}

#[track_caller]
fn trials_stay_with_their_chips(chips: &[MadeUp; 2]) {
    let mut simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![]),
        FakeEngine::new("fakegpu", vec![]),
        FakeEngine::new("rten", vec![]),
    ]);
    simulated.launcher = start(chips, 0, 0xd000);
    let first = up(&simulated, false);
    let of = |simulated: &Simulated, chip: &str| {
        let target = key(&format!("{chip}/dml"));
        simulated.trials().iter().filter(|(measured, ..)| *measured == target).count()
    };
    let before = chips.map(|(chip, ..)| of(&simulated, chip));
    assert!(before.iter().all(|&trials| trials >= LEARNED), "{before:?}");
    let chosen = |report: &UpReport| -> Vec<_> {
        report.evaluation.decisions.iter().map(|decision| decision.chosen.clone()).collect()
    };
    // Looking for the targets again has their decisions checked again, all four, and nothing learned again.
    let check = 4 * DECIDED;
    let starts =
        [(1, 0xd000, false, 0), (0, 0x1_7a31, false, 0), (1, 0x2_90aa, true, check), (0, 0x3_0007, true, 0)];
    for (first_chip, luid, look_again, measured) in starts {
        simulated.launcher = start(chips, first_chip, luid);
        let report = up(&simulated, look_again);
        assert_eq!(report.measured_trials, measured, "{first_chip} {luid:x} {look_again}");
        assert_eq!(chosen(&report), chosen(&first));
    }
    assert_eq!(chips.map(|(chip, ..)| of(&simulated, chip)), before.map(|trials| trials + DECIDED));
    let recorded = simulated.router().store().targets().unwrap();
    let named = recorded.iter().filter(|stored| stored.target.key.as_str().ends_with("/dml"));
    assert_eq!(named.count(), 2, "{recorded:?}");
}

#[test]
fn trials_of_a_hybrid_laptop_stay_with_their_chips() {
    trials_stay_with_their_chips(&HYBRID);
}

#[test]
fn trials_of_equal_gpus_stay_with_their_chips() {
    trials_stay_with_their_chips(&EQUAL);
}
