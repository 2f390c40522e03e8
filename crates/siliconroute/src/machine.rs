//! This machine as the router sees it: host, chips, installed packages, and what fits.
//!
//! Invariant: looking at the machine starts no process and reads no library, so that it takes a few
//! milliseconds on every start.

use std::path::Path;

use serde::Serialize;
use sha2::{Digest, Sha256};
use siliconroute_core::{ChipKind, Reading};
use siliconroute_engine::onnxruntime::{CpuFeatures, Plugin};
use siliconroute_engine::packages::{
    Coverage, Installed, LibraryVersion, MachineFacts, Package, PackageKind, Platform, RecordError, Table,
    list_installed,
};
use siliconroute_engine::rten::RTEN_VERSION;
use siliconroute_engine::worker::wire::EngineSpec;
pub use siliconroute_hardware::HostFacts;
use siliconroute_hardware::{CacheKind, ChipFinding};

use crate::discovery::EngineToAsk;

/// The package whose runtime library serves the CPU and all plugins.
pub(crate) const MAIN_RUNTIME: &str = "onnxruntime";

/// Host and chips.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The hardware id.
    pub hardware_id: String,
    /// Facts of the host.
    pub host: HostFacts,
    /// Chips found, and why others were not.
    pub chips: Vec<ChipFinding>,
    /// Whether a driver for general computing on a GPU is there.
    #[serde(skip)]
    gpu_driver: bool,
}

/// What this machine is cached under, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostProfile {
    /// The hardware id.
    pub hardware_id: String,
    /// Facts of the host.
    pub host: HostFacts,
}

impl HostProfile {
    /// Looks at this machine, and at no home.
    pub fn detect() -> Self {
        let host = siliconroute_hardware::detect_host();
        Self { hardware_id: siliconroute_hardware::hardware_id(&host), host }
    }
}

impl Machine {
    /// Looks at this machine. Software imitations of a GPU count only if `software_adapters` is set.
    pub fn detect(software_adapters: bool) -> Self {
        let host = siliconroute_hardware::detect_host();
        let chips = siliconroute_hardware::detect_chips(&host);
        let real_gpu = chips
            .iter()
            .filter_map(|finding| finding.chip.available())
            .any(|chip| chip.kind == ChipKind::Gpu && (!chip.software || software_adapters));
        let vulkan = siliconroute_hardware::detect_vulkan_drivers();
        let vulkan_driver = vulkan
            .available()
            .is_some_and(|drivers| drivers.iter().any(|driver| !driver.software || software_adapters));
        let gpu_driver = match host.os.as_str() {
            // Drivers are often installed for many chips, of which the machine has none.
            "linux" => vulkan_driver && (real_gpu || software_adapters),
            _ => real_gpu,
        };
        Self { hardware_id: siliconroute_hardware::hardware_id(&host), host, chips, gpu_driver }
    }

    /// The platform that packages are made for, as `linux-x86_64`.
    pub fn platform(&self) -> Option<Platform> {
        Platform::current()
    }

    /// What decides which packages fit.
    pub fn package_facts(&self) -> MachineFacts {
        let has = |kind: ChipKind, vendor: u16| {
            self.chips
                .iter()
                .filter_map(|finding| finding.chip.available())
                .any(|chip| chip.kind == kind && chip.identity.pci_vendor == Some(vendor))
        };
        let qualcomm = |chip: &siliconroute_core::Chip| {
            chip.kind == ChipKind::Npu && chip.vendor.to_ascii_lowercase().contains("qualcomm")
        };
        MachineFacts {
            platform: self.platform(),
            glibc: self.host.libc.as_deref().and_then(|libc| parse_version(libc.strip_prefix("glibc ")?)),
            macos: match (self.host.os.as_str(), &self.host.os_version) {
                ("macos", Reading::Available(version)) => {
                    parse_version(version.trim_start_matches(|c: char| !c.is_ascii_digit()))
                }
                _ => None,
            },
            has_intel_chip: self
                .chips
                .iter()
                .filter_map(|finding| finding.chip.available())
                .any(|chip| chip.vendor == "Intel" || chip.identity.pci_vendor == Some(0x8086)),
            has_nvidia_gpu: has(ChipKind::Gpu, 0x10de),
            has_amd_gpu: has(ChipKind::Gpu, 0x1002),
            has_any_gpu_with_driver: self.gpu_driver,
            has_qualcomm_npu: self.chips.iter().filter_map(|finding| finding.chip.available()).any(qualcomm),
        }
    }

    /// The formats that decide which targets there are.
    pub fn cpu_features(&self) -> CpuFeatures {
        let bf16 = ["avx512_bf16", "avx512bf16", "amx_bf16", "bf16"];
        CpuFeatures { bf16: self.host.vector_extensions.iter().any(|name| bf16.contains(&name.as_str())) }
    }

    /// The last-level cache, which hardware models tell memory levels apart by; 0 when unknown.
    pub fn last_level_cache_bytes(&self) -> f64 {
        let data = self.host.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        data.max_by_key(|cache| cache.level).map_or(0.0, |cache| cache.size_bytes as f64)
    }

    /// The engines that the installed packages make up, the embedded one last.
    pub fn engines(&self, packages: &[Installed]) -> Vec<EngineToAsk> {
        let mut engines = Vec::new();
        let runtime = packages.iter().find(|package| package.name == MAIN_RUNTIME);
        if let Some(runtime) = runtime {
            let plain = self.onnx_runtime(runtime, None);
            engines.push(EngineToAsk {
                spec: plain,
                label: format!("ort {}", runtime.version),
                requires: requirement(runtime),
            });
            let plugins = packages.iter().filter(|package| package.kind == PackageKind::Plugin);
            engines.extend(plugins.map(|plugin| EngineToAsk {
                spec: self.onnx_runtime(runtime, Some(plugin)),
                label: format!("{} {}", plugin.name, plugin.version),
                requires: requirement(plugin),
            }));
        }
        let others = packages
            .iter()
            .filter(|package| package.kind == PackageKind::RuntimeLibrary && package.name != MAIN_RUNTIME);
        engines.extend(others.map(|other| EngineToAsk {
            spec: self.onnx_runtime(other, None),
            label: format!("{} {}", other.name, other.version),
            requires: requirement(other),
        }));
        let label = format!("rten {RTEN_VERSION}");
        engines.push(EngineToAsk { spec: EngineSpec::Rten, label, requires: None });
        engines
    }

    fn onnx_runtime(&self, runtime: &Installed, plugin: Option<&Installed>) -> EngineSpec {
        let packages = [Some(runtime), plugin];
        EngineSpec::OnnxRuntime {
            library: runtime.library.clone(),
            version: runtime.version.clone(),
            built_in: runtime.providers.iter().map(|provider| provider.name.clone()).collect(),
            plugins: plugin.into_iter().filter_map(|plugin| plugin_of(plugin, runtime)).collect(),
            cpu: self.cpu_features(),
            search_path: packages
                .into_iter()
                .flatten()
                .filter_map(|package| package.search_path.clone())
                .collect(),
        }
    }

    /// Everything that the set of targets and their times depend on, in one digest; not where the home lies.
    pub fn fingerprint(&self, packages: &[Installed], software_adapters: bool) -> String {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update(text.as_bytes());
            hash.update([0]);
        };
        add(crate::VERSION);
        add(&self.hardware_id);
        add(&format!("{:?}", self.host.vector_extensions));
        add(&self.host.os_version.to_string());
        add(&self.host.kernel_version.to_string());
        add(&format!("{software_adapters} {}", self.gpu_driver));
        for finding in &self.chips {
            if let Reading::Available(chip) = &finding.chip {
                add(&format!("{} {:?}", chip.key, chip.driver));
            }
        }
        for package in packages {
            add(&version_of(package));
        }
        siliconroute_core::ModelId(hash.finalize().into()).to_string()
    }

    /// The digest of a discovery, which names the files to load: a fingerprint and where the packages lie.
    pub fn discovery_key(fingerprint: &str, packages: &[Installed]) -> String {
        let mut hash = Sha256::new();
        hash.update(fingerprint);
        for package in packages {
            hash.update([0]);
            hash.update(package.library.as_os_str().as_encoded_bytes());
        }
        siliconroute_core::ModelId(hash.finalize().into()).to_string()
    }
}

/// What tells an installed package from every other one, wherever it lies.
fn version_of(package: &Installed) -> String {
    let library = package.library.strip_prefix(&package.dir).unwrap_or(&package.library);
    format!("{} {} {} {}", package.name, package.version, package.installed_at_unix_s, library.display())
}

/// The registration of a plugin package: its main provider's name, and its library.
///
/// Its version names the runtime library too, since both make the speed.
fn plugin_of(package: &Installed, runtime: &Installed) -> Option<Plugin> {
    let provider = package.providers.first()?;
    Some(Plugin {
        name: provider.name.clone(),
        version: format!("{} on {} {}", package.version, runtime.name, runtime.version),
        library: package.library.clone(),
    })
}

/// What the package's wheel needs of the machine besides, as the table says.
fn requirement(package: &Installed) -> Option<String> {
    let known = Table::embedded().get(&package.name).filter(|known| known.version == package.version)?;
    known.wheel(package.platform)?.requires.clone()
}

/// The usable installed packages, and what is wrong with the others.
///
/// What lies in the packages folder and is no package is passed over here; verification names it.
pub fn installed_packages(root: &Path) -> (Vec<Installed>, Vec<PackageFault>) {
    let mut usable = Vec::new();
    let mut faults = Vec::new();
    let table = Table::embedded();
    for package in list_installed(root, table) {
        match package {
            Ok(package) => usable.push(package),
            Err(RecordError::Stray { .. }) => {}
            Err(fault) => faults.push(PackageFault::Damaged {
                package: fault.folder().and_then(|folder| package_of(folder, table)).map(str::to_owned),
                finding: describe_error(&fault),
            }),
        }
    }
    keep_one_version(&mut usable, table);
    let runtime =
        usable.iter().find(|package| package.name == MAIN_RUNTIME).map(|package| package.version.clone());
    if let Some(version) = runtime.as_deref().and_then(LibraryVersion::parse) {
        usable.retain(|package| match table.get(&package.name).map(|entry| fits_runtime(entry, version)) {
            Some(Some(fault)) => {
                faults.push(PackageFault::Unfit(fault));
                false
            }
            _ => true,
        });
    }
    (usable, faults)
}

/// Why an installed package is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackageFault {
    /// Its record or files are not what they should be; verification reports it too.
    Damaged {
        /// The package of the table that its folder is named for.
        package: Option<String>,
        /// What is wrong.
        finding: String,
    },
    /// It does not go with the other packages.
    Unfit(String),
}

impl std::fmt::Display for PackageFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Damaged { finding: text, .. } | Self::Unfit(text)) = self;
        f.write_str(text)
    }
}

/// The name of the table's package that a folder, called `name-version`, belongs to.
fn package_of<'t>(folder: &Path, table: &'t Table) -> Option<&'t str> {
    let (name, _version) = folder.file_name()?.to_str()?.rsplit_once('-')?;
    table.get(name).map(|package| package.name.as_str())
}

/// Of several installed versions of a package, keeps the table's one, else the newest.
fn keep_one_version(installed: &mut Vec<Installed>, table: &Table) {
    let rank = |package: &Installed| {
        let wanted = table.get(&package.name).is_some_and(|entry| entry.version == package.version);
        (wanted, LibraryVersion::parse(&package.version))
    };
    let all = installed.clone();
    installed.retain(|package| {
        all.iter().filter(|other| other.name == package.name).all(|other| rank(other) <= rank(package))
    });
}

fn fits_runtime(package: &Package, version: LibraryVersion) -> Option<String> {
    let too_old = package.kind == PackageKind::Plugin && package.coverage(version) == Coverage::TooOld;
    too_old.then(|| {
        format!("{} {} needs a newer {MAIN_RUNTIME} than the installed one", package.name, package.version)
    })
}

/// An error with its causes, in one line.
pub fn describe_error(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// A long text cut in the middle: errors of engines begin with what failed and end with why.
pub fn brief(text: &str) -> String {
    const HEAD: usize = 60;
    const TAIL: usize = 140;
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= HEAD + TAIL + 3 {
        return text.to_owned();
    }
    // A word is left whole, unless it is so long that little else would be left.
    let is_gap = |character: &char| character.is_whitespace();
    let end = (HEAD / 2..=HEAD).rev().find(|&at| is_gap(&characters[at])).unwrap_or(HEAD);
    let begin = characters.len() - TAIL;
    let begin = (begin..begin + TAIL / 2).find(|&at| is_gap(&characters[at - 1])).unwrap_or(begin);
    let (head, tail) = (String::from_iter(&characters[..end]), String::from_iter(&characters[begin..]));
    format!("{} … {}", head.trim_end(), tail.trim_start())
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', ' ', '-']);
    Some((parts.next()?.parse().ok()?, parts.next().unwrap_or("0").parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use siliconroute_engine::packages::{InstalledFrom, PackageKind, Platform, Sha256Digest};

    use super::*;

    #[test]
    fn a_package_that_is_moved_is_the_same_and_is_looked_for_in_its_new_place() {
        let package = |home: &str| {
            let dir = Path::new(home).join("packages/demo-1.0");
            Installed {
                name: "demo".to_owned(),
                version: "1.0".to_owned(),
                kind: PackageKind::Plugin,
                platform: Platform::LinuxX86_64,
                providers: Vec::new(),
                library: dir.join("demo.so"),
                dir,
                search_path: None,
                wheel_sha256: Sha256Digest::of(b"demo"),
                installed_at_unix_s: 1,
                source: InstalledFrom::Index,
                size_bytes: 1,
            }
        };
        let (here, there) = (package("here"), package("there"));
        assert_eq!(version_of(&here), version_of(&there));
        assert_ne!(version_of(&here), version_of(&Installed { installed_at_unix_s: 2, ..here.clone() }));
        let key = |package| Machine::discovery_key("fingerprint", &[package]);
        assert_eq!(key(here.clone()), key(here.clone()));
        assert_ne!(key(here), key(there));
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        let short = "é".repeat(203);
        assert_eq!(brief(&short), short);
        let long = format!("load failed {} no such operator", "x".repeat(500));
        let cut = brief(&long);
        assert!(cut.starts_with("load failed x") && cut.ends_with("x no such operator"), "{cut}");
        assert_eq!(cut.chars().count(), 203);
        let words = brief(&"an operator ".repeat(60));
        for word in words.split_whitespace() {
            assert!(["an", "operator", "…"].contains(&word), "{words}");
        }
    }

    #[test]
    fn versions_are_read_up_to_the_second_part() {
        assert_eq!(parse_version("2.36"), Some((2, 36)));
        assert_eq!(parse_version("14.5.1"), Some((14, 5)));
        assert_eq!(parse_version("15"), Some((15, 0)));
        assert_eq!(parse_version("x"), None);
    }
}
