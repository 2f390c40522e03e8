//! Which packages are of use on a machine.
//!
//! Invariant: pure; the answer depends on the package and the stated facts alone.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::table::{Needs, Package, Table, Wheel};

/// An operating system and architecture that packages exist for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Platform {
    #[serde(rename = "linux-x86_64")]
    LinuxX86_64,
    #[serde(rename = "linux-arm64")]
    LinuxArm64,
    #[serde(rename = "windows-x86_64")]
    WindowsX86_64,
    #[serde(rename = "windows-arm64")]
    WindowsArm64,
    #[serde(rename = "macos-arm64")]
    MacosArm64,
}

impl Platform {
    /// The platform that this program was built for; `None` where no package exists for it.
    pub fn current() -> Option<Self> {
        Self::of(std::env::consts::OS, std::env::consts::ARCH)
    }

    /// The platform by the standard library's names of system and architecture.
    pub fn of(system: &str, architecture: &str) -> Option<Self> {
        Some(match (system, architecture) {
            ("linux", "x86_64") => Self::LinuxX86_64,
            ("linux", "aarch64") => Self::LinuxArm64,
            ("windows", "x86_64") => Self::WindowsX86_64,
            ("windows", "aarch64") => Self::WindowsArm64,
            ("macos", "aarch64") => Self::MacosArm64,
            _ => return None,
        })
    }

    fn is_linux(self) -> bool {
        matches!(self, Self::LinuxX86_64 | Self::LinuxArm64)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinuxX86_64 => "linux-x86_64",
            Self::LinuxArm64 => "linux-arm64",
            Self::WindowsX86_64 => "windows-x86_64",
            Self::WindowsArm64 => "windows-arm64",
            Self::MacosArm64 => "macos-arm64",
        })
    }
}

/// What a machine offers to packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineFacts {
    /// The platform; `None` where no package exists for it.
    pub platform: Option<Platform>,
    /// The version of the GNU C library; `None` where there is none or it is unknown.
    pub glibc: Option<(u32, u32)>,
    /// The version of macOS; `None` elsewhere or where it is unknown.
    pub macos: Option<(u32, u32)>,
    /// A CPU, GPU or NPU made by Intel; OpenVINO's plugin passes over all others, CPUs too.
    pub has_intel_chip: bool,
    /// An NVIDIA GPU with its driver.
    pub has_nvidia_gpu: bool,
    /// An AMD GPU with its driver.
    pub has_amd_gpu: bool,
    /// Any GPU with a Vulkan, Direct3D 12 or Metal driver.
    pub has_any_gpu_with_driver: bool,
    /// A Qualcomm NPU.
    pub has_qualcomm_npu: bool,
}

/// Why a package is of no use on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is no wheel for the platform.
    #[error("there is no build of {package} {version} for {platform}")]
    NoWheel {
        /// The package.
        package: String,
        /// Its version.
        version: String,
        /// The machine's platform, in words.
        platform: String,
    },
    /// The system is older than the libraries expect.
    #[error("{package} needs {system} {}.{} or newer, this machine has {}.{}", needs.0, needs.1, has.0, has.1)]
    SystemTooOld {
        /// The package.
        package: String,
        /// `glibc` or `macOS`.
        system: &'static str,
        /// The oldest version that will do.
        needs: (u32, u32),
        /// The version found.
        has: (u32, u32),
    },
    /// The system's version is not known.
    #[error("{package} needs {system} {}.{} or newer, which this machine does not show", needs.0, needs.1)]
    SystemUnknown {
        /// The package.
        package: String,
        /// `glibc` or `macOS`.
        system: &'static str,
        /// The oldest version that will do.
        needs: (u32, u32),
    },
    /// The hardware is missing.
    #[error("{package} needs {needs}, and none was found")]
    NoHardware {
        /// The package.
        package: String,
        /// The hardware in words.
        needs: &'static str,
    },
}

impl Package {
    /// The wheel that runs on the machine's system, whether or not the hardware is there: what an
    /// installation by name takes.
    ///
    /// # Errors
    /// [`Unfit`] where no wheel is made for the system or the system is too old.
    pub fn wheel_for(&self, facts: &MachineFacts) -> Result<&Wheel, Unfit> {
        let wheel =
            facts.platform.and_then(|platform| self.wheel(platform)).ok_or_else(|| Unfit::NoWheel {
                package: self.name.clone(),
                version: self.version.clone(),
                platform: facts.platform.map_or_else(|| "this platform".to_owned(), |p| p.to_string()),
            })?;
        let tags = wheel.pin.tags();
        if wheel.platform.is_linux() {
            self.require_system("glibc", tags.min_glibc(), facts.glibc)?;
        } else {
            self.require_system("macOS", tags.min_macos(), facts.macos)?;
        }
        Ok(wheel)
    }

    fn require_system(
        &self,
        system: &'static str,
        needs: Option<(u32, u32)>,
        has: Option<(u32, u32)>,
    ) -> Result<(), Unfit> {
        let package = || self.name.clone();
        match (needs, has) {
            (Some(needs), None) => Err(Unfit::SystemUnknown { package: package(), system, needs }),
            (Some(needs), Some(has)) if has < needs => {
                Err(Unfit::SystemTooOld { package: package(), system, needs, has })
            }
            _ => Ok(()),
        }
    }
}

/// Decides whether `package` is of use on the machine, and which of its wheels.
///
/// Whether it is installed unasked is for [`Package::recommended`] to say.
///
/// # Errors
/// [`Unfit`] with the first reason against it.
pub fn fits<'a>(package: &'a Package, facts: &MachineFacts) -> Result<&'a Wheel, Unfit> {
    let wheel = package.wheel_for(facts)?;
    let (found, needs) = match package.needs {
        Needs::Cpu => (true, "a CPU"),
        Needs::OtherX86Cpu => (!facts.has_intel_chip, "an x86-64 CPU of another maker than Intel"),
        Needs::IntelChip => (facts.has_intel_chip, "an Intel CPU, GPU or NPU"),
        Needs::NvidiaGpu => (facts.has_nvidia_gpu, "an NVIDIA GPU with its driver"),
        Needs::AmdGpu => (facts.has_amd_gpu, "an AMD GPU with its driver"),
        Needs::AnyGpu => (facts.has_any_gpu_with_driver, "a GPU with a Vulkan, Direct3D 12 or Metal driver"),
        Needs::WindowsGpu => (facts.has_any_gpu_with_driver, "a GPU with a Direct3D 12 driver"),
        Needs::QualcommNpu => (facts.has_qualcomm_npu, "a Qualcomm NPU"),
    };
    if found { Ok(wheel) } else { Err(Unfit::NoHardware { package: package.name.clone(), needs }) }
}

impl Table {
    /// The packages to install unasked on the machine, in table order.
    pub fn recommended(&self, facts: &MachineFacts) -> Vec<(&Package, &Wheel)> {
        let candidates = self.packages().iter().filter(|package| package.recommended);
        candidates.filter_map(|package| Some((package, fits(package, facts).ok()?))).collect()
    }
}

#[cfg(test)]
mod tests;
