//! The cost of looking at the machine, which every start of the program pays.

use siliconroute_hardware::{
    detect_chips, detect_conditions, detect_host, detect_vulkan_drivers, hardware_id,
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
