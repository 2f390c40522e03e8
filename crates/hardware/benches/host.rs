//! The cost of looking at the machine, which every start of the program pays.

use siliconroute_hardware::{
    ChipSensors, TimerFacts, detect_chips, detect_conditions, detect_glance, detect_host,
    detect_vulkan_drivers, hardware_id, timer_facts,
};

fn main() {
    divan::main();
}

#[divan::bench]
fn host() -> String {
    hardware_id(&detect_host())
}

#[divan::bench]
fn chips(bencher: divan::Bencher<'_, '_>) {
    let host = detect_host();
    bencher.bench(|| detect_chips(&host));
}

#[divan::bench]
fn vulkan_drivers() -> bool {
    detect_vulkan_drivers().available().is_some()
}

#[divan::bench]
fn conditions() -> bool {
    detect_conditions().free_memory_bytes.available().is_some()
}

/// What a campaign asks once a second.
#[divan::bench]
fn glance() -> bool {
    detect_glance().free_memory_bytes.available().is_some()
}

/// One sample of all chips, as it is taken again and again while a target works.
#[divan::bench]
fn chip_sample(bencher: divan::Bencher<'_, '_>) {
    let mut sensors = sensors();
    bencher.bench_local(|| sensors.sample());
}

/// What this process has on each chip but the CPU.
#[divan::bench]
fn chip_process(bencher: divan::Bencher<'_, '_>) {
    let mut sensors = sensors();
    bencher.bench_local(|| sensors.process(std::process::id()));
}

#[divan::bench]
fn timer() -> TimerFacts {
    timer_facts()
}

fn sensors() -> ChipSensors {
    let chips: Vec<_> = detect_chips(&detect_host())
        .into_iter()
        .filter_map(|finding| finding.chip.available().cloned())
        .collect();
    ChipSensors::detect(&chips)
}
