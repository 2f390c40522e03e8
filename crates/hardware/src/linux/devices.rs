//! GPUs and NPUs from `/sys/class`, and what NVIDIA's driver tells in `/proc`.
//!
//! Invariant: a device is found through its driver's class, and named by what sits on its bus.

use std::path::{Path, PathBuf};
use std::time::Duration;

use siliconroute_core::chip::ChipIdentity;
use siliconroute_core::{ChipKey, ChipKind, Reading};

use super::driver_files::TIME_LIMIT;
use super::machine::field;
use crate::chips::{Adapter, Gap};
use crate::guard::Watched;
use crate::pci::{PciNames, marketing_name};
use crate::processor::clean_spaces;
use crate::roots::{Roots, list_names, list_numbered, read_number, read_text, read_word};

/// More adapters than any machine holds; bounds the work on a made-up tree.
const ADAPTER_LIMIT: usize = 256;

/// Drivers whose pictures are drawn by the CPU, or that only show what others drew.
const SOFTWARE_DRIVERS: [&str; 17] = [
    "simple-framebuffer",
    "simpledrm",
    "efi-framebuffer",
    "efidrm",
    "vesadrm",
    "ofdrm",
    "vgem",
    "vkms",
    "bochs-drm",
    "cirrus",
    "qxl",
    "virtio_gpu",
    "virtio-pci",
    "vmwgfx",
    "hyperv_drm",
    "ast",
    "mgag200",
];

/// Finds the adapters, and says why where a kind was not found.
pub(crate) fn find_adapters(roots: &Roots) -> (Vec<Adapter>, Vec<Gap>) {
    find_adapters_within(roots, TIME_LIMIT)
}

/// The same, where NVIDIA's driver has `limit` to answer.
pub(crate) fn find_adapters_within(roots: &Roots, limit: Duration) -> (Vec<Adapter>, Vec<Gap>) {
    let names = PciNames::new(roots);
    let mut adapters = Vec::new();
    let mut gaps = Vec::new();

    let drm = roots.sys.join("class/drm");
    let cards = list_numbered(&drm, "card");
    for card in cards.available().into_iter().flatten().take(ADAPTER_LIMIT) {
        let source = drm.join(card);
        adapters.extend(read_device(roots, &names, ChipKind::Gpu, &source));
    }
    let hangs = match nvidia_cards(roots, limit) {
        Reading::Available(cards) => {
            add_nvidia(roots, &names, cards, &mut adapters);
            None
        }
        Reading::Unavailable(reason) => Some(reason),
    };
    gaps.push(Gap {
        kind: ChipKind::Gpu,
        reason: if let Some(reason) = hangs {
            reason
        } else if roots.root.join("dev/dxg").exists() {
            "the GPU of WSL has no PCI device here; the provider that uses it has to name it".to_owned()
        } else {
            gap_reason(&drm, &cards, "GPU")
        },
        source: drm.display().to_string(),
    });

    let accel = roots.sys.join("class/accel");
    let nodes = list_numbered(&accel, "accel");
    for node in nodes.available().into_iter().flatten().take(ADAPTER_LIMIT) {
        adapters.extend(read_device(roots, &names, ChipKind::Npu, &accel.join(node)));
    }
    adapters.extend(fastrpc(roots));
    gaps.push(Gap {
        kind: ChipKind::Npu,
        reason: gap_reason(&accel, &nodes, "NPU"),
        source: accel.display().to_string(),
    });
    (adapters, gaps)
}

/// A node of a driver's class, with the device behind it.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) key: ChipKey,
    /// The node's folder, such as `/sys/class/drm/card0`.
    pub(crate) folder: PathBuf,
    /// The device's folder.
    pub(crate) device: PathBuf,
    pub(crate) driver: Option<String>,
    /// The PCI address, or the device's name on another bus.
    pub(crate) place: Option<String>,
}

/// Lists the nodes of GPUs and NPUs without looking up their names.
pub(crate) fn find_nodes(roots: &Roots) -> Vec<Node> {
    let classes = [(ChipKind::Gpu, "class/drm", "card"), (ChipKind::Npu, "class/accel", "accel")];
    let mut nodes = Vec::new();
    for (kind, class, prefix) in classes {
        let class = roots.sys.join(class);
        for name in list_numbered(&class, prefix).available().into_iter().flatten().take(ADAPTER_LIMIT) {
            let folder = class.join(name);
            let device = folder.join("device");
            let event = read_text(&device.join("uevent"));
            let event = Uevent(event.available().map(String::as_str).unwrap_or_default());
            let driver = driver_name(&device, &event);
            let identity = read_identity(&device, &event);
            if identity == ChipIdentity::default() && driver.is_none() {
                continue;
            }
            nodes.push(Node { key: identity.key(kind), folder, device, driver, place: identity.bus_address });
        }
    }
    nodes
}

fn driver_name(device: &Path, event: &Uevent<'_>) -> Option<String> {
    link_name(&device.join("driver")).or_else(|| event.value("DRIVER").map(str::to_owned))
}

fn gap_reason(folder: &Path, listed: &Reading<Vec<String>>, what: &str) -> String {
    match listed {
        Reading::Available(_) => format!("no {what} in {}", folder.display()),
        Reading::Unavailable(reason) => format!("no {what}: {reason}"),
    }
}

/// Reads the device behind a node of a class; `None` where the node has no device.
fn read_device(roots: &Roots, names: &PciNames<'_>, kind: ChipKind, node: &Path) -> Option<Adapter> {
    let device = node.join("device");
    let event = read_text(&device.join("uevent"));
    let event = Uevent(event.available().map(String::as_str).unwrap_or_default());
    let driver_name = driver_name(&device, &event);
    let identity = read_identity(&device, &event);
    if identity == ChipIdentity::default() && driver_name.is_none() {
        return None;
    }
    let software = driver_name.as_deref().is_some_and(|name| SOFTWARE_DRIVERS.contains(&name));
    let product = read_word(&device.join("product_name")).available().cloned();
    let listed = match (identity.pci_vendor, identity.pci_device) {
        (Some(vendor), Some(device)) => names.device(vendor, device).map(|name| marketing_name(&name)),
        _ => None,
    };
    let compatible = event.value("OF_COMPATIBLE_0").and_then(|text| text.split_once(','));
    Some(Adapter {
        kind,
        name: product.or(listed).or_else(|| compatible.map(|(_, part)| part.to_owned())),
        vendor: compatible.map(|(maker, _)| maker.to_owned()),
        memory_bytes: read_number(&device.join("mem_info_vram_total")).available().copied(),
        software,
        driver: driver_name.map(|name| with_version(roots, name)),
        identity,
        source: node.display().to_string(),
        position: None,
    })
}

fn read_identity(device: &Path, event: &Uevent<'_>) -> ChipIdentity {
    let id = |name: &str| read_word(&device.join(name)).available().and_then(|text| parse_id(text));
    let vendor = id("vendor").or_else(|| event.pair("PCI_ID").map(|(vendor, _)| vendor));
    let product = id("device").or_else(|| event.pair("PCI_ID").map(|(_, device)| device));
    let subsystem = id("subsystem_vendor")
        .zip(id("subsystem_device"))
        .or_else(|| event.pair("PCI_SUBSYS_ID"))
        .map(|(vendor, device)| u32::from(device) << 16 | u32::from(vendor));
    // On a bus without addresses the name of the device's folder is its place, as in `fb000000.gpu`.
    let folder = || {
        let target = std::fs::read_link(device).ok()?;
        Some(target.file_name()?.to_str()?.to_owned()).filter(|name| !name.is_empty())
    };
    ChipIdentity {
        pci_vendor: vendor,
        pci_device: product,
        pci_subsystem: subsystem,
        bus_address: event.value("PCI_SLOT_NAME").map(str::to_lowercase).or_else(folder),
        uuid: read_word(&device.join("unique_id")).available().cloned(),
        ..ChipIdentity::default()
    }
}

/// What NVIDIA's driver tells of each of its cards: address, file and text. A driver whose card has fallen off the bus
/// may hang.
fn nvidia_cards(roots: &Roots, limit: Duration) -> Reading<Vec<(String, PathBuf, String)>> {
    let folder = roots.proc.join("driver/nvidia/gpus");
    let Reading::Available(addresses) = list_names(&folder) else { return Reading::Available(Vec::new()) };
    let mut driver = Watched::named(format!("NVIDIA's driver below {}", folder.display()), limit, || ());
    driver.ask(move |()| {
        let card = |address: String| {
            let source = folder.join(&address).join("information");
            let text = read_text(&source).available().cloned()?;
            Some((address, source, text))
        };
        addresses.into_iter().take(ADAPTER_LIMIT).filter_map(card).collect()
    })
}

/// Adds what NVIDIA's driver tells: the names of cards found already, and cards without a display node.
fn add_nvidia(
    roots: &Roots,
    names: &PciNames<'_>,
    cards: Vec<(String, PathBuf, String)>,
    adapters: &mut Vec<Adapter>,
) {
    for (address, source, text) in cards {
        let text = text.as_str();
        let model = field(text, "Model").and_then(clean_spaces).filter(|model| model != "Unknown");
        // Until the card has been used once, the driver shows question marks.
        let uuid = field(text, "GPU UUID").filter(|uuid| !uuid.contains('?')).map(str::to_owned);
        let address = field(text, "Bus Location").unwrap_or(&address).to_lowercase();
        let known = adapters
            .iter_mut()
            .find(|adapter| adapter.identity.bus_address.as_deref() == Some(address.as_str()));
        if let Some(adapter) = known {
            adapter.name = model.or(adapter.name.take());
            adapter.identity.uuid = uuid;
            continue;
        }
        let device = roots.sys.join("bus/pci/devices").join(safe_name(&address));
        let event = read_text(&device.join("uevent"));
        let event = Uevent(event.available().map(String::as_str).unwrap_or_default());
        let mut identity = read_identity(&device, &event);
        identity.pci_vendor.get_or_insert(0x10de);
        let listed = identity.pci_device.and_then(|device| names.device(0x10de, device));
        identity.bus_address = Some(address);
        identity.uuid = uuid;
        adapters.push(Adapter {
            kind: ChipKind::Gpu,
            name: model.or_else(|| listed.map(|name| marketing_name(&name))),
            vendor: None,
            identity,
            memory_bytes: None,
            software: false,
            driver: Some(with_version(roots, "nvidia".to_owned())),
            source: source.display().to_string(),
            position: None,
        });
    }
}

/// Qualcomm's NPU, which is reached through a remote-procedure node of its digital signal processor.
fn fastrpc(roots: &Roots) -> Option<Adapter> {
    let node: PathBuf = ["fastrpc-cdsp", "fastrpc-cdsp-secure"]
        .iter()
        .map(|name| roots.sys.join("class/misc").join(name))
        .find(|path| path.exists())?;
    Some(Adapter {
        kind: ChipKind::Npu,
        name: Some("Hexagon".to_owned()),
        vendor: Some("Qualcomm".to_owned()),
        identity: ChipIdentity { bus_address: Some("fastrpc-cdsp".to_owned()), ..ChipIdentity::default() },
        memory_bytes: None,
        software: false,
        driver: Some("fastrpc".to_owned()),
        source: node.display().to_string(),
        position: None,
    })
}

fn with_version(roots: &Roots, driver: String) -> String {
    let module = roots.sys.join("module").join(safe_name(&driver)).join("version");
    match read_word(&module) {
        Reading::Available(version) => format!("{driver} {version}"),
        Reading::Unavailable(_) => driver,
    }
}

/// A name as one component of a path, so that text from a file never leads out of a folder.
pub(crate) fn safe_name(name: &str) -> String {
    name.replace(['/', '\\'], "_").replace("..", "_")
}

fn link_name(path: &Path) -> Option<String> {
    std::fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_owned)
}

fn parse_id(text: &str) -> Option<u16> {
    let text = text.trim();
    u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The `KEY=value` lines of a device.
struct Uevent<'a>(&'a str);

impl Uevent<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
            .filter(|value| !value.is_empty())
    }

    fn pair(&self, key: &str) -> Option<(u16, u16)> {
        let (first, second) = self.value(key)?.split_once(':')?;
        Some((parse_id(first)?, parse_id(second)?))
    }
}
