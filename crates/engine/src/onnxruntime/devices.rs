//! From the devices of a runtime library to targets with fixed options.
//!
//! Invariant: an option is given by its plain key here and prefixed once, in `session`; a key that
//! is prefixed twice is unknown to the provider and accepted in silence.

#![expect(unsafe_code, reason = "the safe wrapper does not cover this part of ONNX Runtime's interface")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr;

use ort::AsPointer;
use ort::device::Device;
use ort::environment::Environment;
use ort::ep::coreml::{ComputeUnits, ModelFormat};
use ort::ep::{
    ArbitrarilyConfigurableExecutionProvider as _, CoreML, ExecutionProvider as _, ExecutionProviderDispatch,
    OpenVINO,
};
use ort::memory::DeviceType;
use ort::sys;
use siliconroute_core::chip::{ChipIdentity, ListedAdapter};
use siliconroute_core::{ChipKey, ChipKind, ProviderName, Reading, Target, TargetKey};

use super::reported::{ReportedDevice, Tie, is_passing};
use super::{ListAdapters, Plugin};
use crate::session::{Offer, one_line};

/// OpenVINO's registered name.
pub(super) const OPENVINO: &str = OpenVINO::NAME;
/// Core ML's registered name.
const COREML: &str = CoreML::NAME;

/// What the CPU can compute natively, as far as it decides which targets there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CpuFeatures {
    /// Whether the CPU multiplies bfloat16 natively.
    pub bf16: bool,
}

/// A target with what is needed to find its device again.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) offer: Offer,
    /// The provider's registered name, which prefixes its options.
    pub(super) registered_name: String,
    pub(super) access: Access,
    /// Windows' number of the adapter.
    pub(super) luid: Option<u64>,
    pub(super) quirks: Quirks,
}

/// How a session is put onto a target's device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// By the device's position in the environment's list.
    Device(usize),
    /// By the provider's name, for providers that are older than the list of devices.
    Name,
}

/// What a provider needs beyond its options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Quirks {
    /// Compiles for one set of shapes: free dimensions are fixed when the session is made.
    pub(super) static_shapes: bool,
    /// Refuses sessions with memory patterns or with operators side by side.
    pub(super) one_operator_at_a_time: bool,
    /// Crashes when two sessions are used at once.
    pub(super) one_at_a_time: bool,
    /// Knows its adapter by the position in DXGI's list, which is looked up when the session is made.
    pub(super) by_dxgi_position: bool,
}

/// A fixed set of options that makes a target of its own.
#[derive(Debug, PartialEq, Eq)]
struct Variant {
    name: Option<&'static str>,
    options: Vec<(&'static str, String)>,
}

/// Registers `plugins` and turns every device into its targets; what fails is listed with its reason.
pub(super) fn register_and_list(
    environment: &Environment,
    version: &str,
    plugins: &[Plugin],
    built_in: &[String],
    cpu: CpuFeatures,
    adapters: ListAdapters,
) -> (Vec<Configured>, Vec<Offer>) {
    let mut chips = Chips { list: adapters, listed: None };
    let mut configured = list(environment, 0, version, cpu, &mut chips);
    configured.extend(list_by_name(&configured, version, built_in, cpu));
    let offered = |name: &str| configured.iter().any(|entry| entry.registered_name == name);
    let mut refused = refuse_unlisted(built_in, offered, version);
    for plugin in plugins {
        let known = environment.devices().count();
        if let Err(error) = environment.register_ep_library(plugin.name.clone(), &plugin.library) {
            let reason = format!("the plugin does not register: {}", one_line(&error));
            refused.push(refuse(&plugin.name, &plugin.version, &reason));
            continue;
        }
        let offers = list(environment, known, &plugin.version, cpu, &mut chips);
        if offers.is_empty() {
            let reason = "the plugin registers, but finds no device that it supports";
            refused.push(refuse(&plugin.name, &plugin.version, reason));
        }
        configured.extend(offers);
    }
    (configured, refused)
}

/// The system's adapters, listed when the first device is met that is no CPU.
struct Chips {
    list: ListAdapters,
    listed: Option<Reading<Vec<ListedAdapter>>>,
}

impl Chips {
    fn tie(&mut self, device: &ReportedDevice) -> Tie {
        if device.kind == ChipKind::Cpu {
            return device.chip(&Reading::Available(Vec::new()));
        }
        device.chip(self.listed.get_or_insert_with(self.list))
    }
}

/// The targets of the environment's devices from position `from` on.
fn list(
    environment: &Environment,
    from: usize,
    version: &str,
    cpu: CpuFeatures,
    chips: &mut Chips,
) -> Vec<Configured> {
    let mut configured: Vec<Configured> = Vec::new();
    for (device_index, device) in environment.devices().enumerate().skip(from) {
        let Ok(registered_name) = device.ep() else { continue };
        // Virtual devices of the form `Provider.AUTO` choose among chips themselves, which is the router's work.
        if registered_name.contains('.') {
            continue;
        }
        let provider = ProviderName::parse(registered_name);
        let (reported, metadata) = describe(&device);
        let Tie { kind, chip, unclear } = chips.tie(&reported);
        for variant in variants(provider.as_str(), kind, cpu) {
            let access = Access::Device(device_index);
            let mut entry =
                configure(registered_name, version, kind, &chip, variant, access, metadata.clone());
            entry.luid = reported.luid();
            entry.offer.unavailable.clone_from(&unclear);
            if configured.iter().all(|other| other.offer.target.key != entry.offer.target.key) {
                configured.push(entry);
            }
        }
    }
    configured
}

/// The targets of compiled-in providers that the library does not list as devices.
fn list_by_name(
    listed: &[Configured],
    version: &str,
    built_in: &[String],
    cpu: CpuFeatures,
) -> Vec<Configured> {
    let mut configured = Vec::new();
    for name in built_in.iter().filter(|name| listed.iter().all(|entry| entry.registered_name != **name)) {
        let available = match name.as_str() {
            OPENVINO => OpenVINO::is_available(),
            COREML => CoreML::is_available(),
            _ => continue,
        };
        if !available.unwrap_or(false) {
            continue;
        }
        for place in places_by_name(name) {
            for mut variant in variants(ProviderName::parse(name).as_str(), place.kind, cpu) {
                variant.options.extend(place.options.clone());
                let entry =
                    configure(name, version, place.kind, &place.chip, variant, Access::Name, BTreeMap::new());
                configured.push(entry);
            }
        }
    }
    configured
}

/// A chip that a provider can be put onto by name and options alone.
struct Place {
    kind: ChipKind,
    chip: ChipKey,
    options: Vec<(&'static str, String)>,
}

/// Where a provider of that name runs for certain. A GPU or NPU behind any other name could be any one.
fn places_by_name(registered_name: &str) -> Vec<Place> {
    match registered_name {
        OPENVINO => vec![Place {
            kind: ChipKind::Cpu,
            chip: ChipKey::cpu(),
            options: vec![("device_type", "CPU".to_owned())],
        }],
        // Apple's processors have one GPU and one Neural Engine. Core ML leaves to the CPU what they cannot compute,
        // and does not tell.
        COREML => {
            [(ChipKind::Gpu, ComputeUnits::CPUAndGPU), (ChipKind::Npu, ComputeUnits::CPUAndNeuralEngine)]
                .into_iter()
                .map(|(kind, units)| Place {
                    kind,
                    chip: ChipIdentity { bus_address: Some("soc".to_owned()), ..ChipIdentity::default() }
                        .key(kind),
                    options: vec![
                        ("MLComputeUnits", units.to_string()),
                        ("ModelFormat", ModelFormat::MLProgram.to_string()),
                    ],
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A provider to be put into a session by its name.
pub(super) fn provider_by_name(
    registered_name: &str,
    options: &BTreeMap<String, String>,
) -> ExecutionProviderDispatch {
    macro_rules! with_options {
        ($provider:ty) => {{
            let provider = <$provider>::default();
            options
                .iter()
                .fold(provider, |provider, (key, value)| provider.with_arbitrary_config(key, value))
                .build()
        }};
    }
    let provider = if registered_name == COREML { with_options!(CoreML) } else { with_options!(OpenVINO) };
    provider.error_on_failure()
}

/// The built-in providers of which nothing was `offered`, with the reason, since their package was installed for them.
fn refuse_unlisted(built_in: &[String], offered: impl Fn(&str) -> bool, version: &str) -> Vec<Offer> {
    let unlisted = built_in.iter().filter(|name| !offered(name));
    let reason = "the runtime library lists no device for this provider: its driver or its libraries are missing here, \
         or this build cannot name devices";
    unlisted.map(|name| refuse(name, version, reason)).collect()
}

fn configure(
    registered_name: &str,
    version: &str,
    kind: ChipKind,
    chip: &ChipKey,
    variant: Variant,
    access: Access,
    device: BTreeMap<String, String>,
) -> Configured {
    let provider = ProviderName::parse(registered_name);
    let target = Target {
        key: TargetKey::new(chip, &provider, variant.name),
        provider_version: version.to_owned(),
        chip: chip.clone(),
        chip_kind: kind,
        options: variant.options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        provider,
    };
    Configured {
        quirks: quirks(target.provider.as_str()),
        offer: Offer { target, device, unavailable: None },
        registered_name: registered_name.to_owned(),
        access,
        luid: None,
    }
}

fn refuse(registered_name: &str, version: &str, reason: &str) -> Offer {
    let provider = ProviderName::parse(registered_name);
    let target = Target {
        key: TargetKey(format!("*/{provider}")),
        provider,
        provider_version: version.to_owned(),
        chip: ChipKey("*".to_owned()),
        chip_kind: ChipKind::Cpu,
        options: BTreeMap::new(),
    };
    Offer { target, device: BTreeMap::new(), unavailable: Some(reason.to_owned()) }
}

/// The option sets under which a provider is a target of its own on a chip of `kind`.
fn variants(provider: &str, kind: ChipKind, cpu: CpuFeatures) -> Vec<Variant> {
    let plain = |options| Variant { name: None, options };
    match (provider, kind) {
        // The provider's `precision` option has no effect; an inline configuration does.
        ("openvino", ChipKind::Cpu) => {
            let config = |precision: &str| {
                let json =
                    format!(r#"{{"CPU":{{"INFERENCE_PRECISION_HINT":"{precision}","NUM_STREAMS":"1"}}}}"#);
                vec![("load_config", json)]
            };
            let mut variants = vec![plain(config("f32"))];
            if cpu.bf16 {
                variants.push(Variant { name: Some("bf16"), options: config("bf16") });
            }
            variants
        }
        ("openvino", ChipKind::Gpu) => {
            let config = |precision: &str| {
                vec![("load_config", format!(r#"{{"GPU":{{"INFERENCE_PRECISION_HINT":"{precision}"}}}}"#))]
            };
            vec![plain(config("f32")), Variant { name: Some("f16"), options: config("f16") }]
        }
        ("qnn", kind) => qnn_variants(kind, cfg!(target_arch = "x86_64")),
        _ => vec![plain(Vec::new())],
    }
}

/// QNN's back ends. The provider computes on the one that it is told, whichever device it was given.
///
/// On x86 the library of the NPU is an imitation that runs on the CPU; elsewhere a CPU device with that library would
/// be the NPU under another name, and the package brings no library for the CPU.
fn qnn_variants(kind: ChipKind, imitated: bool) -> Vec<Variant> {
    let backend = |name: &str| ("backend_type", name.to_owned());
    match kind {
        ChipKind::Npu => vec![
            Variant { name: None, options: vec![backend("htp")] },
            // The NPU's usual clocks are those of a power saver.
            Variant {
                name: Some("burst"),
                options: vec![backend("htp"), ("htp_performance_mode", "burst".to_owned())],
            },
        ],
        ChipKind::Gpu => vec![Variant { name: None, options: vec![backend("gpu")] }],
        ChipKind::Cpu if imitated => vec![Variant { name: None, options: vec![backend("htp")] }],
        ChipKind::Cpu => Vec::new(),
    }
}

fn quirks(provider: &str) -> Quirks {
    Quirks {
        static_shapes: provider == "qnn",
        one_operator_at_a_time: provider == "dml",
        one_at_a_time: provider == "webgpu",
        by_dxgi_position: provider == "dml",
    }
}

/// What the engine says of a device: what identifies its chip, and everything that lasts.
fn describe(device: &Device<'_>) -> (ReportedDevice, BTreeMap<String, String>) {
    let hardware = device.hardware_device();
    let kind = match hardware.ty() {
        DeviceType::GPU => ChipKind::Gpu,
        DeviceType::NPU => ChipKind::Npu,
        DeviceType::CPU | DeviceType::FPGA => ChipKind::Cpu,
    };
    // SAFETY: the pointer comes from a device that the environment, which outlives this call, owns.
    let vendor_id = unsafe { (ort::api().HardwareDevice_VendorId)(hardware.ptr()) };
    // SAFETY: as above; the returned list belongs to the device.
    let hardware_metadata = unsafe { (ort::api().HardwareDevice_Metadata)(hardware.ptr()) };
    // SAFETY: as above, for the provider's device.
    let provider_metadata = unsafe { (ort::api().EpDevice_EpMetadata)(device.ptr()) };
    // SAFETY: both lists were just handed out by the devices above and stay valid while those live.
    let (of_hardware, of_provider) =
        unsafe { (key_values(hardware_metadata), key_values(provider_metadata)) };
    let mut metadata = BTreeMap::new();
    for (prefix, pairs) in [("hardware", &of_hardware), ("provider", &of_provider)] {
        let lasting = pairs.iter().filter(|(key, _)| !is_passing(key));
        metadata.extend(lasting.map(|(key, value)| (format!("{prefix}.{key}"), value.clone())));
    }
    metadata.insert("vendor_id".to_owned(), format!("{vendor_id:04x}"));
    metadata.insert("device_id".to_owned(), format!("{:04x}", hardware.id()));
    if let Ok(vendor) = hardware.vendor() {
        metadata.insert("vendor".to_owned(), vendor.to_owned());
    }
    let reported = ReportedDevice { kind, vendor_id, device_id: hardware.id(), hardware: of_hardware };
    (reported, metadata)
}

/// Copies a list of keys and values.
///
/// # Safety
/// `list` must be null or a list that ONNX Runtime handed out and still owns.
unsafe fn key_values(list: *const sys::OrtKeyValuePairs) -> BTreeMap<String, String> {
    if list.is_null() {
        return BTreeMap::new();
    }
    let (mut keys, mut values, mut count) = (ptr::null(), ptr::null(), 0_usize);
    // SAFETY: the list is valid by this function's contract, the other arguments are places to write to.
    unsafe { (ort::api().GetKeyValuePairs)(list, &raw mut keys, &raw mut values, &raw mut count) };
    let text = |array: *const *const std::ffi::c_char, index: usize| {
        // SAFETY: ONNX Runtime filled both arrays with `count` strings that end in a zero byte.
        let text = unsafe { CStr::from_ptr(*array.add(index)) };
        text.to_string_lossy().into_owned()
    };
    (0..count).map(|index| (text(keys, index), text(values, index))).collect()
}

#[cfg(test)]
mod tests;
