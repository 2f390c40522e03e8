//! Looks for what is wrong with this set-up, and says what to do about each thing.
//!
//! Invariant: a fault is a finding and never the end of the examination: whatever can still be looked at is,
//! with a stand-in where a part is unusable. Only the user's wish to stop ends it early.

mod campaigns;
mod fetching;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use siliconroute_core::Case;
use siliconroute_store::Store;

use self::fetching::{check_fetcher, check_space, missing_packages};
use crate::catalogue::Catalogue;
use crate::engine_packages::{Forward, reinstall};
use crate::error::{Error, ErrorKind};
use crate::event::Listener;
use crate::home::{Home, HomeError};
use crate::learn::told;
use crate::machine::{PackageFault, describe_error, installed_packages};
use crate::opening::{Obstacle, Opened, ReadOnly, open_home, open_store};
use crate::router::{Options, Router};
use crate::settings::{Settings, SettingsError};
use crate::wording::{binary_size, counted};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// All is well.
    Good,
    /// It works, but could work better.
    Advice,
    /// Something is broken.
    Broken,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub subject: String,
    /// How it came out.
    pub health: Health,
    /// What was found.
    pub finding: String,
    /// What to do; absent when nothing is to be done.
    pub advice: Option<String>,
    /// The kind of failure that a broken thing leads to elsewhere.
    #[serde(skip)]
    pub failure: Option<ErrorKind>,
}

impl Check {
    fn good(subject: impl Into<String>, finding: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            health: Health::Good,
            finding: finding.into(),
            advice: None,
            failure: None,
        }
    }

    fn advice(subject: impl Into<String>, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { health: Health::Advice, advice: Some(advice.into()), ..Self::good(subject, finding) }
    }

    fn broken(
        failure: ErrorKind,
        subject: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { health: Health::Broken, failure: Some(failure), ..Self::advice(subject, finding, advice) }
    }

    fn of_error(subject: impl Into<String>, error: &Error) -> Self {
        let advice = error.hint().unwrap_or_else(|| "put right what the finding says".to_owned());
        Self::broken(error.kind(), subject, describe_error(error), advice)
    }
}

/// The worst kind of failure among `checks`; an unusable store is worse than anything else.
fn worst_failure(checks: &[Check]) -> Option<ErrorKind> {
    [ErrorKind::Store, ErrorKind::Usage, ErrorKind::NothingSuitable, ErrorKind::WorkFailed]
        .into_iter()
        .find(|kind| checks.iter().any(|check| check.failure == Some(*kind)))
}

/// The failure that `checks` amount to; `None` when nothing is broken.
pub fn failure(checks: &[Check]) -> Option<Error> {
    let kind = worst_failure(checks)?;
    let broken: Vec<&str> = checks
        .iter()
        .filter(|check| check.health == Health::Broken)
        .map(|check| check.subject.as_str())
        .collect();
    Some(Error::Finding {
        kind,
        message: format!("broken: {}", broken.join(", ")),
        advice: Some("do what the findings say, and run `siliconroute doctor` again".to_owned()),
    })
}

/// What is to be examined, as far as it could be found out.
#[derive(Debug)]
pub struct Patient {
    /// The home folder.
    pub home: Result<PathBuf, HomeError>,
    /// The settings.
    pub settings: Result<Settings, SettingsError>,
    /// What is to be said about ignored variables.
    pub ignored_variable: Option<String>,
    /// Set from outside when the user wants to stop.
    pub cancelled: Arc<AtomicBool>,
}

/// Checks home, settings, store, free space, packages, targets and knowledge.
///
/// # Errors
/// When the user stops, or there is not even a place for temporary files.
pub fn diagnose(patient: Patient, listener: &mut dyn Listener) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    if let Some(ignored) = patient.ignored_variable {
        checks.push(Check::advice("environment", ignored, "set it to an absolute path, or unset it"));
    }
    let settings = match patient.settings {
        Ok(settings) => {
            checks.push(Check::good("settings", "every value can be used"));
            settings
        }
        Err(error) => {
            checks.push(Check::of_error("settings", &error.into()));
            Settings::defaults()
        }
    };
    let opened = open(patient.home, &settings, &mut checks)?;
    let root = opened.home.root().to_owned();
    let options = Options { cancelled: patient.cancelled, ..Options::new(root, settings) };
    let router = Router::assemble(options, opened)?;
    if router.read_only.is_none() {
        checks.push(check_space(&router));
        checks.extend(check_fetcher(&router, &std::env::var_os("PATH").unwrap_or_default()));
    }
    router.examine(checks, listener)
}

/// Opens home and store, with a stand-in for what cannot be used.
fn open(
    home: Result<PathBuf, HomeError>,
    settings: &Settings,
    checks: &mut Vec<Check>,
) -> Result<Opened, Error> {
    let home = match home.and_then(|root| open_home(root, settings.read_only)) {
        Ok(home) => home,
        Err(error) => {
            checks.push(Check::of_error("home", &error.into()));
            let read_only = ReadOnly::new(Obstacle {
                reason: "there is no home".to_owned(),
                advice: "see the home".to_owned(),
            })?;
            let home = Home::at(read_only.scratch().to_owned());
            checks.push(Check::advice("store", "not looked at, since there is no home", "see the home"));
            let store = Store::open_empty(&home.store())?;
            return Ok(Opened { home, store, read_only: Some(read_only) });
        }
    };
    let path = home.store();
    let root = home.root().display().to_string();
    let (store, obstacle, fault) = match open_store(&home, Obstacle::of_setting(settings)) {
        Ok((store, obstacle)) => {
            let fault = check_store(&store);
            (store, obstacle, fault)
        }
        Err(error) => {
            let fault = Check::broken(ErrorKind::Store, "store", describe_error(&error), error.hint());
            (Store::open_empty(&path)?, None, Some(fault))
        }
    };
    checks.push(match &obstacle {
        None => Check::good("home", root),
        Some(Obstacle { reason, advice }) => Check::advice(
            "home",
            format!("nothing can be kept in {root}, so only commands that keep nothing work: {reason}"),
            format!("nothing, unless something is to be kept: then {advice}"),
        ),
    });
    let store = match fault {
        None => {
            checks.push(Check::good("store", "intact"));
            store
        }
        Some(fault) => {
            checks.push(fault);
            Store::open_empty(&path)?
        }
    };
    let read_only = obstacle.map(ReadOnly::new).transpose()?;
    Ok(Opened { home, store, read_only })
}

/// What is wrong inside a store that opens.
fn check_store(store: &Store) -> Option<Check> {
    let broken =
        |finding: String, advice: &str| Some(Check::broken(ErrorKind::Store, "store", finding, advice));
    match store.check() {
        Ok(faults) if faults.is_empty() => None,
        Ok(faults) => {
            let finding = format!("{} is damaged: {}", store.path().display(), faults.join("; "));
            broken(finding, "restore store.sqlite from a copy, or move it away to start afresh")
        }
        Err(error) => broken(describe_error(&error), error.hint()),
    }
}

impl Router {
    /// Checks store, packages, targets and knowledge of a router that could be opened.
    ///
    /// # Errors
    /// When the user stops.
    pub fn diagnose(&self, listener: &mut dyn Listener) -> Result<Vec<Check>, Error> {
        let store = check_store(&self.store).unwrap_or_else(|| Check::good("store", "intact"));
        self.examine(vec![store], listener)
    }

    fn examine(&self, mut checks: Vec<Check>, listener: &mut dyn Listener) -> Result<Vec<Check>, Error> {
        let store_is_sound =
            checks.iter().any(|check| check.subject == "store" && check.health == Health::Good);
        self.diagnose_packages(&mut checks, listener)?;
        self.diagnose_models(&mut checks, listener)?;
        if store_is_sound {
            checks.extend(self.diagnose_campaigns());
        }
        let targets = match self.targets(listener) {
            Ok(targets) => targets,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                checks.push(Check::of_error("targets", &error));
                return Ok(checks);
            }
        };
        for found in &targets.discovery.found {
            checks.push(match &found.unavailable {
                None => Check::good(found.target.key.to_string(), "runs the precision probe"),
                Some(reason) => Check::advice(
                    found.target.key.to_string(),
                    reason.clone(),
                    "nothing, unless this target should work: then update its package and its driver",
                ),
            });
        }
        if !store_is_sound {
            checks.push(Check::advice(
                "knowledge",
                "not looked at, since there is no sound store",
                "see the store",
            ));
            return Ok(checks);
        }
        match self.learn(&targets) {
            Ok(learned) => {
                checks.push(match learned.knowledge.known_cases() {
                    0 => {
                        Check::advice("knowledge", "nothing was measured yet", "run `siliconroute up --once`")
                    }
                    known => Check::good("knowledge", format!("{} measured", counted(known, "case"))),
                });
                let label = |id| learned.cases.get(&id).map_or_else(String::new, Case::label);
                checks.extend(told(&learned.doubts, label).into_iter().map(|finding| {
                    let advice = "run `siliconroute up --once`, which measures it again";
                    Check::advice("knowledge", finding, advice)
                }));
            }
            Err(error) => checks.push(Check::of_error("knowledge", &error)),
        }
        Ok(checks)
    }

    /// Names the models of the catalogue whose file was changed.
    fn diagnose_models(&self, checks: &mut Vec<Check>, listener: &mut dyn Listener) -> Result<(), Error> {
        for model in Catalogue::embedded().models() {
            match self.models().damage(&model.name, &Forward { listener, router: self }) {
                Ok(None) => {}
                Ok(Some(damage)) => {
                    checks.push(Check::of_error(format!("model {}", model.name), &damage.into()));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error.into()),
                Err(error) => checks.push(Check::of_error("models", &error.into())),
            }
        }
        Ok(())
    }

    fn diagnose_packages(&self, checks: &mut Vec<Check>, listener: &mut dyn Listener) -> Result<(), Error> {
        let (_installed, faults) = installed_packages(&self.home.packages());
        for fault in faults {
            // A damaged one is found by the verification as well.
            if let PackageFault::Unfit(finding) = fault {
                let advice = "run `siliconroute packages install` for both";
                checks.push(Check::broken(ErrorKind::WorkFailed, "packages", finding, advice));
            }
        }
        match self.verify_packages(&[], listener) {
            Ok(verified) => {
                checks.extend(verified.packages.into_iter().map(|package| {
                    let subject = format!("package {} {}", package.name, package.version);
                    if package.intact {
                        Check::good(subject, "every file has its pinned hash")
                    } else {
                        let advice = reinstall(&package.name);
                        Check::broken(ErrorKind::WorkFailed, subject, package.faults.join("; "), &advice)
                    }
                }));
                checks.extend(verified.strays.into_iter().map(|stray| {
                    let finding = format!("`{}` is no package and is not used", stray.display());
                    Check::advice("packages folder", finding, "remove it")
                }));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => checks.push(Check::broken(
                ErrorKind::WorkFailed,
                "packages",
                describe_error(&error),
                "see that the packages folder can be read",
            )),
        }
        for (package, size_bytes) in missing_packages(self) {
            checks.push(Check::advice(
                format!("package {}", package.name),
                format!("fits this machine and is not installed ({})", binary_size(size_bytes)),
                "run `siliconroute up --once`, or `siliconroute packages install` with its name",
            ));
        }
        Ok(())
    }
}
