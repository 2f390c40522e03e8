//! Windows' GPUs and NPUs: what DXGI, the display kernel and the Plug and Play manager tell, put together.
//!
//! Invariant: pure. What lasts over a restart (ids, place, instance) makes the identity; the LUID and the position
//! in DXGI's list are told beside it and never decide which chip it is.

use siliconroute_core::chip::{ChipIdentity, ListedAdapter};
use siliconroute_core::{ChipKind, Reading};

use crate::chips::{Adapter, Gap, listed};
use crate::processor::clean_spaces;

/// Microsoft's ids of its software adapter.
const SOFTWARE_ADAPTER: (u32, u32) = (0x1414, 0x8c);
/// Its name, which it also has where a wrapper gives it other ids.
const SOFTWARE_NAME: &str = "Microsoft Basic Render Driver";
/// `DXGI_ADAPTER_FLAG_REMOTE`.
const REMOTE_FLAG: u32 = 1;
/// `DXGI_ADAPTER_FLAG_SOFTWARE`.
const SOFTWARE_FLAG: u32 = 2;
/// Makers whose compute accelerators are GPUs without a display, by their PCI vendor ids.
const GPU_MAKERS: [u16; 2] = [0x10de, 0x1002];

/// An adapter as DXGI and the display kernel describe it.
#[derive(Debug, Clone, Default)]
pub(crate) struct DxgiAdapter {
    /// Where DXGI lists it.
    pub(crate) position: u32,
    pub(crate) description: Vec<u16>,
    pub(crate) vendor: u32,
    pub(crate) device: u32,
    pub(crate) subsystem: u32,
    pub(crate) dedicated_bytes: u64,
    pub(crate) luid: u64,
    pub(crate) flags: u32,
    /// The version of the user-mode driver, 16 bits for each part.
    pub(crate) driver: Option<i64>,
    /// Bus, device and function.
    pub(crate) place: Option<(u32, u32, u32)>,
    /// The registry key of the device, as the kernel writes it.
    pub(crate) registry_key: Option<String>,
}

/// A device that the Plug and Play manager lists as a display or as a compute accelerator.
#[derive(Debug, Clone, Default)]
pub(crate) struct PnpDevice {
    /// Its instance id, such as `PCI\VEN_8086&DEV_7D1D&SUBSYS_3C9D17AA&REV_04\3&11583659&0&58`.
    pub(crate) instance: String,
    pub(crate) name: Option<String>,
    pub(crate) maker: Option<String>,
    pub(crate) driver_version: Option<String>,
    pub(crate) bus: Option<u32>,
    /// Device in the upper, function in the lower half.
    pub(crate) address: Option<u32>,
    /// Why Windows does not run it, by the number that the device manager shows.
    pub(crate) problem: Option<u32>,
}

/// What Windows answers about its adapters.
#[derive(Debug, Clone)]
pub(crate) struct AdapterAnswers {
    pub(crate) dxgi: Reading<Vec<DxgiAdapter>>,
    pub(crate) displays: Reading<Vec<PnpDevice>>,
    pub(crate) accelerators: Reading<Vec<PnpDevice>>,
}

impl AdapterAnswers {
    /// The adapters, in DXGI's order and then those without a display; and for each kind why there might be none.
    pub(crate) fn adapters(&self) -> (Vec<Adapter>, Vec<Gap>) {
        let displays = self.displays.available().map(Vec::as_slice).unwrap_or_default();
        let gpus = self.dxgi.available().into_iter().flatten();
        let accelerators = self.accelerators.available().map(Vec::as_slice).unwrap_or_default();
        let running = accelerators.iter().filter(|device| device.problem.is_none());
        let adapters = gpus
            .filter_map(|adapter| describe_adapter(adapter, displays))
            .chain(running.map(describe_accelerator));
        let gaps = vec![
            Gap {
                kind: ChipKind::Gpu,
                reason: gap_reason(&self.dxgi, "DXGI lists no adapter", displays),
                source: "DXGI".to_owned(),
            },
            Gap {
                kind: ChipKind::Npu,
                reason: gap_reason(
                    &self.accelerators,
                    "no NPU in Windows' device class ComputeAccelerator",
                    accelerators,
                ),
                source: "Plug and Play".to_owned(),
            },
        ];
        (adapters.collect(), gaps)
    }

    /// The adapters with their chips; unavailable where DXGI has not answered, since its numbers are then unknown.
    pub(crate) fn listed(&self) -> Reading<Vec<ListedAdapter>> {
        match &self.dxgi {
            Reading::Available(_) => Reading::Available(listed(self.adapters().0)),
            Reading::Unavailable(reason) => Reading::Unavailable(reason.clone()),
        }
    }
}

/// Why nothing was found, with the devices that are there and do not run.
fn gap_reason<T>(answer: &Reading<T>, otherwise: &str, devices: &[PnpDevice]) -> String {
    let reason = match answer {
        Reading::Available(_) => otherwise,
        Reading::Unavailable(reason) => reason,
    };
    let problems = devices.iter().filter_map(|device| {
        let problem = device.problem?;
        let meaning = match problem {
            10 => " (it cannot start)",
            22 => " (it is disabled)",
            28 => " (it has no driver)",
            43 => " (its driver has stopped it)",
            45 => " (it is not connected)",
            _ => "",
        };
        let name = device.name.as_deref().unwrap_or(&device.instance);
        Some(format!("Windows reports problem {problem}{meaning} with {name}"))
    });
    std::iter::once(reason.to_owned()).chain(problems).collect::<Vec<_>>().join("; ")
}

/// Describes the adapter in the project's words; `None` for one that shows pictures of another machine.
fn describe_adapter(adapter: &DxgiAdapter, displays: &[PnpDevice]) -> Option<Adapter> {
    if adapter.flags & REMOTE_FLAG != 0 {
        return None;
    }
    let end = adapter.description.iter().position(|unit| *unit == 0).unwrap_or(adapter.description.len());
    let name = clean_spaces(&String::from_utf16_lossy(&adapter.description[..end]));
    let software = adapter.flags & SOFTWARE_FLAG != 0
        || (adapter.vendor, adapter.device) == SOFTWARE_ADAPTER
        || name.as_deref() == Some(SOFTWARE_NAME);
    let ids = ChipIdentity::of_ids(adapter.vendor, adapter.device);
    let device = device_of(adapter, &ids, displays).filter(|_| !software);
    let place = adapter.place.map(|(bus, device, function)| bus_address(bus, device, function));
    let told_key = adapter.registry_key.as_deref().and_then(instance_of_key);
    let instance = device.map(|device| device.instance.clone()).or(told_key).filter(|_| !software);
    Some(Adapter {
        kind: ChipKind::Gpu,
        name: name.or_else(|| device?.name.as_deref().and_then(clean_spaces)),
        vendor: ids.acpi_id.as_deref().map(acpi_maker),
        identity: ChipIdentity {
            pci_subsystem: Some(adapter.subsystem).filter(|id| *id != 0),
            bus_address: place.or_else(|| device?.place()).filter(|_| !software),
            instance,
            luid: Some(adapter.luid),
            ..ids
        },
        memory_bytes: Some(adapter.dedicated_bytes),
        software,
        driver: adapter.driver.map(version_text).or_else(|| device?.driver_version.clone()),
        source: format!("DXGI adapter {}", adapter.position),
        position: Some(adapter.position),
    })
}

/// The device behind an adapter: by its registry key, by its place, or as the only one with its ids.
fn device_of<'d>(
    adapter: &DxgiAdapter,
    ids: &ChipIdentity,
    displays: &'d [PnpDevice],
) -> Option<&'d PnpDevice> {
    let instance = adapter.registry_key.as_deref().and_then(instance_of_key);
    let by_key = displays
        .iter()
        .find(|device| instance.as_ref().is_some_and(|told| told.eq_ignore_ascii_case(&device.instance)));
    let place = adapter.place.map(|(bus, device, function)| bus_address(bus, device, function));
    let by_place = || displays.iter().find(|device| place.is_some() && device.place() == place);
    let by_ids = || {
        let mut of_design = displays.iter().filter(|device| {
            let told = identity_of_instance(&device.instance);
            let subsystem =
                told.pci_subsystem.is_none_or(|id| adapter.subsystem == 0 || id == adapter.subsystem);
            told.has_ids_of(ids) && subsystem
        });
        of_design.next().filter(|_| of_design.next().is_none())
    };
    by_key.or_else(by_place).or_else(by_ids)
}

impl PnpDevice {
    /// Its address on the PCI bus.
    fn place(&self) -> Option<String> {
        let (bus, address) = self.bus.zip(self.address).filter(|_| is_on_pci(&self.instance))?;
        Some(bus_address(bus, address >> 16, address & 0xffff))
    }
}

/// Describes an NPU, or a GPU that only computes, in the project's words.
fn describe_accelerator(device: &PnpDevice) -> Adapter {
    let identity = identity_of_instance(&device.instance);
    let has_ids = identity.pci_vendor.is_some() || identity.acpi_id.is_some();
    // A device without ids is known by its instance, which holds until Windows is installed anew.
    let place =
        device.place().or_else(|| (!has_ids).then(|| device.instance.to_lowercase().replace('\\', "/")));
    let is_gpu = identity.pci_vendor.is_some_and(|vendor| GPU_MAKERS.contains(&vendor));
    Adapter {
        kind: if is_gpu { ChipKind::Gpu } else { ChipKind::Npu },
        name: device.name.as_deref().and_then(clean_spaces),
        vendor: identity
            .acpi_id
            .as_deref()
            .map(acpi_maker)
            .or_else(|| device.maker.as_deref().and_then(clean_spaces)),
        identity: ChipIdentity { bus_address: place, instance: Some(device.instance.clone()), ..identity },
        memory_bytes: None,
        software: false,
        driver: device.driver_version.clone(),
        source: device.instance.clone(),
        position: None,
    }
}

fn is_on_pci(instance: &str) -> bool {
    instance.get(..4).is_some_and(|bus| bus.eq_ignore_ascii_case("PCI\\"))
}

/// The ids in an instance id: `PCI\VEN_8086&DEV_7D1D&SUBSYS_…`, `ACPI\VEN_QCOM&DEV_0C36&…` or `ACPI\QCOM0D0A\…`.
fn identity_of_instance(instance: &str) -> ChipIdentity {
    let id = instance.split('\\').nth(1).unwrap_or_default().to_uppercase();
    let part = |key: &str, digits: usize| id.split_once(key)?.1.get(..digits).map(str::to_owned);
    if is_on_pci(instance) {
        let number = |key: &str, digits| u32::from_str_radix(&part(key, digits)?, 16).ok();
        let ids = ChipIdentity::of_ids(number("VEN_", 4).unwrap_or(0), number("DEV_", 4).unwrap_or(0));
        return ChipIdentity { pci_subsystem: number("SUBSYS_", 8), ..ids };
    }
    let plain =
        |text: &String| (7..=8).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    let on_acpi = instance.get(..5).is_some_and(|bus| bus.eq_ignore_ascii_case("ACPI\\"));
    let parts = part("VEN_", 4).zip(part("DEV_", 4)).map(|(vendor, device)| vendor + &device);
    ChipIdentity { acpi_id: parts.or(Some(id)).filter(plain).filter(|_| on_acpi), ..ChipIdentity::default() }
}

/// The instance id in the registry key of a device, such as
/// `\Registry\Machine\System\CurrentControlSet\Enum\PCI\VEN_10DE&DEV_2D18&…\4&17F0A2C3&0&0008\Device Parameters`.
pub(crate) fn instance_of_key(key: &str) -> Option<String> {
    let mut parts = key.split('\\').skip_while(|part| !part.eq_ignore_ascii_case("Enum")).skip(1);
    let instance = [parts.next()?, parts.next()?, parts.next()?];
    instance.iter().all(|part| !part.is_empty()).then(|| instance.join("\\"))
}

/// The place by which a chip's counters are found: its PCI address, else its instance.
pub(crate) fn place_text(place: Option<(u32, u32, u32)>, registry_key: Option<&str>) -> Option<String> {
    place
        .map(|(bus, device, function)| bus_address(bus, device, function))
        .or_else(|| instance_of_key(registry_key?))
}

/// The maker behind an ACPI id, whose first letters are its own.
fn acpi_maker(id: &str) -> String {
    let letters: String = id.chars().take(4).collect();
    if letters == "QCOM" { "Qualcomm".to_owned() } else { letters }
}

/// A PCI address; Windows keeps the segment in the upper bits of the bus number.
pub(crate) fn bus_address(bus: u32, device: u32, function: u32) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", bus >> 8 & 0xffff, bus & 0xff, device & 0x1f, function & 7)
}

/// A version such as `31.0.101.5590` from its four 16-bit parts.
fn version_text(version: i64) -> String {
    let bits = version as u64;
    [48, 32, 16, 0].map(|shift| (bits >> shift & 0xffff).to_string()).join(".")
}

#[cfg(test)]
mod tests;
