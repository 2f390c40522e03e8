//! Versions of the drivers behind the GPUs and NPUs of a Linux machine.
//!
//! Invariant: no device is opened or woken; names and versions lie in the driver's own folders.

use siliconroute_core::Reading;

use super::devices::{Node, find_nodes};
use super::machine::kernel_version;
use crate::conditions::DriverVersion;
use crate::roots::{Roots, read_value, read_word};

/// The drivers of all GPUs and NPUs, each once, in order of the name.
pub(crate) fn versions(roots: &Roots) -> Reading<Vec<DriverVersion>> {
    let mut names: Vec<String> =
        find_nodes(roots).into_iter().filter_map(|Node { driver, .. }| driver).collect();
    if nvidia_version(roots).available().is_some() {
        names.push("nvidia".to_owned());
    }
    names.sort();
    names.dedup();
    let versions = names
        .into_iter()
        .map(|driver| version(roots, &driver).map(|version| DriverVersion { driver, version }));
    let mut found = Vec::new();
    for version in versions {
        match version {
            Reading::Available(version) => found.push(version),
            Reading::Unavailable(reason) => return Reading::Unavailable(reason),
        }
    }
    Reading::Available(found)
}

fn version(roots: &Roots, driver: &str) -> Reading<String> {
    // Folders of modules have underscores where the driver may have hyphens.
    let folder = roots.sys.join("module").join(super::devices::safe_name(&driver.replace('-', "_")));
    if let found @ Reading::Available(_) = read_word(&folder.join("version")) {
        return found;
    }
    if driver == "nvidia" {
        return nvidia_version(roots);
    }
    kernel_version(roots).map(|kernel| format!("Linux {kernel}"))
}

/// What NVIDIA's driver says of itself: the first word that is made of numbers and dots.
fn nvidia_version(roots: &Roots) -> Reading<String> {
    read_value(&roots.proc.join("driver/nvidia/version"), "a version", |text| {
        let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
        let numbers = |word: &&str| {
            word.contains('.')
                && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        };
        line.split_whitespace().find(numbers).map(str::to_owned)
    })
}
