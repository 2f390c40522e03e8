//! Sensors of the chips of laptops of several makers.

use super::*;
use crate::fixture::{Tree, laptops};

fn sensors(tree: &Tree) -> ChipSensors {
    ChipSensors::new(tree.roots(), &laptops::chips(tree))
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The sample of the chip whose key starts so.
#[track_caller]
fn of<'a>(samples: &'a [ChipSample], key: &str) -> &'a ChipSample {
    samples.iter().find(|sample| sample.chip.as_str().starts_with(key)).unwrap()
}

fn busy(percent: f64, source: BusySource) -> Reading<Busy> {
    Reading::Available(Busy { percent, source })
}

#[track_caller]
fn check_reason<T: std::fmt::Debug>(reading: &Reading<T>, expected: &str) {
    match reading {
        Reading::Unavailable(reason) if reason.contains(expected) => {}
        other => panic!("{other:?} does not give the reason `{expected}`"),
    }
}

#[test]
fn an_intel_laptop_counts_from_the_second_sample_on() {
    let tree = laptops::intel_with_npu();
    let mut sensors = sensors(&tree);
    let first = sensors.sample_at(at(0));
    for key in ["cpu", "gpu", "npu"] {
        check_reason(&of(&first, key).busy, "a rate needs two");
    }
    check_reason(&of(&first, "cpu").power_watts, "a rate needs two");
    let _tree = tree
        .file("proc/stat", "cpu  10100 0 5000 300300 1000 0 200 0 0 0\n")
        // The energy counter starts again after its range: 328850 µJ to the end, and 9671150 from zero.
        .file("sys/class/powercap/intel-rapl:0/energy_uj", "9671150\n")
        .file("sys/class/drm/card1/gt/gt0/rc6_residency_ms", "900250\n")
        .file("sys/class/drm/card1/gt/gt0/throttle_reason_status", "1\n")
        .file("sys/class/drm/card1/gt/gt0/throttle_reason_pl1", "1\n")
        .file("sys/class/drm/card1/gt/gt0/throttle_reason_thermal", "1\n")
        .file("sys/class/accel/accel0/device/npu_busy_time_us", "5400000\n")
        .each_cpu(0..1, "thermal_throttle/package_throttle_count", "1\n");
    let samples = sensors.sample_at(at(1000));
    let cpu = of(&samples, "cpu");
    assert_eq!(cpu.busy, busy(25.0, BusySource::Counted));
    assert_eq!(cpu.power_watts, Reading::Available(10.0));
    assert_eq!(cpu.temperature_celsius, Reading::Available(52.0));
    assert_eq!(cpu.clock_mhz, Reading::Available(1900.0));
    assert_eq!(cpu.limits, Reading::Available(vec![Limit::Heat]));
    let gpu = of(&samples, "gpu:8086:7d55@0000:00:02.0");
    assert_eq!(gpu.power_state, Reading::Available(PowerState::Awake));
    assert_eq!(gpu.busy, busy(75.0, BusySource::Awake));
    assert_eq!(gpu.clock_mhz, Reading::Available(1250.0));
    assert_eq!(gpu.limits, Reading::Available(vec![Limit::Heat, Limit::Power]));
    check_reason(&gpu.power_watts, "the driver i915 tells no power");
    let npu = of(&samples, "npu:8086:7d1d@0000:00:0b.0");
    assert_eq!(npu.busy, busy(40.0, BusySource::Counted));
    assert_eq!(npu.clock_mhz, Reading::Available(1400.0));
    assert_eq!(npu.memory_used_bytes, Reading::Available(64 << 20));
    let text = serde_json::to_string(&samples).unwrap();
    assert_eq!(serde_json::from_str::<Vec<ChipSample>>(&text).unwrap(), samples);
}

#[test]
fn an_amd_laptop_tells_of_its_npu_through_its_processor() {
    let tree = laptops::ryzen_ai();
    let mut sensors = sensors(&tree);
    check_reason(&of(&sensors.sample_at(at(0)), "gpu").limits, "a rate needs two");
    let table = laptops::apu_metrics(62, 1500, 1800, 9);
    let _tree = tree.bytes("sys/class/drm/card0/device/gpu_metrics", &table);
    let samples = sensors.sample_at(at(1000));
    let gpu = of(&samples, "gpu");
    assert_eq!(gpu.busy, busy(3.0, BusySource::DriverAverage));
    assert_eq!(gpu.power_watts, Reading::Available(6.123));
    assert_eq!(gpu.temperature_celsius, Reading::Available(44.0));
    assert_eq!(gpu.clock_mhz, Reading::Available(800.0));
    assert_eq!(gpu.memory_used_bytes, Reading::Available(512 << 20));
    assert_eq!(gpu.limits, Reading::Available(vec![Limit::Heat]));
    let npu = of(&samples, "npu:1022:17f0@0000:66:00.1");
    assert_eq!(npu.busy, busy(62.0, BusySource::DriverAverage));
    assert_eq!(npu.power_watts, Reading::Available(1.5));
    assert_eq!(npu.clock_mhz, Reading::Available(1800.0));
    check_reason(&of(&samples, "cpu").power_watts, "energy_uj cannot be read");
}

#[test]
fn an_npu_of_amds_without_the_processors_table_has_a_reason() {
    let tree = laptops::ryzen_ai().bytes("sys/class/drm/card0/device/gpu_metrics", &[0; 8]);
    let samples = sensors(&tree).sample_at(at(0));
    check_reason(&of(&samples, "npu").busy, "the driver amdxdna tells no load");
    check_reason(&of(&samples, "gpu").limits, "revision 0.0 of the table is not known");
}

#[test]
fn a_sleeping_gpu_is_left_asleep() {
    let tree = laptops::intel_with_nvidia();
    let mut sensors = sensors(&tree);
    sensors.sample_at(at(0));
    let samples = sensors.sample_at(at(1000));
    let nvidia = of(&samples, "gpu:10de");
    assert_eq!(nvidia.power_state, Reading::Available(PowerState::Asleep));
    check_reason(&nvidia.busy, "asleep");
    check_reason(&nvidia.temperature_celsius, "asleep");
    // A GPU that may not idle would look busy all the time.
    check_reason(&of(&samples, "gpu:8086").busy, "idle state is switched off");
    assert_eq!(of(&samples, "gpu:8086").clock_mhz, Reading::Available(1400.0));
    let _tree = tree.file("sys/class/drm/card1/device/power/runtime_status", "active\n");
    let samples = sensors.sample_at(at(2000));
    assert_eq!(of(&samples, "gpu:10de").power_state, Reading::Available(PowerState::Awake));
    check_reason(&of(&samples, "gpu:10de").busy, "the driver nvidia tells no load");
}

#[test]
fn an_intel_npu_tells_its_work_even_when_it_sleeps_again() {
    let tree = laptops::intel_with_npu();
    let mut sensors = sensors(&tree);
    sensors.sample_at(at(0));
    let _tree = tree
        .file("sys/class/accel/accel0/device/power/runtime_status", "suspended\n")
        .file("sys/class/accel/accel0/device/npu_busy_time_us", "5100000\n");
    let samples = sensors.sample_at(at(1000));
    let npu = of(&samples, "npu");
    assert_eq!(npu.power_state, Reading::Available(PowerState::Asleep));
    assert_eq!(npu.busy, busy(10.0, BusySource::Counted));
    check_reason(&npu.clock_mhz, "asleep");
}

#[test]
fn chips_off_the_pci_bus_tell_their_clock() {
    let samples = sensors(&laptops::snapdragon()).sample_at(at(0));
    let gpu = of(&samples, "gpu");
    assert_eq!(gpu.clock_mhz, Reading::Available(550.0));
    check_reason(&gpu.busy, "the driver msm_dpu tells no load");
    check_reason(&of(&samples, "npu").busy, "fastrpc has no folder with sensors");
    let samples = sensors(&laptops::macbook()).sample_at(at(0));
    assert_eq!(of(&samples, "gpu").power_state, Reading::Available(PowerState::Awake));
    check_reason(&of(&samples, "gpu").clock_mhz, "the driver asahi tells no clock");
}

#[test]
fn the_driver_xe_is_read_below_its_tiles() {
    let event = "DRIVER=xe\nPCI_ID=8086:64A0\nPCI_SLOT_NAME=0000:00:02.0\n";
    let device = "sys/class/drm/card0/device";
    let tree = Tree::new()
        .file(&format!("{device}/uevent"), event)
        .file(&format!("{device}/tile0/gt0/gtidle/idle_residency_ms"), "1000\n")
        .file(&format!("{device}/tile0/gt0/freq0/act_freq"), "1950\n")
        .file(&format!("{device}/tile0/gt0/freq0/throttle/status"), "1\n")
        .file(&format!("{device}/hwmon/hwmon2/temp2_input"), "55000\n")
        .file(&format!("{device}/hwmon/hwmon2/energy1_input"), "1000000\n");
    let mut sensors = sensors(&tree);
    sensors.sample_at(at(0));
    let _tree = tree
        .file(&format!("{device}/tile0/gt0/gtidle/idle_residency_ms"), "1200\n")
        .file(&format!("{device}/hwmon/hwmon2/energy1_input"), "21000000\n");
    let samples = sensors.sample_at(at(2000));
    let gpu = of(&samples, "gpu");
    assert_eq!(gpu.busy, busy(90.0, BusySource::Awake));
    assert_eq!(gpu.power_watts, Reading::Available(10.0));
    assert_eq!(gpu.temperature_celsius, Reading::Available(55.0));
    assert_eq!(gpu.clock_mhz, Reading::Available(1950.0));
    // Throttled, for a reason that this kernel has no file for.
    assert_eq!(gpu.limits, Reading::Available(vec![Limit::Other]));
    check_reason(&gpu.power_state, "runtime_status does not exist");
}

#[test]
fn a_discrete_gpu_of_intels_is_metered_by_its_own_monitor() {
    let event = "DRIVER=i915\nPCI_ID=8086:56A0\nPCI_SLOT_NAME=0000:03:00.0\n";
    let monitor = "sys/class/drm/card0/device/hwmon";
    let tree = Tree::new()
        .file("sys/class/drm/card0/device/uevent", event)
        // The monitor of a tile may have the lower number.
        .file(&format!("{monitor}/hwmon3/name"), "i915_gt0\n")
        .file(&format!("{monitor}/hwmon3/energy1_input"), "7\n")
        .file(&format!("{monitor}/hwmon4/name"), "i915\n")
        .file(&format!("{monitor}/hwmon4/power1_max"), "190000000\n")
        .file(&format!("{monitor}/hwmon4/energy1_input"), "1000000\n");
    let mut sensors = sensors(&tree);
    sensors.sample_at(at(0));
    let _tree = tree.file(&format!("{monitor}/hwmon4/energy1_input"), "36000000\n");
    assert_eq!(of(&sensors.sample_at(at(1000)), "gpu").power_watts, Reading::Available(35.0));
}

#[test]
fn a_gpu_of_amds_answers_to_either_name_of_its_power() {
    let power = "sys/class/drm/card0/device/hwmon/hwmon3/power1";
    let watts = |average: &str, input: &str| {
        let tree = laptops::ryzen_ai()
            .file(&format!("{power}_average"), average)
            .file(&format!("{power}_input"), input);
        of(&sensors(&tree).sample_at(at(0)), "gpu").power_watts.clone()
    };
    assert_eq!(watts("6123000\n", "5000000\n"), Reading::Available(6.123));
    assert_eq!(watts("\n", "5000000\n"), Reading::Available(5.0));
    check_reason(&watts("\n", "x\n"), "power1_input holds `x` instead of microwatts");
    let tree = laptops::two_amd_gpus();
    assert_eq!(of(&sensors(&tree).sample_at(at(0)), "gpu:1002:15bf").power_watts, Reading::Available(4.0));
}

#[test]
fn an_intel_npu_tells_its_clock_under_its_new_name() {
    let tree = laptops::intel_with_npu().file("sys/class/accel/accel0/device/freq/current_freq", "1850\n");
    assert_eq!(of(&sensors(&tree).sample_at(at(0)), "npu").clock_mhz, Reading::Available(1850.0));
    let tree = laptops::intel_with_npu().file("sys/class/accel/accel0/device/freq/current_freq", "0\n");
    check_reason(&of(&sensors(&tree).sample_at(at(0)), "npu").clock_mhz, "stands still");
}

#[cfg(unix)]
#[test]
fn a_driver_that_hangs_costs_its_own_chip_until_it_answers() {
    const IDLE: &str = "sys/class/drm/card1/gt/gt0/rc6_residency_ms";
    let tree = laptops::intel_with_npu().hanging(IDLE);
    let chips = laptops::chips(&tree);
    let mut sensors = ChipSensors::with_time_limit(tree.roots(), &chips, Duration::from_secs(2));
    let samples = sensors.sample_at(at(0));
    let gpu = of(&samples, "gpu");
    check_reason(&gpu.busy, "the driver i915 of ");
    check_reason(&gpu.clock_mhz, "did not answer within 2 seconds");
    // Whether it sleeps, the kernel knows by itself.
    assert_eq!(gpu.power_state, Reading::Available(PowerState::Awake));
    assert_eq!(of(&samples, "npu").clock_mhz, Reading::Available(1400.0));
    assert_eq!(of(&samples, "cpu").temperature_celsius, Reading::Available(52.0));
    check_reason(&of(&sensors.sample_at(at(1000)), "gpu").busy, "has not answered for");
    let _tree = tree.let_go(IDLE, "900000\n");
    let mut again = (2..).map(|second| of(&sensors.sample_at(at(1000 * second)), "gpu").clock_mhz.clone());
    assert_eq!(again.find_map(|it| it.available().copied()), Some(1250.0));
}

#[cfg(unix)]
#[test]
fn no_sleeping_gpu_is_woken_for_what_it_may_know_of_an_npu() {
    // Reading this table would hang, as it would wake the GPU of a real machine.
    let tree = laptops::ryzen_ai()
        .file(
            "sys/class/drm/card1/device/uevent",
            "DRIVER=amdgpu\nPCI_ID=1002:7480\nPCI_SLOT_NAME=0000:03:00.0\n",
        )
        .file("sys/class/drm/card1/device/power/runtime_status", "suspended\n")
        .hanging("sys/class/drm/card1/device/gpu_metrics");
    let mut reader = sensors(&tree);
    assert_eq!(of(&reader.sample_at(at(0)), "npu").clock_mhz, Reading::Available(1600.0));
    // Nor the processor's own GPU, once it sleeps.
    let tree = tree.file("sys/class/drm/card0/device/power/runtime_status", "suspended\n");
    check_reason(&of(&reader.sample_at(at(1000)), "npu").clock_mhz, "tells no clock");
    let _tree = tree.file("sys/class/drm/card0/device/power/runtime_status", "active\n");
    assert_eq!(of(&reader.sample_at(at(2000)), "npu").clock_mhz, Reading::Available(1600.0));
}

#[test]
fn a_chip_that_vanishes_between_two_samples_leaves_reasons_and_the_others() {
    let tree = laptops::two_amd_gpus().file("sys/class/drm/card2/device/power/runtime_status", "active\n");
    let mut sensors = sensors(&tree);
    let discrete = "gpu:1002:7480";
    assert_eq!(of(&sensors.sample_at(at(0)), discrete).memory_used_bytes, Reading::Available(25_000_000));
    let _tree =
        tree.without("sys/class/drm/card2").file("proc/stat", "cpu  10100 0 5000 300300 1000 0 200 0 0 0\n");
    let samples = sensors.sample_at(at(1000));
    check_reason(&of(&samples, discrete).busy, "gpu_busy_percent does not exist");
    check_reason(&of(&samples, discrete).power_state, "runtime_status does not exist");
    assert_eq!(of(&samples, "gpu:1002:15bf").busy, busy(2.0, BusySource::DriverAverage));
    assert_eq!(of(&samples, "cpu").busy, busy(25.0, BusySource::Counted));
}

#[test]
fn twenty_gpus_are_sampled_each_by_itself() {
    let tree = (0..20).fold(Tree::new(), |tree, card| {
        let device = format!("sys/class/drm/card{card}/device");
        let event = format!("DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:{:02x}:00.0\n", card + 1);
        tree.file(&format!("{device}/uevent"), &event)
            .file(&format!("{device}/gpu_busy_percent"), &format!("{card}\n"))
    });
    let samples = sensors(&tree).sample_at(at(0));
    assert_eq!(samples.len(), 21);
    for card in 0..20_u32 {
        let sample = of(&samples, &format!("gpu:1002:744c@0000:{:02x}:00.0", card + 1));
        assert_eq!(sample.busy, busy(f64::from(card), BusySource::DriverAverage));
    }
}

#[test]
fn garbage_in_a_chips_files_is_a_reason() {
    let device = "sys/class/drm/card0/device";
    let tree = laptops::ryzen_ai()
        .file(&format!("{device}/gpu_busy_percent"), "250\n")
        .file(&format!("{device}/mem_info_vram_used"), "-1\n")
        .file(&format!("{device}/power/runtime_status"), "error\n")
        .file(&format!("{device}/hwmon/hwmon3/power1_average"), "inf\n")
        .file(&format!("{device}/hwmon/hwmon3/freq1_input"), "NaN\n")
        .file(&format!("{device}/hwmon/hwmon3/temp1_input"), "\n")
        .bytes(&format!("{device}/gpu_metrics"), &[0xff; 4096]);
    let samples = sensors(&tree).sample_at(at(0));
    let gpu = of(&samples, "gpu");
    check_reason(&gpu.busy, "holds `250` instead of a percentage");
    check_reason(&gpu.memory_used_bytes, "holds `-1` instead of a number");
    check_reason(&gpu.power_state, "holds `error` instead of a power state");
    check_reason(&gpu.power_watts, "holds `inf` instead of microwatts");
    check_reason(&gpu.clock_mhz, "instead of a clock in hertz");
    check_reason(&gpu.temperature_celsius, "tells no temperature");
    check_reason(&gpu.limits, "revision 255.255 of the table is not known");
}

#[test]
fn software_chips_are_left_to_the_cpu() {
    let event = "DRIVER=virtio-pci\nPCI_ID=1AF4:1050\nPCI_SLOT_NAME=0000:00:02.0\n";
    let tree = Tree::new().file("sys/class/drm/card0/device/uevent", event);
    assert_eq!(laptops::chips(&tree).len(), 2);
    let samples = sensors(&tree).sample_at(at(0));
    assert_eq!(samples.iter().map(|sample| sample.chip.as_str()).collect::<Vec<_>>(), ["cpu"]);
}

#[test]
fn a_card_for_computing_only_is_read_on_its_bus() {
    let tree = Tree::new()
        .file("proc/driver/nvidia/gpus/0000:17:00.0/information", "Model: NVIDIA H200\n")
        .file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n")
        .file("sys/bus/pci/devices/0000:17:00.0/device", "0x2335\n")
        .file("sys/bus/pci/devices/0000:17:00.0/power/runtime_status", "active\n");
    let samples = sensors(&tree).sample_at(at(0));
    assert_eq!(of(&samples, "gpu:10de:2335").power_state, Reading::Available(PowerState::Awake));
}

#[test]
fn a_process_has_its_work_and_memory_on_the_chip_that_it_opened() {
    let client = |place: &str, id: u32, vram: u32| {
        format!(
            "drm-driver:\tamdgpu\ndrm-client-id:\t{id}\ndrm-pdev:\t{place}\ndrm-engine-compute:\t700 ns\n\
             drm-memory-vram:\t{vram} KiB\ndrm-memory-gtt:\t16 KiB\n"
        )
    };
    let tree = laptops::two_amd_gpus()
        .file("proc/77/fdinfo/9", &client("0000:03:00.0", 5, 4))
        .file("proc/77/fdinfo/10", &client("0000:03:00.0", 6, 8));
    let mut sensors = sensors(&tree);
    let uses = sensors.process(77);
    assert_eq!(uses.len(), 2);
    let discrete = uses.iter().find(|used| used.chip.as_str().contains("7480")).unwrap();
    assert_eq!(discrete.work, Reading::Available(EngineWork::Time { ns: 1400 }));
    assert_eq!(discrete.device_bytes, Reading::Available(12 << 10));
    assert_eq!(discrete.shared_bytes, Reading::Available(32 << 10));
    let integrated = uses.iter().find(|used| used.chip.as_str().contains("15bf")).unwrap();
    check_reason(&integrated.work, "has not opened the chip's device");
    check_reason(&sensors.process(78)[0].device_bytes, "fdinfo does not exist");
}

#[cfg(unix)]
#[test]
fn a_driver_that_hangs_over_an_open_file_is_a_reason() {
    let tree = laptops::snapdragon().hanging("proc/77/fdinfo/9");
    let chips = laptops::chips(&tree);
    let mut sensors = ChipSensors::with_time_limit(tree.roots(), &chips, Duration::from_millis(50));
    check_reason(&sensors.process(77)[0].work, "did not answer within 0.05 seconds");
    check_reason(&sensors.process(78)[0].work, "has not answered for");
    let _tree = tree.let_go("proc/77/fdinfo/9", "drm-driver:\tmsm_dpu\n");
    let mut again = std::iter::repeat_with(|| sensors.process(78)[0].work.clone());
    assert!(again.any(|work| matches!(work, Reading::Unavailable(reason) if reason.contains("not exist"))));
}

#[test]
fn a_process_on_a_chip_without_an_address_is_found_by_the_driver() {
    let tree = laptops::snapdragon().file(
        "proc/77/fdinfo/9",
        "drm-driver:\tmsm_dpu\ndrm-client-id:\t1\ndrm-engine-gpu:\t10 ns\ndrm-resident-memory:\t3 MiB\n",
    );
    let uses = sensors(&tree).process(77);
    assert_eq!(uses[0].shared_bytes, Reading::Available(3 << 20));
    check_reason(&uses[0].device_bytes, "tells no memory on the chip of a process");
}

#[test]
fn work_is_a_share_of_the_time_between() {
    let second = Duration::from_secs(1);
    let time = |ns| EngineWork::Time { ns };
    let cycles = |busy, total| EngineWork::Cycles { busy, total };
    assert_eq!(time(900).percent_since(&time(400), Duration::from_micros(1)), Reading::Available(50.0));
    assert_eq!(cycles(30, 200).percent_since(&cycles(10, 100), second), Reading::Available(20.0));
    check_reason(&time(1).percent_since(&time(2), second), "went back");
    check_reason(&cycles(1, 1).percent_since(&cycles(1, 1), second), "no time has passed");
    check_reason(&cycles(1, 1).percent_since(&time(1), second), "changed how it counts");
}

#[test]
fn a_gpu_of_nvidias_that_is_not_there_has_reasons() {
    // With NVIDIA's library or without, no machine has a device at this place.
    let chip = crate::fixture::chip("gpu:10de:ffff@ffff:ff:1f.7");
    let mut sensors = ChipSensors::detect(std::slice::from_ref(&chip));
    let samples = sensors.sample_at(at(0));
    assert!(matches!(&samples[0].busy, Reading::Unavailable(reason) if !reason.is_empty()), "{samples:?}");
    let uses = sensors.process(std::process::id());
    assert!(uses[0].device_bytes.available().is_none());
    check_reason(&uses[0].work, "NVIDIA's driver counts no work of a single process");
}

#[test]
fn the_running_machine_has_a_cpu_that_is_busy_or_not() {
    let host = crate::host::detect_host();
    let chips: Vec<Chip> = crate::chips::detect_chips(&host)
        .into_iter()
        .filter_map(|finding| finding.chip.available().cloned())
        .filter(|chip| !chip.software)
        .collect();
    let mut sensors = ChipSensors::detect(&chips);
    sensors.sample_at(at(0));
    std::thread::sleep(at(60));
    let samples = sensors.sample_at(at(60));
    assert_eq!(samples.len(), chips.len());
    let busy = *of(&samples, "cpu").busy.available().unwrap();
    assert!((0.0..=100.0).contains(&busy.percent));
    assert_eq!(sensors.process(std::process::id()).len(), chips.len() - 1);
}
