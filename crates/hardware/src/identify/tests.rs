//! Who answered, on laptops with several chips.

use super::*;
use crate::chip_sensors::{BusySource, ChipSensors, EngineWork};
use crate::fixture::{Tree, laptops};

/// Rests, works and rests again: `work` and `end` change the machine's files, one second each.
fn observe(tree: Tree, work: impl Fn(Tree, u64) -> Tree) -> Observation {
    let mut sensors = ChipSensors::new(tree.roots(), &laptops::chips(&tree));
    let mut seen = Observation { logical_cores: 4, ..Observation::default() };
    let mut tree = tree;
    // The first sample starts the counters.
    sensors.sample_at(Duration::ZERO);
    for second in 1..=9_u64 {
        let working = (4..=6).contains(&second);
        let cpu_ticks = 300_000 + second * 400;
        // A core is busy while the target works, whichever chip it runs on.
        let busy_ticks = second.clamp(3, 6).saturating_sub(3) * 100;
        tree = tree
            .file("proc/stat", &format!("cpu  {busy_ticks} 0 0 {} 0 0 0 0 0 0\n", cpu_ticks - busy_ticks));
        tree = work(tree, if working { second } else { 0 });
        let samples = sensors.sample_at(Duration::from_secs(second));
        if working { seen.load.push(samples) } else { seen.rest.push(samples) }
    }
    seen
}

#[track_caller]
fn check_answer(verdict: &Verdict, key: &str, expected: Evidence) {
    match verdict {
        Verdict::Answered { chip, evidence, .. } => {
            assert!(chip.as_str().starts_with(key), "{chip} answered");
            assert_eq!(*evidence, expected);
        }
        other => panic!("{other:?}"),
    }
}

const DISCRETE: &str = "sys/class/drm/card2/device";
const INTEGRATED: &str = "sys/class/drm/card1/device";

fn discrete_works(tree: Tree, second: u64) -> Tree {
    let (state, busy) = if second > 0 { ("active\n", "97\n") } else { ("suspended\n", "0\n") };
    tree.file(&format!("{DISCRETE}/power/runtime_status"), state)
        .file(&format!("{DISCRETE}/gpu_busy_percent"), busy)
}

#[test]
fn the_discrete_gpu_answers_out_of_its_sleep() {
    let verdict = identify_chip(&observe(laptops::two_amd_gpus(), discrete_works));
    check_answer(&verdict, "gpu:1002:7480", Evidence::Load);
}

#[test]
fn the_integrated_gpu_answers_while_the_discrete_one_sleeps() {
    let verdict = identify_chip(&observe(laptops::two_amd_gpus(), |tree, second| {
        tree.file(&format!("{INTEGRATED}/gpu_busy_percent"), if second > 0 { "88\n" } else { "3\n" })
    }));
    check_answer(&verdict, "gpu:1002:15bf", Evidence::Load);
}

#[test]
fn the_gpu_that_shows_the_picture_does_not_hide_the_one_that_works() {
    let verdict = identify_chip(&observe(laptops::two_amd_gpus(), |tree, second| {
        let tree =
            tree.file(&format!("{INTEGRATED}/gpu_busy_percent"), if second > 0 { "25\n" } else { "2\n" });
        discrete_works(tree, second)
    }));
    check_answer(&verdict, "gpu:1002:7480", Evidence::Load);
}

#[test]
fn two_gpus_at_work_are_ambiguous() {
    let verdict = identify_chip(&observe(laptops::two_amd_gpus(), |tree, second| {
        let tree =
            tree.file(&format!("{INTEGRATED}/gpu_busy_percent"), if second > 0 { "70\n" } else { "2\n" });
        discrete_works(tree, second)
    }));
    let Verdict::Ambiguous { candidates, reason } = verdict else { panic!("{verdict:?}") };
    assert!(candidates[0].as_str().starts_with("gpu:1002:7480"), "{candidates:?}");
    assert_eq!((candidates.len(), reason.contains("several chips")), (2, true));
}

#[test]
fn the_cpu_answers_only_when_every_other_chip_is_seen_at_rest() {
    check_answer(&identify_chip(&observe(laptops::two_amd_gpus(), |tree, _| tree)), "cpu", Evidence::Load);
    // The driver of this GPU tells no load, so it may have worked as well.
    let verdict = identify_chip(&observe(laptops::macbook(), |tree, _| tree));
    let Verdict::Ambiguous { candidates, reason } = verdict else { panic!("{verdict:?}") };
    assert_eq!(candidates.len(), 2);
    assert!(reason.contains("no sensor tells whether gpu"), "{reason}");
}

#[test]
fn a_gpu_that_is_busy_all_the_time_hides_whether_it_worked() {
    let verdict = identify_chip(&observe(laptops::two_amd_gpus(), |tree, _| {
        tree.file(&format!("{INTEGRATED}/gpu_busy_percent"), "95\n")
    }));
    let Verdict::Ambiguous { candidates, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!(
        candidates.iter().map(ChipKey::as_str).collect::<Vec<_>>(),
        ["cpu", "gpu:1002:15bf@0000:c4:00.0"]
    );
}

#[test]
fn npus_answer_by_their_own_counters() {
    let intel = identify_chip(&observe(laptops::intel_with_npu(), |tree, second| {
        // The GPU's idle time stands still: it shows a picture, at rest as at work.
        let busy_us = 5_000_000 + second.saturating_sub(3) * 800_000;
        let path = "sys/class/accel/accel0/device/npu_busy_time_us";
        if second > 0 { tree.file(path, &format!("{busy_us}\n")) } else { tree }
    }));
    check_answer(&intel, "npu:8086", Evidence::Load);
    let Verdict::Answered { unseen, .. } = &intel else { panic!("{intel:?}") };
    assert!(unseen.len() == 1 && unseen[0].as_str().starts_with("gpu:8086"), "{unseen:?}");
    let amd = identify_chip(&observe(laptops::ryzen_ai(), |tree, second| {
        let table = laptops::apu_metrics(if second > 0 { 90 } else { 0 }, 300, 1600, 0);
        tree.bytes("sys/class/drm/card0/device/gpu_metrics", &table)
    }));
    check_answer(&amd, "npu:1022", Evidence::Load);
}

#[test]
fn a_gpu_that_tells_no_load_is_known_by_waking() {
    let verdict = identify_chip(&observe(laptops::intel_with_nvidia(), |tree, second| {
        let state = if second > 0 { "active\n" } else { "suspended\n" };
        tree.file("sys/class/drm/card1/device/power/runtime_status", state)
    }));
    let Verdict::Answered { unseen, .. } = &verdict else { panic!("{verdict:?}") };
    // The other GPU's idle state is off, so nothing tells whether it worked too.
    assert_eq!(unseen.len(), 1);
    check_answer(&verdict, "gpu:10de", Evidence::Awoke);
}

fn sample(key: &str, busy: Option<f64>, watts: Option<f64>) -> ChipSample {
    let busy = busy.map(|percent| Busy { percent, source: BusySource::Counted });
    ChipSample {
        busy: Reading::from_option(busy, "not told"),
        power_watts: Reading::from_option(watts, "not told"),
        ..ChipSample::unavailable(ChipKey(key.to_owned()), "not told")
    }
}

#[test]
fn power_tells_where_load_is_not_told() {
    let seen = |watts| Observation {
        rest: vec![vec![sample("cpu", Some(5.0), None), sample("gpu", None, Some(3.0))]],
        load: vec![vec![sample("cpu", Some(20.0), None), sample("gpu", None, Some(watts))]],
        process: None,
        logical_cores: 8,
    };
    check_answer(&identify_chip(&seen(25.0)), "gpu", Evidence::Power);
    // A watt more may be anything.
    assert!(matches!(identify_chip(&seen(4.0)), Verdict::Ambiguous { .. }));
}

#[test]
fn the_processes_own_work_decides_before_any_load() {
    let used = |key: &str, ns| ProcessChipUse {
        work: Reading::Available(EngineWork::Time { ns }),
        ..ProcessChipUse::unavailable(ChipKey(key.to_owned()), "not told")
    };
    let mut seen = observe(laptops::two_amd_gpus(), discrete_works);
    let (integrated, discrete) = ("gpu:1002:15bf@0000:c4:00.0", "gpu:1002:7480@0000:03:00.0");
    // Another program drew on the discrete GPU meanwhile.
    seen.process =
        Some((Vec::new(), vec![used(integrated, 900_000_000), used(discrete, 0)], Duration::from_secs(1)));
    check_answer(&identify_chip(&seen), integrated, Evidence::ProcessWork);
    // No work counted is no proof: the driver may not count.
    seen.process = Some((Vec::new(), vec![used(integrated, 0), used(discrete, 0)], Duration::from_secs(1)));
    check_answer(&identify_chip(&seen), discrete, Evidence::Load);
    let both = vec![used(integrated, 500_000_000), used(discrete, 600_000_000)];
    seen.process = Some((Vec::new(), both, Duration::from_secs(1)));
    assert!(matches!(identify_chip(&seen), Verdict::Ambiguous { .. }));
}

#[test]
fn nothing_seen_is_no_verdict() {
    assert!(matches!(identify_chip(&Observation::default()), Verdict::NoSensor { .. }));
    let blind = Observation {
        rest: Vec::new(),
        load: vec![vec![sample("cpu", None, None), sample("gpu", None, None)]],
        process: None,
        logical_cores: 4,
    };
    let Verdict::NoSensor { reason } = identify_chip(&blind) else { panic!("a verdict") };
    assert_eq!(reason, "the load of cpu, gpu is not told");
    let still = Observation {
        rest: vec![vec![sample("cpu", Some(1.0), None)]],
        load: vec![vec![sample("cpu", Some(1.0), None)]],
        process: None,
        logical_cores: 4,
    };
    let Verdict::Ambiguous { reason, .. } = identify_chip(&still) else { panic!("a verdict") };
    assert!(reason.contains("too little to see"), "{reason}");
}
