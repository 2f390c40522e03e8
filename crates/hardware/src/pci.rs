//! Names behind PCI ids: a small table of makers, and the system's `pci.ids` where it has one.
//!
//! Invariant: ids that no list knows stay ids; no name is guessed.

use crate::roots::{Roots, read_bytes};

/// The list has 1.5 MB in 2025.
const LIST_LIMIT_BYTES: u64 = 8 << 20;

/// The maker behind a PCI vendor id, as this project writes it.
pub(crate) fn maker(vendor: u16) -> Option<&'static str> {
    Some(match vendor {
        0x1002 | 0x1022 => "AMD",
        0x10de => "NVIDIA",
        0x8086 | 0x8087 => "Intel",
        0x106b => "Apple",
        0x13b5 => "ARM",
        0x1414 => "Microsoft",
        0x144d => "Samsung",
        0x14e4 => "Broadcom",
        0x1010 => "Imagination",
        0x15ad => "VMware",
        0x1ab8 => "Parallels",
        0x1ac1 => "Google",
        0x1af4 => "Red Hat",
        0x1b36 => "QEMU",
        0x1234 => "QEMU",
        0x1a03 => "ASPEED",
        0x102b => "Matrox",
        0x17cb | 0x5143 | 0x4d4f => "Qualcomm",
        0x1e60 => "Hailo",
        0x1da3 => "Habana",
        0x1ed5 => "Moore Threads",
        0x1d0f => "Amazon",
        0x80ee => "VirtualBox",
        _ => return None,
    })
}

/// The system's list of PCI names, read at most once.
#[derive(Debug)]
pub(crate) struct PciNames<'a> {
    roots: &'a Roots,
    list: std::cell::OnceCell<Vec<u8>>,
}

impl<'a> PciNames<'a> {
    pub(crate) fn new(roots: &'a Roots) -> Self {
        Self { roots, list: std::cell::OnceCell::new() }
    }

    /// The name of a device, where the list has it.
    pub(crate) fn device(&self, vendor: u16, device: u16) -> Option<String> {
        let list = self.list.get_or_init(|| {
            ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids"]
                .iter()
                .find_map(|path| {
                    read_bytes(&self.roots.root.join(path), LIST_LIMIT_BYTES).available().cloned()
                })
                .unwrap_or_default()
        });
        find_device(list, vendor, device)
    }
}

/// Finds a device's name in a list of the form of `pci.ids`: vendors at the margin, devices after one tab.
fn find_device(list: &[u8], vendor: u16, device: u16) -> Option<String> {
    let vendor_id = format!("{vendor:04x}  ");
    let device_id = format!("\t{device:04x}  ");
    let mut inside = false;
    for line in list.split(|byte| *byte == b'\n') {
        match line.first() {
            None | Some(b'#') => {}
            Some(b'\t') if inside => {
                if let Some(name) = line.strip_prefix(device_id.as_bytes()) {
                    return crate::processor::clean_spaces(&String::from_utf8_lossy(name));
                }
            }
            Some(b'\t') => {}
            Some(_) if inside => return None,
            Some(_) => inside = line.starts_with(vendor_id.as_bytes()),
        }
    }
    None
}

/// The marketing name in brackets at the end, `AD106M [GeForce RTX 4070]`, else the whole name.
pub(crate) fn marketing_name(name: &str) -> String {
    match name.strip_suffix(']').and_then(|name| name.rsplit_once('[')) {
        Some((_, inner)) if !inner.trim().is_empty() => inner.trim().to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_below_their_vendor_only() {
        #[track_caller]
        fn check(list: &[u8], vendor: u16, device: u16, expected: Option<&str>) {
            assert_eq!(find_device(list, vendor, device).as_deref(), expected);
        }
        let list = b"# list\n1002  AMD\n\t7d55  Not this\n8086  Intel Corporation\n\t7d55  Meteor Lake-P [Intel Arc Graphics]\n\t\t1028 0c9a  Board\n\n10de  NVIDIA\n\t2d18  GB206M [GeForce RTX 5070 Max-Q]\nC 03  Display\n\t00  VGA\n";
        check(list, 0x8086, 0x7d55, Some("Meteor Lake-P [Intel Arc Graphics]"));
        check(list, 0x10de, 0x2d18, Some("GB206M [GeForce RTX 5070 Max-Q]"));
        check(list, 0x10de, 0x7d55, None);
        check(list, 0x1234, 0x0001, None);
        check(b"\xff\xfe\n8086", 0x8086, 1, None);
    }

    #[test]
    fn the_bracketed_part_is_the_marketing_name() {
        assert_eq!(marketing_name("Meteor Lake-P [Intel Arc Graphics]"), "Intel Arc Graphics");
        assert_eq!(marketing_name("Plain"), "Plain");
        assert_eq!(marketing_name("Odd []"), "Odd []");
    }
}
