//! Sensors of NVIDIA's GPUs, from the driver's management library (NVML), which is loaded when first used.
//!
//! Invariant: a machine without the library, or with an older one, gets reasons; nothing is linked against it.
#![expect(unsafe_code, reason = "calls of a C library that is loaded at run time")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fmt;
use std::time::Duration;

use nvml_wrapper_sys::bindings as nvml;
use siliconroute_core::{Chip, ChipKey, Reading};

use crate::chip_sensors::{Busy, BusySource, ChipSample, Limit, ProcessChipUse};
use crate::guard::Watched;

/// More processes than run on the GPU of one machine at a time.
const PROCESS_LIMIT: usize = 1024;
/// The library's mark for a number that the system does not tell it.
const NOT_AVAILABLE: u64 = u64::MAX;

/// Loading the library wakes every GPU of NVIDIA's, which takes some seconds on a large machine.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The library, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Nvidia(Watched<State>);

/// The library, once it is needed.
enum State {
    NotLoaded,
    Loaded(Box<Library>),
    Failed(String),
}

/// The library and the handles of the GPUs that were asked for.
struct Library {
    functions: nvml::NvmlLib,
    devices: BTreeMap<ChipKey, Reading<Device>>,
}

/// The library's handle of a GPU, which is valid until it is shut down.
#[derive(Debug, Clone, Copy)]
struct Device(nvml::nvmlDevice_t);

impl Nvidia {
    /// Loads nothing yet.
    pub(crate) fn new() -> Self {
        Self(Watched::new("NVIDIA's driver", TIME_LIMIT, || State::NotLoaded))
    }

    /// Writes the library's readings into `sample`, and its reasons where the sample has no value either.
    pub(crate) fn fill(&mut self, chip: &Chip, sample: &mut ChipSample) {
        let asked = chip.clone();
        let told = self.0.ask(move |state| match state.device(&asked) {
            Reading::Available((library, device)) => library.sample(&asked, device),
            Reading::Unavailable(reason) => ChipSample::unavailable(asked.key.clone(), &reason),
        });
        let told = match told {
            Reading::Available(told) => told,
            Reading::Unavailable(reason) => ChipSample::unavailable(chip.key.clone(), &reason),
        };
        merge(sample, told);
    }

    /// The energy that the GPU has used since its driver was loaded, in millijoules.
    pub(crate) fn total_energy_millijoules(&mut self, chip: &Chip) -> Reading<u64> {
        let asked = chip.clone();
        let told = self
            .0
            .ask(move |state| state.device(&asked).and_then(|(library, device)| library.energy(device)));
        told.and_then(|energy| energy)
    }

    /// Writes the memory that `pid` has on the GPU into `found`.
    pub(crate) fn fill_process(&mut self, chip: &Chip, pid: u32, found: &mut ProcessChipUse) {
        let asked = chip.clone();
        let told = self.0.ask(move |state| {
            state.device(&asked).and_then(|(library, device)| library.process_bytes(device, pid))
        });
        found.device_bytes = told.and_then(|bytes| bytes);
        // The driver's device files are not those of which the kernel tells what a process has there.
        if found.work.available().is_none() {
            found.work = Reading::unavailable("NVIDIA's driver counts no work of a single process");
        }
        if found.shared_bytes.available().is_none() {
            found.shared_bytes = Reading::unavailable("NVIDIA's driver counts memory on the GPU only");
        }
    }
}

impl State {
    fn library(&mut self) -> Result<&mut Library, String> {
        if matches!(self, Self::NotLoaded) {
            *self = Library::load().map_or_else(Self::Failed, |library| Self::Loaded(Box::new(library)));
        }
        match self {
            Self::Loaded(library) => Ok(library),
            Self::Failed(reason) => Err(reason.clone()),
            Self::NotLoaded => Err("the library of NVIDIA's driver is not loaded".to_owned()),
        }
    }

    /// The library and its handle of `chip`.
    fn device(&mut self, chip: &Chip) -> Reading<(&mut Library, Device)> {
        match self.library() {
            Ok(library) => library.device(chip).map(|device| (library, device)),
            Err(reason) => Reading::Unavailable(reason),
        }
    }
}

/// The library's word counts; where it has none, a value of the files stays.
fn merge(sample: &mut ChipSample, told: ChipSample) {
    fn take<T>(old: &mut Reading<T>, new: Reading<T>) {
        if new.available().is_some() || old.available().is_none() {
            *old = new;
        }
    }
    let power_state = std::mem::replace(&mut sample.power_state, Reading::unavailable(""));
    take(&mut sample.busy, told.busy);
    take(&mut sample.power_watts, told.power_watts);
    take(&mut sample.temperature_celsius, told.temperature_celsius);
    take(&mut sample.clock_mhz, told.clock_mhz);
    take(&mut sample.memory_used_bytes, told.memory_used_bytes);
    take(&mut sample.limits, told.limits);
    sample.power_state = power_state;
}

impl Library {
    fn load() -> Result<Self, String> {
        let mut failure = String::new();
        let functions = super::nvidia_libraries().iter().find_map(|name| {
            // SAFETY: the name is that of the driver's own library, in a place where the system keeps it; its
            // start-up code is the driver's.
            let loaded = unsafe { nvml::NvmlLib::new(name.as_os_str()) };
            loaded.map_err(|error| failure = error.to_string()).ok()
        });
        let functions =
            functions.ok_or_else(|| format!("the library of NVIDIA's driver cannot be loaded: {failure}"))?;
        let library = Self { functions, devices: BTreeMap::new() };
        let start = library.functions.nvmlInit_v2.as_ref().map_err(missing)?;
        // SAFETY: the function takes nothing.
        let status = unsafe { start() };
        if status == nvml::nvmlReturn_enum_NVML_SUCCESS {
            Ok(library)
        } else {
            Err(library.failure("nvmlInit", status))
        }
    }

    /// The handle of `chip`, asked for once.
    fn device(&mut self, chip: &Chip) -> Reading<Device> {
        if let Some(known) = self.devices.get(&chip.key) {
            return known.clone();
        }
        let found = self.find(chip);
        self.devices.insert(chip.key.clone(), found.clone());
        found
    }

    fn find(&self, chip: &Chip) -> Reading<Device> {
        let Some(address) = &chip.identity.bus_address else {
            return Reading::unavailable("the GPU's PCI address is not known");
        };
        let Ok(address) = CString::new(address.as_str()) else {
            return Reading::unavailable("the GPU's PCI address holds a NUL");
        };
        let function = match &self.functions.nvmlDeviceGetHandleByPciBusId_v2 {
            Ok(function) => function,
            Err(error) => return Reading::Unavailable(missing(error)),
        };
        let mut device = std::ptr::null_mut();
        // SAFETY: the text ends with a NUL, and the call writes one handle.
        let status = unsafe { function(address.as_ptr(), &raw mut device) };
        self.checked("nvmlDeviceGetHandleByPciBusId", status, Device(device))
    }

    fn sample(&self, chip: &Chip, Device(device): Device) -> ChipSample {
        let lib = &self.functions;
        let busy = self.ask("load", &lib.nvmlDeviceGetUtilizationRates, |function| {
            let mut rates = nvml::nvmlUtilization_t { gpu: 0, memory: 0 };
            // SAFETY: the handle is the library's own, and the call writes one structure of this type.
            (unsafe { function(device, &raw mut rates) }, rates)
        });
        let power = self.ask("power", &lib.nvmlDeviceGetPowerUsage, |function| {
            let mut milliwatts = 0;
            // SAFETY: the handle is the library's own, and the call writes one number.
            (unsafe { function(device, &raw mut milliwatts) }, milliwatts)
        });
        let temperature = self.ask("temperature", &lib.nvmlDeviceGetTemperature, |function| {
            let mut celsius = 0;
            let sensor = nvml::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU;
            // SAFETY: the handle is the library's own, and the call writes one number.
            (unsafe { function(device, sensor, &raw mut celsius) }, celsius)
        });
        let clock = self.ask("clock", &lib.nvmlDeviceGetClockInfo, |function| {
            let mut mhz = 0;
            // SAFETY: the handle is the library's own, and the call writes one number.
            (unsafe { function(device, nvml::nvmlClockType_enum_NVML_CLOCK_SM, &raw mut mhz) }, mhz)
        });
        let memory = self.ask("memory", &lib.nvmlDeviceGetMemoryInfo, |function| {
            let mut memory = nvml::nvmlMemory_t { total: 0, free: 0, used: 0 };
            // SAFETY: the handle is the library's own, and the call writes one structure of this type.
            (unsafe { function(device, &raw mut memory) }, memory)
        });
        let limits = self.ask("limits", &lib.nvmlDeviceGetCurrentClocksThrottleReasons, |function| {
            let mut reasons = 0;
            // SAFETY: the handle is the library's own, and the call writes one number.
            (unsafe { function(device, &raw mut reasons) }, reasons)
        });
        ChipSample {
            chip: chip.key.clone(),
            power_state: Reading::unavailable("the library does not tell it"),
            busy: busy.map(|rates| Busy {
                percent: f64::from(rates.gpu).min(100.0),
                source: BusySource::DriverAverage,
            }),
            power_watts: power.map(|milliwatts| f64::from(milliwatts) / 1000.0),
            temperature_celsius: temperature.map(f64::from),
            clock_mhz: clock.map(f64::from),
            memory_used_bytes: memory.map(|memory| memory.used),
            limits: limits.map(limits_of),
        }
    }

    fn energy(&self, Device(device): Device) -> Reading<u64> {
        self.ask("energy", &self.functions.nvmlDeviceGetTotalEnergyConsumption, |function| {
            let mut millijoules = 0;
            // SAFETY: the handle is the library's own, and the call writes one number.
            (unsafe { function(device, &raw mut millijoules) }, millijoules)
        })
    }

    /// Asks one question: `call` hands the function what it needs, and returns its status and answer.
    fn ask<F, E: fmt::Display, T>(
        &self,
        what: &str,
        function: &Result<F, E>,
        call: impl FnOnce(&F) -> (nvml::nvmlReturn_t, T),
    ) -> Reading<T> {
        match function {
            Ok(function) => {
                let (status, value) = call(function);
                self.checked(what, status, value)
            }
            Err(error) => Reading::Unavailable(missing(error)),
        }
    }

    /// The memory of `pid` on the GPU, as a program that computes or that draws.
    fn process_bytes(&self, device: Device, pid: u32) -> Reading<u64> {
        let lists = [
            self.ask("processes", &lib_compute(&self.functions), |function| list(**function, device)),
            self.ask("processes", &lib_graphics(&self.functions), |function| list(**function, device)),
        ];
        let mut found = None::<u64>;
        for list in lists {
            let processes = match list {
                Reading::Available(processes) => processes,
                Reading::Unavailable(reason) => return Reading::Unavailable(reason),
            };
            for process in processes.iter().filter(|process| process.pid == pid) {
                if process.usedGpuMemory == NOT_AVAILABLE {
                    return Reading::unavailable(
                        "the system keeps the memory of processes from NVIDIA's driver",
                    );
                }
                // A program that does both is in both lists with the same number.
                found = found.max(Some(process.usedGpuMemory));
            }
        }
        Reading::from_option(found, "the process has no memory on this GPU")
    }

    fn checked<T>(&self, what: &str, status: nvml::nvmlReturn_t, value: T) -> Reading<T> {
        if status == nvml::nvmlReturn_enum_NVML_SUCCESS {
            Reading::Available(value)
        } else {
            Reading::Unavailable(self.failure(what, status))
        }
    }

    fn failure(&self, what: &str, status: nvml::nvmlReturn_t) -> String {
        let text = self.functions.nvmlErrorString.as_ref().ok().map(|function| {
            // SAFETY: the function takes a number and returns a constant text that ends with a NUL.
            unsafe { CStr::from_ptr(function(status)) }.to_string_lossy().into_owned()
        });
        let text = text.unwrap_or_else(|| format!("error {status}"));
        format!("NVIDIA's driver does not tell it ({what}: {text})")
    }
}

type ListFunction = unsafe extern "C" fn(
    nvml::nvmlDevice_t,
    *mut std::ffi::c_uint,
    *mut nvml::nvmlProcessInfo_t,
) -> nvml::nvmlReturn_t;

fn lib_compute(functions: &nvml::NvmlLib) -> Result<&ListFunction, String> {
    functions.nvmlDeviceGetComputeRunningProcesses_v3.as_ref().map_err(missing)
}

fn lib_graphics(functions: &nvml::NvmlLib) -> Result<&ListFunction, String> {
    functions.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref().map_err(missing)
}

fn list(
    function: ListFunction,
    Device(device): Device,
) -> (nvml::nvmlReturn_t, Vec<nvml::nvmlProcessInfo_t>) {
    let empty = nvml::nvmlProcessInfo_t { pid: 0, usedGpuMemory: 0, gpuInstanceId: 0, computeInstanceId: 0 };
    let mut processes = vec![empty; PROCESS_LIMIT];
    let mut count = PROCESS_LIMIT as std::ffi::c_uint;
    // SAFETY: the handle is the library's own; the call writes at most `count` structures of this type.
    let status = unsafe { function(device, &raw mut count, processes.as_mut_ptr()) };
    processes.truncate(count as usize);
    (status, processes)
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Ok(stop) = &self.functions.nvmlShutdown {
            // SAFETY: the function takes nothing, and no handle is used after it. A failure leaves nothing to
            // do: the library goes with the program.
            let _status = unsafe { stop() };
        }
    }
}

fn missing(error: &impl fmt::Display) -> String {
    format!("the library of NVIDIA's driver is too old: {error}")
}

fn limits_of(reasons: u64) -> Vec<Limit> {
    let set = |reason: u32| reasons & u64::from(reason) != 0;
    let mut limits = Vec::new();
    if set(nvml::nvmlClocksThrottleReasonSwThermalSlowdown)
        || set(nvml::nvmlClocksThrottleReasonHwThermalSlowdown)
    {
        limits.push(Limit::Heat);
    }
    if set(nvml::nvmlClocksThrottleReasonSwPowerCap)
        || set(nvml::nvmlClocksThrottleReasonHwPowerBrakeSlowdown)
    {
        limits.push(Limit::Power);
    }
    // Either heat or power; the two bits above say which where the GPU knows it.
    if limits.is_empty() && set(nvml::nvmlClocksThrottleReasonHwSlowdown) {
        limits.push(Limit::Other);
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_become_limits() {
        #[track_caller]
        fn check(bits: u64, expected: &[Limit]) {
            assert_eq!(limits_of(bits), expected);
        }
        check(0, &[]);
        // An idle GPU is not held back, nor one whose user has set its clock.
        check(0x1 | 0x2, &[]);
        check(0x4, &[Limit::Power]);
        check(0x8, &[Limit::Other]);
        check(0x8 | 0x40, &[Limit::Heat]);
        check(0x20 | 0x80, &[Limit::Heat, Limit::Power]);
    }

    #[test]
    fn without_the_library_the_files_readings_stay() {
        let chip = crate::fixture::chip("gpu:10de:2d18@0000:01:00.0");
        let mut sample = ChipSample::unavailable(chip.key.clone(), "no file");
        sample.temperature_celsius = Reading::Available(50.0);
        let absent = || State::Failed("no library".to_owned());
        let mut nvidia = Nvidia(Watched::new("NVIDIA's driver", TIME_LIMIT, absent));
        nvidia.fill(&chip, &mut sample);
        assert_eq!(sample.temperature_celsius, Reading::Available(50.0));
        assert_eq!(sample.busy, Reading::unavailable("no library"));
        assert_eq!(sample.power_state, Reading::unavailable("no file"));
    }

    #[test]
    fn a_driver_that_hangs_costs_its_own_readings_only() {
        fn hang() -> State {
            loop {
                std::thread::park();
            }
        }
        let chip = crate::fixture::chip("gpu:10de:2d18@0000:01:00.0");
        let mut nvidia = Nvidia(Watched::new("a driver that a test hangs", Duration::from_millis(5), hang));
        for reason in ["a driver that a test hangs did not answer", "hangs has not answered"] {
            let mut sample = ChipSample::unavailable(chip.key.clone(), "no file");
            sample.temperature_celsius = Reading::Available(50.0);
            nvidia.fill(&chip, &mut sample);
            assert_eq!(sample.temperature_celsius, Reading::Available(50.0));
            assert!(
                matches!(&sample.busy, Reading::Unavailable(told) if told.contains(reason)),
                "{sample:?}"
            );
        }
        let mut found = ProcessChipUse::unavailable(chip.key.clone(), "no file");
        nvidia.fill_process(&chip, 1, &mut found);
        assert!(found.device_bytes.to_string().contains("has not answered"), "{}", found.device_bytes);
    }
}
