//! Engine packages of this machine: what fits, what is installed, and changing that.

use std::path::{Path, PathBuf};

use serde::Serialize;
use siliconroute_engine::packages::{
    self, Installed, MemberState, Package, PackageKind, Source, Step, Table, VerifyReport, fits,
};

use crate::error::{Error, ErrorKind};
use crate::event::{Event, Listener, Stage};
use crate::machine::{describe_error, installed_packages};
use crate::router::Router;

/// Where a package to install comes from.
#[derive(Debug, Clone, Copy)]
pub enum PackageSource<'a> {
    /// It is fetched.
    Fetch,
    /// The user hands over its wheel.
    Wheel(&'a Path),
}

/// A package of the table as it stands on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackageState {
    /// The package's name.
    pub name: String,
    /// The version in the table.
    pub version: String,
    /// `runtime library` or `plugin`.
    pub kind: String,
    /// Its licence.
    pub licence: String,
    /// Bytes of its wheel for this machine; absent where there is none.
    pub size_bytes: Option<u64>,
    /// Whether this version is installed.
    pub installed: bool,
    /// Whether it is installed unasked where it fits.
    pub recommended: bool,
    /// What it is good for.
    pub why: String,
    /// Why it is of no use on this machine; absent when it fits.
    pub unfit: Option<String>,
}

/// What comparing a package with its pins found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedPackage {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Whether every file is as pinned.
    pub intact: bool,
    /// Files compared.
    pub files: usize,
    /// What is wrong, by file.
    pub faults: Vec<String>,
}

impl From<VerifyReport> for VerifiedPackage {
    fn from(report: VerifyReport) -> Self {
        Self {
            intact: report.is_intact(),
            files: report.members.len(),
            faults: report
                .members
                .iter()
                .filter(|(_, state)| *state != MemberState::Intact)
                .map(|(path, state)| format!("{path}: {state}"))
                .collect(),
            name: report.name,
            version: report.version,
        }
    }
}

/// What comparing packages with their pins found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Each package.
    pub packages: Vec<VerifiedPackage>,
    /// What lies among them and is no package; it is not used.
    pub strays: Vec<PathBuf>,
}

impl Verified {
    /// The failure that changed packages amount to; `None` when all are intact.
    pub fn failure(&self) -> Option<Error> {
        let changed: Vec<&str> = self
            .packages
            .iter()
            .filter(|package| !package.intact)
            .map(|package| package.name.as_str())
            .collect();
        let first = changed.first()?;
        Some(Error::Finding {
            kind: ErrorKind::WorkFailed,
            message: format!("not as its makers published it: {}", changed.join(", ")),
            advice: Some(reinstall(first)),
        })
    }
}

impl Router {
    /// All packages of the table, as they stand on this machine.
    pub fn package_states(&self) -> Vec<PackageState> {
        let facts = self.machine.package_facts();
        let (installed, _) = installed_packages(&self.home.packages());
        let state = |package: &Package| PackageState {
            name: package.name.clone(),
            version: package.version.clone(),
            kind: match package.kind {
                PackageKind::RuntimeLibrary => "runtime library".to_owned(),
                PackageKind::Plugin => "plugin".to_owned(),
            },
            licence: package.licence.clone(),
            size_bytes: package.wheel_for(&facts).ok().map(|wheel| wheel.pin.size_bytes()),
            installed: is_installed(&installed, package),
            recommended: package.recommended,
            why: package.why.clone(),
            unfit: fits(package, &facts).err().map(|reason| reason.to_string()),
        };
        Table::embedded().packages().iter().map(state).collect()
    }

    /// The packages that are installed unasked on this machine, by name.
    pub fn recommended_packages(&self) -> Vec<String> {
        let facts = self.machine.package_facts();
        Table::embedded().recommended(&facts).into_iter().map(|(package, _)| package.name.clone()).collect()
    }

    /// Installs one package of the table by name.
    ///
    /// # Errors
    /// When there is no such package, it has no build for this machine, or it cannot be installed.
    pub fn install_package(
        &self,
        name: &str,
        source: PackageSource<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Installed, Error> {
        let package = find_package(name)?;
        self.require_writable("install packages")?;
        let wheel = package.wheel_for(&self.machine.package_facts())?;
        let source = match source {
            PackageSource::Wheel(path) => Source::Wheel(path),
            PackageSource::Fetch if self.settings.offline => {
                return Err(Error::Offline(format!("{} {}", package.name, package.version)));
            }
            PackageSource::Fetch => Source::Fetch(self.fetcher.as_ref()),
        };
        if let Err(unfit) = fits(package, &self.machine.package_facts()) {
            listener.event(Event::Notice(format!("{unfit}; it is installed because it was asked for")));
        }
        if self.is_changed(name, listener)? {
            listener.event(Event::Notice(format!("{name} was changed since it was installed; replacing it")));
            self.remove_package(name, listener)?;
        }
        let now = u64::try_from((self.clock)() / 1000).unwrap_or(0);
        let (before, _) = installed_packages(&self.home.packages());
        let mut progress = Forward { listener, router: self };
        let installed = packages::install(&self.home.packages(), package, wheel, source, now, &mut progress)?;
        if let Source::Wheel(path) = source
            && before.contains(&installed)
        {
            let (version, path) = (&installed.version, path.display());
            listener.event(Event::Notice(format!(
                "{name} {version} is already installed; `{path}` holds the same and changes nothing"
            )));
        }
        Ok(installed)
    }

    /// Whether some installed version of a package is not what its pins say.
    fn is_changed(&self, name: &str, listener: &mut dyn Listener) -> Result<bool, Error> {
        match self.verify(Some(name), listener) {
            Ok(verified) => Ok(verified.packages.iter().any(|package| !package.intact)),
            Err(Error::Verify(error)) if matches!(*error, packages::VerifyError::NotInstalled { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes all installed versions of a package.
    ///
    /// # Errors
    /// When it is not installed or cannot be removed.
    pub fn remove_package(&self, name: &str, listener: &mut dyn Listener) -> Result<(), Error> {
        find_package(name)?;
        self.require_writable("remove packages")?;
        let mut progress = Forward { listener, router: self };
        packages::remove(&self.home.packages(), name, &mut progress)?;
        Ok(())
    }

    /// Compares the installed packages called `names`, all when there is none, with their pinned hashes.
    ///
    /// A damaged package or a stray is part of the answer and hides no other.
    ///
    /// # Errors
    /// When a package is unknown or not installed, the folder cannot be read, or the user stops.
    pub fn verify_packages(&self, names: &[String], listener: &mut dyn Listener) -> Result<Verified, Error> {
        names.iter().try_for_each(|name| find_package(name).map(drop))?;
        packages::remove_leftovers(&self.home.packages());
        if names.is_empty() {
            return self.verify(None, listener);
        }
        let mut all = Verified { packages: Vec::new(), strays: Vec::new() };
        for name in names {
            let verified = self.verify(Some(name), listener)?;
            all.packages.extend(verified.packages);
            all.strays.extend(verified.strays);
        }
        Ok(all)
    }

    /// Compares all installed versions of one package, or of all, with the table's pins, or with those of
    /// their records.
    fn verify(&self, name: Option<&str>, listener: &mut dyn Listener) -> Result<Verified, Error> {
        let mut progress = Forward { listener, router: self };
        let found = packages::verify(&self.home.packages(), Table::embedded(), name, &mut progress)?;
        let packages = found.reports.into_iter().map(VerifiedPackage::from).collect();
        Ok(Verified { packages, strays: found.strays })
    }

    /// The packages that are what their pins say; others become a notice.
    ///
    /// Only files that changed since they were last compared are read.
    ///
    /// # Errors
    /// When the user stops.
    pub(crate) fn intact_packages(
        &self,
        packages: Vec<Installed>,
        listener: &mut dyn Listener,
    ) -> Result<Vec<Installed>, Error> {
        let mut intact = Vec::new();
        for package in packages {
            let mut progress = Forward { listener, router: self };
            let report = packages::verify_changes(&package.dir, Table::embedded(), &mut progress)?;
            if report.is_intact() {
                intact.push(package);
            } else {
                listener.event(Event::Notice(changed(&report.into())));
            }
        }
        Ok(intact)
    }

    /// Installs the packages that fit this machine and are not there yet; what fails becomes a notice.
    ///
    /// # Errors
    /// When the user stops.
    pub fn install_recommended(&self, listener: &mut dyn Listener) -> Result<(), Error> {
        packages::remove_leftovers(&self.home.packages());
        let (installed, _) = installed_packages(&self.home.packages());
        let facts = self.machine.package_facts();
        let missing: Vec<&Package> = Table::embedded()
            .recommended(&facts)
            .into_iter()
            .map(|(package, _)| package)
            .filter(|package| !is_installed(&installed, package))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let obstacle = match self.read_only() {
            Some(_) => Some("nothing can be kept in the home"),
            None => self.settings.offline.then_some("offline"),
        };
        if let Some(obstacle) = obstacle {
            let names: Vec<&str> = missing.iter().map(|package| package.name.as_str()).collect();
            listener.event(Event::Notice(format!("{obstacle}: not installed: {}", names.join(", "))));
            return Ok(());
        }
        listener.event(Event::Begin { stage: Stage::Packages, steps: Some(missing.len() as u64) });
        let mut installed = Vec::new();
        for package in missing {
            let label = format!("{} {}", package.name, package.version);
            listener.event(Event::Step(label.clone()));
            match self.install_package(&package.name, PackageSource::Fetch, listener) {
                Ok(_) => installed.push(label),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                Err(error) => {
                    listener.event(Event::Notice(error_with_hint(&error)));
                    // What one fetch lacks, pip or the network, every other one lacks too.
                    if error.is_unreachable() {
                        break;
                    }
                }
            }
            listener.event(Event::StepDone);
        }
        listener.event(Event::End(installed.join(", ")));
        Ok(())
    }
}

/// An error with its causes and its hint, in one line.
pub(crate) fn error_with_hint(error: &Error) -> String {
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{}{hint}", describe_error(error))
}

/// What is wrong with a package, and what to do about it, in one line.
pub(crate) fn changed(package: &VerifiedPackage) -> String {
    let faults = package.faults.join("; ");
    let advice = reinstall(&package.name);
    format!(
        "the package {} {} was changed and is not used: {faults} ({advice})",
        package.name, package.version
    )
}

/// What repairs a damaged package.
pub(crate) fn reinstall(name: &str) -> String {
    format!("run `siliconroute packages install {name}`")
}

fn find_package(name: &str) -> Result<&'static Package, Error> {
    let table = Table::embedded();
    table.get(name).ok_or_else(|| {
        let known: Vec<&str> = table.packages().iter().map(|package| package.name.as_str()).collect();
        Error::UnknownPackage { name: name.to_owned(), known: known.join(", ") }
    })
}

fn is_installed(installed: &[Installed], package: &Package) -> bool {
    installed.iter().any(|have| have.name == package.name && have.version == package.version)
}

/// Turns a package's steps into events, and the wish to stop into a cancellation.
pub(crate) struct Forward<'a> {
    pub(crate) listener: &'a mut dyn Listener,
    pub(crate) router: &'a Router,
}

impl packages::Progress for Forward<'_> {
    fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Fetching { done_bytes, total_bytes } => {
                self.listener.event(Event::Bytes { done: done_bytes, total: total_bytes });
            }
            Step::Waiting => {
                self.listener.event(Event::Notice(
                    "another program is writing into this home; waiting until it is done".to_owned(),
                ));
            }
            Step::Checking | Step::Unpacking { .. } | Step::Done => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.router.is_cancelled()
    }
}
