//! Session settings, which make a target of its own out of another one, such as `cpu/ort+threads=1`.
//!
//! Invariant: the same settings have the same text, in one order, and are read back from it as they were. A setting
//! that a provider has no way to take is refused, never passed over.

use serde::{Deserialize, Serialize};

use super::cores::Cores;
use super::{ProviderName, Target, TargetKey};

/// How the threads of a session on a CPU work; the engine's own way where nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CpuSettings {
    /// Threads within an operator, the calling one among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether threads that wait for work keep their CPU busy for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin: Option<bool>,
    /// Into how many blocks for each thread an operator's work is cut, the later ones ever smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_base: Option<u32>,
    /// Where threads beside the calling one may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
}

impl CpuSettings {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// How many of the settings say something.
    pub fn count(&self) -> usize {
        let Self { threads, spin, block_base, cores } = self;
        usize::from(threads.is_some())
            + usize::from(spin.is_some())
            + usize::from(block_base.is_some())
            + usize::from(cores.is_some())
    }

    /// The settings as name and value, in the order of a key.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let spin = self.spin.map(|spin| if spin { "on" } else { "off" }.to_owned());
        [
            ("threads", self.threads.map(|it| it.to_string())),
            ("spin", spin),
            ("block_base", self.block_base.map(|it| it.to_string())),
            ("cores", self.cores.as_ref().map(ToString::to_string)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// Settings of a session that make a target of its own out of another one, such as `cpu/ort+threads=1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionSettings {
    /// How the threads of the session work.
    pub cpu: CpuSettings,
    /// Whether the provider keeps what it compiled for the next session.
    pub compile_cache: bool,
    /// Sessions that run at the same time, each in a process of its own; one when absent.
    pub concurrency: Option<u32>,
    /// The same target a second time, for comparing it with itself.
    pub again: bool,
}

/// A setting behind a target's key that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`+{setting}` in `{key}` is no setting of a target; there are `+threads=N`, `+spin=on|off`, `+block_base=N`, \
     `+cores=performance|efficiency|0-3:6`, `+compile_cache`, `+concurrency=N` and \
     `+again`, with N from 1 to 1024"
)]
pub struct UnknownSessionSetting {
    key: String,
    setting: String,
}

/// A setting that a target cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedSetting {
    /// The provider has no such setting.
    #[error("{target} takes no `{setting}`; {takers} does")]
    NotTaken {
        /// The target.
        target: TargetKey,
        /// The setting.
        setting: &'static str,
        /// Who takes it.
        takers: &'static str,
    },
    /// There is no thread that it could be about.
    #[error("{0}: `cores` is about the threads beside the calling one, and one thread has none beside it")]
    NothingToPin(TargetKey),
    /// The processor has no such cores, or the system does not number them.
    #[error("{target}: this machine has no cores that are called {cores}: {reason}")]
    NoSuchCores {
        /// The target.
        target: TargetKey,
        /// The cores.
        cores: Cores,
        /// Why.
        reason: String,
    },
}

impl SessionSettings {
    /// The settings of the threads alone.
    pub fn of_cpu(cpu: CpuSettings) -> Self {
        Self { cpu, ..Self::default() }
    }

    /// Splits `base+setting+…` into the base target's key and its settings.
    ///
    /// # Errors
    /// When a setting is unknown, given twice or has no sensible value.
    pub fn split(text: &str) -> Result<(TargetKey, Self), UnknownSessionSetting> {
        let mut parts = text.split('+');
        let base = parts.next().unwrap_or_default();
        let mut settings = Self::default();
        for part in parts {
            let unknown = || UnknownSessionSetting { key: text.to_owned(), setting: part.to_owned() };
            let count =
                |text: &str| text.parse().ok().filter(|count| (1..=1024).contains(count)).ok_or_else(unknown);
            match part.split_once('=') {
                Some(("threads", text)) if settings.cpu.threads.is_none() => {
                    settings.cpu.threads = Some(count(text)?);
                }
                Some(("spin", text)) if settings.cpu.spin.is_none() => {
                    settings.cpu.spin = Some(match text {
                        "on" => true,
                        "off" => false,
                        _ => return Err(unknown()),
                    });
                }
                Some(("block_base", text)) if settings.cpu.block_base.is_none() => {
                    settings.cpu.block_base = Some(count(text)?);
                }
                Some(("cores", text)) if settings.cpu.cores.is_none() => {
                    settings.cpu.cores = Some(Cores::parse(text).map_err(|_no_cores| unknown())?);
                }
                Some(("concurrency", text)) if settings.concurrency.is_none() => {
                    settings.concurrency = Some(count(text)?);
                }
                None if part == "compile_cache" && !settings.compile_cache => settings.compile_cache = true,
                None if part == "again" && !settings.again => settings.again = true,
                _ => return Err(unknown()),
            }
        }
        Ok((TargetKey(base.to_owned()), settings))
    }

    /// `target` with these settings; itself when there are none.
    #[must_use]
    pub fn apply(&self, mut target: Target) -> Target {
        let mut pairs = self.cpu.pairs();
        if self.compile_cache {
            pairs.push(("compile_cache", String::new()));
        }
        pairs.extend(self.concurrency.map(|sessions| ("concurrency", sessions.to_string())));
        if self.again {
            pairs.push(("again", String::new()));
        }
        for (name, value) in pairs {
            let written = if value.is_empty() { String::new() } else { format!("={value}") };
            target.key = TargetKey(format!("{}+{name}{written}", target.key));
            // Another name for the same target is no option of it.
            if name != "again" {
                let value = if value.is_empty() { "on".to_owned() } else { value };
                target.options.insert(name.to_owned(), value);
            }
        }
        target
    }

    /// Checks that sessions of `provider`, whose target is called `target`, can have these settings.
    ///
    /// # Errors
    /// The first one that they cannot have.
    pub fn check(&self, provider: &ProviderName, target: &TargetKey) -> Result<(), RefusedSetting> {
        let CpuSettings { threads, spin, block_base, cores } = &self.cpu;
        let own_to_onnx_runtime =
            [("spin", spin.is_some()), ("block_base", block_base.is_some()), ("cores", cores.is_some())];
        for (setting, given) in own_to_onnx_runtime {
            if given && provider.as_str() != "ort" {
                let takers = "ONNX Runtime's own CPU provider, as in `cpu/ort`,";
                return Err(RefusedSetting::NotTaken { target: target.clone(), setting, takers });
            }
        }
        match (threads, cores) {
            (Some(1), Some(_)) => Err(RefusedSetting::NothingToPin(target.clone())),
            (None, Some(Cores::Listed(cpus))) if cpus.len() == 1 => {
                Err(RefusedSetting::NothingToPin(target.clone()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
