//! The targets that are missing because their package was changed.
//!
//! Invariant: a target is called missing for its package only where that package is there and is not used.

use siliconroute_core::TargetKey;
use siliconroute_engine::packages::{Installed, PackageKind, Provider, Table};

use crate::discovery::Discovery;
use crate::error::Error;
use crate::machine::{MAIN_RUNTIME, Machine, PackageFault};
use crate::router::Router;
use crate::verified::libraries;

/// A package that was changed and is not used.
#[derive(Debug, Clone)]
pub(crate) struct LostPackage {
    /// Its name.
    pub(crate) name: String,
    /// The names in target keys of the providers that it brings.
    providers: Vec<String>,
    /// The targets that it is known to have brought.
    targets: Vec<TargetKey>,
}

impl LostPackage {
    /// Whether the target called `name` would be there if the package were.
    pub(crate) fn brings(&self, name: &str) -> bool {
        let provider = name.split_once('/').map_or("", |(_chip, rest)| rest);
        let provider = provider.split(['-', '+']).next().unwrap_or_default();
        self.targets.iter().any(|key| key.as_str() == name)
            || self.providers.iter().any(|brought| brought == provider)
    }
}

impl Router {
    /// The packages that are not used because they were changed, with what they bring when they are intact.
    pub(crate) fn lost_packages(
        &self,
        all: &[Installed],
        intact: &[Installed],
        faults: &[PackageFault],
    ) -> Result<Vec<LostPackage>, Error> {
        let changed: Vec<&Installed> = all.iter().filter(|package| !intact.contains(package)).collect();
        let before = if changed.is_empty() {
            None
        } else {
            let fingerprint = self.machine.fingerprint(all, self.settings.software_adapters);
            self.known_discovery(&Machine::discovery_key(&fingerprint, all))?
        };
        let short = |providers: &[Provider]| providers.iter().map(|it| it.short.clone()).collect::<Vec<_>>();
        let mut lost: Vec<LostPackage> = changed
            .into_iter()
            .map(|package| {
                let found = before.iter().flat_map(Discovery::available);
                let brought = found.filter(|found| {
                    libraries(&found.engine).any(|library| library.starts_with(&package.dir))
                });
                LostPackage {
                    name: package.name.clone(),
                    providers: short(&package.providers),
                    targets: brought.map(|found| found.target.key.clone()).collect(),
                }
            })
            .collect();
        let broken = faults.iter().filter_map(|fault| match fault {
            PackageFault::Damaged { package: Some(name), .. } => Table::embedded().get(name),
            PackageFault::Damaged { package: None, .. } | PackageFault::Unfit(_) => None,
        });
        lost.extend(broken.map(|package| LostPackage {
            name: package.name.clone(),
            providers: short(&package.providers),
            targets: Vec::new(),
        }));
        // A plugin is of no use without the runtime library that it plugs into.
        if let Some(runtime) = lost.iter_mut().find(|package| package.name == MAIN_RUNTIME) {
            let plugins = intact.iter().filter(|package| package.kind == PackageKind::Plugin);
            runtime.providers.extend(plugins.flat_map(|plugin| short(&plugin.providers)));
        }
        Ok(lost)
    }
}
