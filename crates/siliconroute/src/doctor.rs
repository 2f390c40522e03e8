//! Looks for what is wrong with this set-up, and says what to do about each thing.

use serde::Serialize;
use siliconroute_engine::packages::{Table, fits};

use crate::engine_packages::reinstall;
use crate::error::{Error, ErrorKind};
use crate::event::Listener;
use crate::machine::{PackageFault, describe_error, installed_packages};
use crate::router::Router;

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
}

impl Check {
    fn good(subject: impl Into<String>, finding: impl Into<String>) -> Self {
        Self { subject: subject.into(), health: Health::Good, finding: finding.into(), advice: None }
    }

    fn bad(health: Health, subject: impl Into<String>, finding: impl Into<String>, advice: &str) -> Self {
        Self { subject: subject.into(), health, finding: finding.into(), advice: Some(advice.to_owned()) }
    }
}

impl Router {
    /// Checks home, store, packages, targets and knowledge.
    ///
    /// # Errors
    /// When the targets cannot be looked for, or the user stops.
    pub fn diagnose(&self, listener: &mut dyn Listener) -> Result<Vec<Check>, Error> {
        let mut checks = vec![Check::good("home", self.home.root().display().to_string())];
        checks.push(match self.store.check() {
            Ok(faults) if faults.is_empty() => Check::good("store", "intact"),
            Ok(faults) => Check::bad(
                Health::Broken,
                "store",
                faults.join("; "),
                "restore store.sqlite from a copy, or move it away to start afresh",
            ),
            Err(error) => Check::bad(Health::Broken, "store", describe_error(&error), error.hint()),
        });
        self.diagnose_packages(&mut checks, listener)?;
        let targets = self.targets(listener)?;
        for found in &targets.discovery.found {
            checks.push(match &found.unavailable {
                None => Check::good(found.target.key.to_string(), "runs the precision probe"),
                Some(reason) => Check::bad(
                    Health::Advice,
                    found.target.key.to_string(),
                    reason.clone(),
                    "nothing, unless this target should work: then update its package and its driver",
                ),
            });
        }
        let learned = self.learn(&targets)?;
        let known = learned.knowledge.known_cases();
        checks.push(if known == 0 {
            Check::bad(
                Health::Advice,
                "knowledge",
                "nothing was measured yet",
                "run `siliconroute up --once`",
            )
        } else {
            Check::good("knowledge", format!("{known} cases measured"))
        });
        Ok(checks)
    }

    fn diagnose_packages(&self, checks: &mut Vec<Check>, listener: &mut dyn Listener) -> Result<(), Error> {
        let (installed, faults) = installed_packages(&self.home.packages());
        for fault in faults {
            // A damaged one is found by the verification as well.
            if let PackageFault::Unfit(finding) = fault {
                let advice = "run `siliconroute packages install` for both";
                checks.push(Check::bad(Health::Broken, "packages", finding, advice));
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
                        Check::bad(Health::Broken, subject, package.faults.join("; "), &advice)
                    }
                }));
                checks.extend(verified.strays.into_iter().map(|stray| {
                    let finding = format!("`{}` is no package and is not used", stray.display());
                    Check::bad(Health::Advice, "packages folder", finding, "remove it")
                }));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => checks.push(Check::bad(
                Health::Broken,
                "packages",
                describe_error(&error),
                "see that the packages folder can be read",
            )),
        }
        let facts = self.machine.package_facts();
        for package in Table::embedded().packages() {
            let missing = !installed.iter().any(|have| have.name == package.name);
            if missing && package.recommended && fits(package, &facts).is_ok() {
                checks.push(Check::bad(
                    Health::Advice,
                    format!("package {}", package.name),
                    "fits this machine and is not installed",
                    "run `siliconroute up --once`, or `siliconroute packages install` with its name",
                ));
            }
        }
        Ok(())
    }
}
