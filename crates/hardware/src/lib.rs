//! The machine below the program: host facts, chips, conditions and process memory.
//!
//! Invariant: the only crate with operating-system code, and nothing in it fails or panics: a value
//! that the machine does not offer is a `Reading::Unavailable` with its reason. Path roots are
//! constructor parameters, so every Linux reader also works on a captured tree.
//!
//! Reading order: `roots`, `guard`, `processor`, `topology`, `host`, `allowance`, `hardware_id`, `chips`, `vulkan`,
//! `conditions`, `glance`, `interference`, `process`, `disk`, `file_cache`, `timer`, `counters`, `chip_sensors`,
//! `energy_meters`, `identify`, then the readers in `linux` and the thin system calls in `os`.

mod allowance;
mod chip_sensors;
mod chips;
mod conditions;
mod counters;
mod disk;
mod energy_meters;
mod file_cache;
mod glance;
mod guard;
mod hardware_id;
mod host;
mod identify;
mod interference;
mod linux;
#[cfg(any(target_os = "macos", test))]
mod macos_facts;
#[cfg(any(target_os = "macos", test))]
mod macos_graphics;
#[cfg(any(target_os = "macos", test))]
mod macos_power;
#[cfg(any(target_os = "macos", test))]
mod macos_table;
mod os;
mod pci;
mod process;
mod processor;
mod roots;
mod timer;
mod topology;
mod vulkan;
#[cfg(any(windows, test))]
mod windows_adapters;
#[cfg(any(windows, test))]
mod windows_counters;
#[cfg(any(windows, test))]
mod windows_facts;
#[cfg(any(windows, test))]
mod windows_power;
#[cfg(any(windows, test))]
mod windows_topology;
mod worker_process;

#[cfg(test)]
mod fixture;

pub use allowance::{Allowance, AllowedCluster, AllowedCore, detect_allowance, hold_thread_on};
pub use chip_sensors::{
    Busy, BusySource, ChipSample, ChipSensors, EngineWork, Limit, PowerState, ProcessChipUse,
};
pub use chips::{ChipFinding, ChipProbe, detect_chips, list_adapters};
pub use conditions::{
    ClockSpread, Conditions, ConditionsProbe, CpuTimes, DriverVersion, PowerSource, ThermalState, Throttling,
    detect_conditions,
};
pub use disk::free_space_bytes;
pub use energy_meters::{EnergyMeters, MeterReading, lies_in_package};
pub use file_cache::{FileCache, evict_from_file_cache, resident_share};
pub use glance::{Glance, detect_glance};
pub use hardware_id::{clean_cpu_name, hardware_id};
pub use host::{HostFacts, HostProbe, detect_host};
pub use identify::{Evidence, Observation, Verdict, identify_chip};
pub use interference::Interference;
pub use process::{
    process_cpu_time_ns, process_peak_resident_bytes, process_resident_bytes, restart_peak_resident_bytes,
};
pub use processor::Processor;
pub use roots::Roots;
pub use timer::{TimerFacts, timer_facts};
pub use topology::{CacheKind, CacheLevel, ClusterKind, CoreCluster};
pub use vulkan::{VulkanDriver, VulkanProbe, detect_vulkan_drivers, vulkan_driver_present};
pub use worker_process::{
    end_process_at_once, let_large_writes_fail, prepare_worker_process, take_standard_output,
};
