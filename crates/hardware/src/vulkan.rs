//! The Vulkan drivers that are installed, as their manifests tell.
//!
//! Invariant: nothing is loaded, since loading a driver can take seconds or crash.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use siliconroute_core::Reading;

use crate::roots::{Roots, list_names, read_text};

/// More manifests than any system installs.
const MANIFEST_LIMIT: usize = 64;

/// A driver that a manifest points at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VulkanDriver {
    /// The manifest's name without the extension, such as `radeon_icd.x86_64`.
    pub name: String,
    /// The library, as found or as the manifest names it.
    pub library: String,
    /// Whether the library is where the manifest says.
    pub installed: bool,
    /// Whether the driver computes on the CPU.
    pub software: bool,
}

/// Finds the Vulkan drivers of a Unix machine, running or captured.
#[derive(Debug, Clone)]
pub struct VulkanProbe {
    roots: Roots,
}

impl VulkanProbe {
    /// Prepares to look below `roots`.
    pub fn new(roots: Roots) -> Self {
        Self { roots }
    }

    /// Lists the drivers by name; the first manifest of a name counts, as for the loader.
    pub fn drivers(&self) -> Reading<Vec<VulkanDriver>> {
        let roots = &self.roots;
        let folders = [
            roots.etc.join("vulkan/icd.d"),
            roots.root.join("usr/local/etc/vulkan/icd.d"),
            roots.root.join("usr/local/share/vulkan/icd.d"),
            roots.root.join("opt/homebrew/share/vulkan/icd.d"),
            roots.root.join("usr/share/vulkan/icd.d"),
        ];
        let mut drivers: Vec<VulkanDriver> = Vec::new();
        let mut any_folder = false;
        for folder in &folders {
            let Reading::Available(names) = list_names(folder) else { continue };
            any_folder = true;
            for name in names.iter().filter(|name| has_extension(name, "json")).take(MANIFEST_LIMIT) {
                let Reading::Available(text) = read_text(&folder.join(name)) else { continue };
                let known = |name: &str| drivers.iter().any(|driver| driver.name == name);
                if let Some(driver) = parse_manifest(name, &text).filter(|driver| !known(&driver.name)) {
                    drivers.push(locate(roots, folder, driver));
                }
            }
        }
        drivers.sort_by(|a, b| a.name.cmp(&b.name));
        if any_folder {
            Reading::Available(drivers)
        } else {
            Reading::unavailable(format!("no Vulkan driver is installed: none of {} exists", shown(&folders)))
        }
    }
}

/// Lists the Vulkan drivers of the running machine.
pub fn detect_vulkan_drivers() -> Reading<Vec<VulkanDriver>> {
    crate::os::vulkan_drivers()
}

/// Whether an installed driver reaches a real chip; software drivers do not count.
pub fn vulkan_driver_present(drivers: &Reading<Vec<VulkanDriver>>) -> Reading<bool> {
    drivers.clone().map(|drivers| drivers.iter().any(|driver| driver.installed && !driver.software))
}

fn shown(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// Parses the manifest `name` (its file name) into a driver that has not been located yet.
pub(crate) fn parse_manifest(name: &str, text: &str) -> Option<VulkanDriver> {
    let manifest: serde_json::Value = serde_json::from_str(text).ok()?;
    let library = manifest.get("ICD")?.get("library_path")?.as_str()?.to_owned();
    let name = Path::new(name).file_stem()?.to_str()?.to_owned();
    let software = ["lvp", "lavapipe", "swiftshader", "vk_swiftshader", "llvmpipe"]
        .iter()
        .any(|sign| library.to_lowercase().contains(sign) || name.to_lowercase().contains(sign));
    Some(VulkanDriver { name, library, installed: false, software })
}

/// Looks for a driver's library: at its path, beside the manifest, or where the system's loader looks.
fn locate(roots: &Roots, folder: &Path, mut driver: VulkanDriver) -> VulkanDriver {
    let library = Path::new(&driver.library);
    let candidates: Vec<PathBuf> = if library.is_absolute() || driver.library.starts_with('/') {
        vec![roots.resolve(library)]
    } else if driver.library.contains('/') {
        vec![folder.join(library)]
    } else {
        let triples = [
            format!("{}-linux-gnu", std::env::consts::ARCH),
            format!("{}-linux-musl", std::env::consts::ARCH),
        ];
        ["usr/lib", "usr/lib64", "lib", "lib64", "usr/local/lib", "opt/homebrew/lib"]
            .iter()
            .flat_map(|base| {
                let base = roots.root.join(base);
                let nested: Vec<PathBuf> = triples.iter().map(|triple| base.join(triple)).collect();
                std::iter::once(base).chain(nested)
            })
            .map(|base| base.join(library))
            .collect()
    };
    if let Some(found) = candidates.into_iter().find(|path| path.exists()) {
        driver.installed = true;
        driver.library = found.display().to_string();
    }
    driver
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Tree;

    fn manifest(library: &str) -> String {
        format!(
            r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}", "api_version": "1.3"}}}}"#
        )
    }

    #[test]
    fn lists_drivers_and_marks_software() {
        let nested = format!("usr/lib/{}-linux-gnu/libvulkan_radeon.so", std::env::consts::ARCH);
        let tree = Tree::new()
            .file("usr/share/vulkan/icd.d/lvp_icd.json", &manifest("/usr/lib/libvulkan_lvp.so"))
            .file("usr/share/vulkan/icd.d/radeon_icd.json", &manifest("libvulkan_radeon.so"))
            .file("usr/share/vulkan/icd.d/broken.json", "{")
            .file("usr/share/vulkan/icd.d/empty.json", "{}")
            .file("usr/share/vulkan/icd.d/readme.txt", "no")
            .file("etc/vulkan/icd.d/nvidia_icd.json", &manifest("libGLX_nvidia.so.0"))
            .file("usr/share/vulkan/icd.d/nvidia_icd.json", &manifest("/elsewhere.so"))
            .file("usr/lib/libvulkan_lvp.so", "")
            .file(&nested, "");
        let drivers = VulkanProbe::new(tree.roots()).drivers();
        let seen: Vec<(&str, bool, bool)> = drivers
            .available()
            .unwrap()
            .iter()
            .map(|driver| (driver.name.as_str(), driver.installed, driver.software))
            .collect();
        assert_eq!(
            seen,
            [("lvp_icd", true, true), ("nvidia_icd", false, false), ("radeon_icd", true, false)]
        );
        assert_eq!(vulkan_driver_present(&drivers), Reading::Available(true));
    }

    #[test]
    fn software_drivers_do_not_count_as_present() {
        let tree = Tree::new()
            .file("usr/share/vulkan/icd.d/lvp_icd.json", &manifest("/usr/lib/libvulkan_lvp.so"))
            .file("usr/lib/libvulkan_lvp.so", "");
        let drivers = VulkanProbe::new(tree.roots()).drivers();
        assert_eq!(vulkan_driver_present(&drivers), Reading::Available(false));
    }

    #[test]
    fn no_folder_is_a_reason() {
        let drivers = VulkanProbe::new(Tree::new().roots()).drivers();
        assert!(matches!(&drivers, Reading::Unavailable(reason) if reason.starts_with("no Vulkan driver")));
        assert!(vulkan_driver_present(&drivers).available().is_none());
    }
}
