//! What Windows' answers mean: power status, adapters, device ids, version names.
//!
//! Invariant: pure; the answers come from `os::windows` or from a test.

use siliconroute_core::chip::ChipIdentity;
use siliconroute_core::{ChipKind, Reading};

use crate::chips::Adapter;
use crate::conditions::PowerSource;
use crate::processor::clean_spaces;

/// Microsoft's ids of its software adapter.
const SOFTWARE_ADAPTER: (u32, u32) = (0x1414, 0x8c);
/// `DXGI_ADAPTER_FLAG_SOFTWARE`.
const SOFTWARE_FLAG: u32 = 2;
/// The first build that is called Windows 11; the registry's product name still says 10.
const WINDOWS_11_BUILD: u32 = 22_000;

/// Interprets a `SYSTEM_POWER_STATUS`.
pub(crate) fn power_status(line: u8, flag: u8, percent: u8) -> (Reading<PowerSource>, Reading<f64>) {
    let source = match line {
        0 => Reading::Available(PowerSource::Battery),
        1 => Reading::Available(PowerSource::Ac),
        _ => Reading::unavailable("Windows does not know the power source"),
    };
    let charge = match (flag, percent) {
        (255, _) => Reading::unavailable("Windows does not know the battery"),
        (flag, _) if flag & 128 != 0 => Reading::unavailable("no battery, says Windows"),
        (_, 0..=100) => Reading::Available(f64::from(percent)),
        _ => Reading::unavailable("Windows does not know the battery's charge"),
    };
    (source, charge)
}

/// The name that a user would give the system, such as `Windows 11 Pro 24H2 (build 26100)`.
pub(crate) fn system_name(product: &str, release: Option<&str>, build: Option<&str>) -> String {
    let eleven =
        build.and_then(|build| build.parse::<u32>().ok()).is_some_and(|build| build >= WINDOWS_11_BUILD);
    let client = product.starts_with("Windows 10");
    let mut name = if eleven && client { product.replacen("10", "11", 1) } else { product.to_owned() };
    if let Some(release) = release {
        name = format!("{name} {release}");
    }
    match build {
        Some(build) => format!("{name} (build {build})"),
        None => name,
    }
}

/// An adapter as DXGI describes it.
#[derive(Debug, Clone)]
pub(crate) struct DxgiAdapter {
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
}

/// Describes the adapter in the project's words.
pub(crate) fn describe_adapter(adapter: &DxgiAdapter, position: usize) -> Adapter {
    let end = adapter.description.iter().position(|unit| *unit == 0).unwrap_or(adapter.description.len());
    let software = adapter.flags & SOFTWARE_FLAG != 0 || (adapter.vendor, adapter.device) == SOFTWARE_ADAPTER;
    Adapter {
        kind: ChipKind::Gpu,
        name: clean_spaces(&String::from_utf16_lossy(&adapter.description[..end])),
        vendor: vendor_letters(adapter.vendor),
        identity: ChipIdentity {
            pci_vendor: u16::try_from(adapter.vendor).ok().filter(|id| *id != 0),
            pci_device: u16::try_from(adapter.device).ok(),
            pci_subsystem: Some(adapter.subsystem).filter(|id| *id != 0),
            bus_address: adapter
                .place
                .filter(|_| !software)
                .map(|(bus, device, function)| bus_address(bus, device, function)),
            luid: Some(adapter.luid),
            uuid: None,
        },
        memory_bytes: Some(adapter.dedicated_bytes),
        software,
        driver: adapter.driver.map(version_text),
        source: format!("DXGI adapter {position}"),
    }
}

/// Adapters that are not on PCI carry the four letters of an ACPI vendor in place of the number.
fn vendor_letters(vendor: u32) -> Option<String> {
    if u16::try_from(vendor).is_ok() {
        return None;
    }
    let letters = vendor.to_le_bytes();
    if !letters.iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let letters: String = letters.iter().map(|byte| char::from(*byte)).collect();
    Some(if letters == "QCOM" { "Qualcomm".to_owned() } else { letters })
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

/// A device that the Plug and Play manager lists as a compute accelerator.
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
}

/// Describes an NPU in the project's words.
pub(crate) fn describe_npu(device: &PnpDevice) -> Adapter {
    let id = device.instance.split('\\').nth(1).unwrap_or_default().to_uppercase();
    let part = |key: &str, digits: usize| {
        let (_, rest) = id.split_once(key)?;
        u32::from_str_radix(rest.get(..digits)?, 16).ok()
    };
    let short = |key: &str| part(key, 4).and_then(|id| u16::try_from(id).ok());
    let on_pci = device.instance.get(..4).is_some_and(|bus| bus.eq_ignore_ascii_case("PCI\\"));
    let place = match (on_pci, device.bus, device.address) {
        (true, Some(bus), Some(address)) => bus_address(bus, address >> 16, address & 0xffff),
        // The instance id holds until Windows is installed anew, unlike any number of the adapter.
        _ => device.instance.to_lowercase().replace('\\', "/"),
    };
    Adapter {
        kind: ChipKind::Npu,
        name: device.name.as_deref().and_then(clean_spaces),
        vendor: device.maker.as_deref().and_then(clean_spaces),
        identity: ChipIdentity {
            pci_vendor: short("VEN_").filter(|_| on_pci),
            pci_device: short("DEV_").filter(|_| on_pci),
            pci_subsystem: part("SUBSYS_", 8).filter(|_| on_pci),
            bus_address: Some(place),
            luid: None,
            uuid: None,
        },
        memory_bytes: None,
        software: false,
        driver: device.driver_version.clone(),
        source: device.instance.clone(),
    }
}

/// The schemes that every Windows has, by the first part of their id; others go by their own name.
pub(crate) fn scheme_name(first_part: u32, own_name: Option<String>) -> String {
    match (first_part, own_name) {
        (0x381b_4222, _) => "balanced".to_owned(),
        (0x8c5e_7fda, _) => "high performance".to_owned(),
        (0xa184_1308, _) => "power saver".to_owned(),
        (0xe9a4_2b02, _) => "ultimate performance".to_owned(),
        (_, Some(name)) => name,
        (id, None) => format!("scheme {id:08x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_statuses_are_told_apart() {
        #[track_caller]
        fn check(status: (u8, u8, u8), source: Option<PowerSource>, percent: Option<f64>) {
            let (found, charge) = power_status(status.0, status.1, status.2);
            assert_eq!((found.available().copied(), charge.available().copied()), (source, percent));
        }
        check((1, 9, 93), Some(PowerSource::Ac), Some(93.0));
        check((0, 1, 12), Some(PowerSource::Battery), Some(12.0));
        check((1, 128, 255), Some(PowerSource::Ac), None);
        check((255, 255, 255), None, None);
        check((0, 0, 255), Some(PowerSource::Battery), None);
    }

    #[test]
    fn windows_11_is_told_by_its_build() {
        #[track_caller]
        fn check(product: &str, release: Option<&str>, build: Option<&str>, expected: &str) {
            assert_eq!(system_name(product, release, build), expected);
        }
        check("Windows 10 Pro", Some("24H2"), Some("26100"), "Windows 11 Pro 24H2 (build 26100)");
        check("Windows 10 Home", Some("22H2"), Some("19045"), "Windows 10 Home 22H2 (build 19045)");
        check(
            "Windows Server 2025 Standard",
            None,
            Some("26100"),
            "Windows Server 2025 Standard (build 26100)",
        );
        check("Windows 10", None, None, "Windows 10");
    }

    fn dxgi(name: &str, vendor: u32, device: u32) -> DxgiAdapter {
        let mut description: Vec<u16> = name.encode_utf16().collect();
        description.resize(128, 0);
        DxgiAdapter {
            description,
            vendor,
            device,
            subsystem: 0x3c9d_17aa,
            dedicated_bytes: 8 << 30,
            luid: 0x1_0000_d2f3,
            flags: 0,
            driver: Some(0x0020_0000_000f_183b),
            place: Some((1, 0, 0)),
        }
    }

    #[test]
    fn adapters_are_described() {
        let adapter = describe_adapter(&dxgi("NVIDIA GeForce RTX 5070 Laptop GPU", 0x10de, 0x2d18), 0);
        assert_eq!(adapter.identity.key(ChipKind::Gpu).as_str(), "gpu:10de:2d18@0000:01:00.0");
        assert_eq!(adapter.driver.as_deref(), Some("32.0.15.6203"));
        assert!(!adapter.software);
        let basic = describe_adapter(&dxgi("Microsoft Basic Render Driver", 0x1414, 0x8c), 1);
        assert!(basic.software);
        let adreno =
            describe_adapter(&DxgiAdapter { place: None, ..dxgi("Adreno", 0x4d4f_4351, 0x3637_4330) }, 2);
        assert_eq!(adreno.vendor.as_deref(), Some("Qualcomm"));
        assert_eq!(adreno.identity.key(ChipKind::Gpu).as_str(), "gpu@luid-10000d2f3");
    }

    #[test]
    fn npus_are_described() {
        let device = PnpDevice {
            instance: "PCI\\VEN_8086&DEV_7D1D&SUBSYS_3C9D17AA&REV_04\\3&11583659&0&58".to_owned(),
            name: Some("Intel(R) AI Boost".to_owned()),
            bus: Some(0),
            address: Some(0xb_0000),
            ..PnpDevice::default()
        };
        let npu = describe_npu(&device);
        assert_eq!(npu.identity.key(ChipKind::Npu).as_str(), "npu:8086:7d1d@0000:00:0b.0");
        assert_eq!(npu.identity.pci_subsystem, Some(0x3c9d_17aa));
        let device = PnpDevice { instance: "ACPI\\QCOM0D0A\\2&DABA3FF&0".to_owned(), ..PnpDevice::default() };
        assert_eq!(
            describe_npu(&device).identity.key(ChipKind::Npu).as_str(),
            "npu@acpi/qcom0d0a/2&daba3ff&0"
        );
        for instance in ["", "\\", "PCI\\VEN_", "PCI\\VEN_é086&DEV_12", "é"] {
            describe_npu(&PnpDevice { instance: instance.to_owned(), ..PnpDevice::default() });
        }
    }

    #[test]
    fn schemes_have_names() {
        assert_eq!(scheme_name(0x381b_4222, Some("Ausbalanciert".to_owned())), "balanced");
        assert_eq!(scheme_name(7, Some("Mine".to_owned())), "Mine");
        assert_eq!(scheme_name(7, None), "scheme 00000007");
    }

    #[test]
    fn segments_reach_the_address() {
        assert_eq!(bus_address(0x1_0003, 31, 7), "0100:03:1f.7");
    }
}
