//! The table of engine packages that this version of the program can install.
//!
//! Invariant: a loaded table is consistent: names are unique, paths are plain, and each wheel's main library
//! is one of its members.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::fit::Platform;
use super::pin::{InvalidPin, MemberPin, Sha256Digest, WheelPin};

/// The version of the table's format that this program reads.
const SCHEMA: u32 = 1;

/// Whether a package is ONNX Runtime itself or joins one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackageKind {
    /// A build of ONNX Runtime with the providers compiled into it; one per worker process.
    RuntimeLibrary,
    /// A provider library that a runtime library registers.
    Plugin,
}

/// The hardware that a package is of use with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// Nothing beyond the CPU.
    Cpu,
    /// A CPU, GPU or NPU made by Intel.
    IntelChip,
    /// An x86-64 CPU of another maker than Intel.
    OtherX86Cpu,
    /// An NVIDIA GPU with its driver.
    NvidiaGpu,
    /// Any GPU with a Vulkan, Direct3D 12 or Metal driver.
    AnyGpu,
    /// A Qualcomm NPU.
    QualcommNpu,
    /// An AMD GPU with its driver.
    AmdGpu,
    /// A GPU with a Direct3D 12 driver on Windows.
    WindowsGpu,
}

/// A provider that a package brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The name it is registered under in ONNX Runtime.
    pub name: String,
    /// The short name used in target keys.
    pub short: String,
    /// The platforms whose wheel has it; all where empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
}

/// A version of ONNX Runtime, of which the first three numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct LibraryVersion(pub [u32; 3]);

impl TryFrom<String> for LibraryVersion {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a version"))
    }
}

impl LibraryVersion {
    /// Reads `1.31.1`, with whatever may follow the third number; `None` where three numbers are missing.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(Self([major.parse().ok()?, minor.parse().ok()?, rest[..end].parse().ok()?]))
    }
}

/// The runtime libraries that a plugin works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeVersions {
    /// The oldest, inclusive.
    pub min: LibraryVersion,
    /// The newest that was tried, inclusive.
    pub max: Option<LibraryVersion>,
    /// Whether this project ran the plugin with both ends of the range.
    pub proven: bool,
}

/// What is known of a plugin with one runtime library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// It was run.
    Proven,
    /// Nobody tried: the range is unproven, or the library is newer than it.
    Unproven,
    /// The library is too old.
    TooOld,
}

/// A package for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// The platform it runs on.
    pub platform: Platform,
    /// Which file it is.
    pub pin: WheelPin,
    /// The path of the library to load, one of the members.
    pub library: String,
    /// What the user's machine must have besides, in words.
    pub requires: Option<String>,
    /// Whether the libraries find each other only through the loader's search path, which a worker must be
    /// started with.
    pub needs_search_path: bool,
    /// The files to unpack.
    pub members: Vec<MemberPin>,
}

/// An engine package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The short name, such as `openvino`: lower case, digits and `_`.
    pub name: String,
    /// What it is.
    pub kind: PackageKind,
    /// The distribution's name in the package index.
    pub distribution: String,
    /// The pinned version.
    pub version: String,
    /// The licence as an SPDX expression, read from the wheel's metadata.
    pub licence: String,
    /// Terms of bundled libraries that the expression does not cover.
    pub licence_note: Option<String>,
    /// The hardware it is of use with.
    pub needs: Needs,
    /// Whether it is installed unasked where it fits.
    pub recommended: bool,
    /// Why it is recommended or not, for the user.
    pub why: String,
    /// The providers it brings, the main one first.
    pub providers: Vec<Provider>,
    /// For plugins: the runtime libraries it works with.
    pub runtime: Option<RuntimeVersions>,
    /// The wheels, one for each platform that has one.
    pub wheels: Vec<Wheel>,
}

impl Package {
    /// The wheel for `platform`, where there is one.
    pub fn wheel(&self, platform: Platform) -> Option<&Wheel> {
        self.wheels.iter().find(|wheel| wheel.platform == platform)
    }

    /// The providers that the wheel for `platform` brings.
    pub fn providers_on(&self, platform: Platform) -> impl Iterator<Item = &Provider> {
        self.providers.iter().filter(move |p| p.platforms.is_empty() || p.platforms.contains(&platform))
    }

    /// What is known of this plugin with the runtime library `version`; runtime libraries need no other and
    /// are `Proven`.
    pub fn coverage(&self, version: LibraryVersion) -> Coverage {
        match self.runtime {
            None => Coverage::Proven,
            Some(range) if version < range.min => Coverage::TooOld,
            Some(RuntimeVersions { max: Some(max), proven: true, .. }) if version <= max => Coverage::Proven,
            Some(_) => Coverage::Unproven,
        }
    }
}

/// What is wrong with a package table.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Not the expected TOML.
    #[error("the package table cannot be read")]
    Syntax(#[source] Box<toml::de::Error>),
    /// Written for another version of the program.
    #[error("the package table has schema {found}, this program reads {SCHEMA}")]
    Schema {
        /// The schema found.
        found: u32,
    },
    /// A wheel or member that cannot be meant.
    #[error("package `{package}` has an invalid pin")]
    Pin {
        /// The package.
        package: String,
        /// What is wrong.
        #[source]
        source: InvalidPin,
    },
    /// Two packages, platforms or paths of the same name, or a name that cannot be a folder.
    #[error("package `{package}`: {what}")]
    Inconsistent {
        /// The package.
        package: String,
        /// What is wrong.
        what: String,
    },
}

/// All packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    packages: Vec<Package>,
}

impl Table {
    /// The table built into the program.
    pub fn embedded() -> &'static Self {
        static TABLE: LazyLock<Table> = LazyLock::new(|| {
            Table::parse(include_str!("../../packages.toml")).expect("the built-in table is parsed by a test")
        });
        &TABLE
    }

    /// Reads a table.
    ///
    /// # Errors
    /// [`TableError`] for the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let file: TableFile = toml::from_str(text).map_err(|e| TableError::Syntax(Box::new(e)))?;
        if file.schema != SCHEMA {
            return Err(TableError::Schema { found: file.schema });
        }
        let mut names = HashSet::new();
        let mut packages = Vec::new();
        for entry in file.package {
            if !names.insert(entry.name.clone()) {
                return Err(inconsistent(&entry.name, "appears twice"));
            }
            packages.push(entry.into_package()?);
        }
        Ok(Self { packages })
    }

    /// All packages in table order.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The package of that name, or of that distribution name.
    pub fn get(&self, name: &str) -> Option<&Package> {
        let by_name = |p: &&Package| p.name == name;
        self.packages.iter().find(by_name).or_else(|| self.packages.iter().find(|p| p.distribution == name))
    }
}

fn inconsistent(package: &str, what: impl Into<String>) -> TableError {
    TableError::Inconsistent { package: package.to_owned(), what: what.into() }
}

/// Whether `name` can be a package: it becomes the part of a folder name before the first `-`.
pub(super) fn is_package_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    schema: u32,
    #[serde(default)]
    package: Vec<PackageEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageEntry {
    name: String,
    kind: PackageKind,
    distribution: String,
    version: String,
    licence: String,
    licence_note: Option<String>,
    needs: Needs,
    recommended: bool,
    why: String,
    providers: Vec<Provider>,
    runtime: Option<RuntimeVersions>,
    wheel: Vec<WheelEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WheelEntry {
    platform: Platform,
    file: String,
    sha256: Sha256Digest,
    size_bytes: u64,
    library: String,
    requires: Option<String>,
    #[serde(default)]
    needs_search_path: bool,
    members: Vec<MemberPin>,
}

impl PackageEntry {
    fn into_package(self) -> Result<Package, TableError> {
        if !is_package_name(&self.name) {
            return Err(inconsistent(&self.name, "the name has other characters than a-z, 0-9 and _"));
        }
        if (self.kind == PackageKind::Plugin) != self.runtime.is_some() {
            return Err(inconsistent(&self.name, "plugins, and only they, state the runtime versions"));
        }
        if self.providers.is_empty() {
            return Err(inconsistent(&self.name, "brings no provider"));
        }
        let mut platforms = HashSet::new();
        let mut wheels = Vec::new();
        for entry in self.wheel {
            if !platforms.insert(entry.platform) {
                return Err(inconsistent(&self.name, format!("two wheels for {}", entry.platform)));
            }
            wheels.push(entry.into_wheel(&self.name, &self.distribution, &self.version)?);
        }
        Ok(Package {
            name: self.name,
            kind: self.kind,
            distribution: self.distribution,
            version: self.version,
            licence: self.licence,
            licence_note: self.licence_note,
            needs: self.needs,
            recommended: self.recommended,
            why: self.why,
            providers: self.providers,
            runtime: self.runtime,
            wheels,
        })
    }
}

impl WheelEntry {
    fn into_wheel(self, package: &str, distribution: &str, version: &str) -> Result<Wheel, TableError> {
        let invalid = |source| TableError::Pin { package: package.to_owned(), source };
        let mut paths = HashSet::new();
        for member in &self.members {
            member.check().map_err(invalid)?;
            // Lower case, because two paths that differ by case are one file on Windows and macOS.
            if let Some(twice) = member.paths().find(|path| !paths.insert(path.to_ascii_lowercase())) {
                return Err(inconsistent(package, format!("`{twice}` appears twice")));
            }
        }
        if !self.members.iter().any(|member| member.path == self.library) {
            return Err(inconsistent(package, format!("`{}` is no member", self.library)));
        }
        let pin = WheelPin::new(distribution, version, &self.file, self.sha256, self.size_bytes)
            .map_err(invalid)?;
        Ok(Wheel {
            platform: self.platform,
            pin,
            library: self.library,
            requires: self.requires,
            needs_search_path: self.needs_search_path,
            members: self.members,
        })
    }
}

#[cfg(test)]
mod tests;
