//! Settings: what can be set, from where each value came, and what it means.
//!
//! Invariant: a flag beats the environment, which beats the file, which beats the default; an unknown
//! key or an unusable value is refused, never passed over.

mod definitions;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use siliconroute_core::decide::{BusyChip, HotChip, Rules};
use siliconroute_core::{AccuracyClass, Goal, Workload};
use siliconroute_engine::regular_file::read_regular;

pub use self::definitions::bounds;
use self::definitions::{DEFINITIONS, Definition, Kind};
use crate::quarantine::Quarantine;

/// Where a setting's value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The command line.
    Flag,
    /// An environment variable.
    Environment,
    /// The settings file.
    File,
    /// Nothing was set.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Environment => "environment",
            Self::File => "file",
            Self::Default => "default",
        })
    }
}

/// A setting with its value, for `config show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The key in the settings file.
    pub key: &'static str,
    /// The environment variable.
    pub variable: String,
    /// The value in its text form.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
    /// What it means.
    pub meaning: &'static str,
}

impl Shown {
    fn default_of(definition: &Definition) -> Self {
        Self {
            key: definition.key,
            variable: format!("{PREFIX}{}", definition.key.to_ascii_uppercase()),
            value: definition.default.to_owned(),
            origin: Origin::Default,
            meaning: definition.meaning,
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("cannot read the settings `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The settings file is not valid TOML.
    #[error("the settings `{path}` are not valid TOML: line {line}, column {column}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1 up.
        line: usize,
        /// The column in characters, from 1 up.
        column: usize,
        /// What is wrong there, in one line.
        message: String,
    },
    /// No setting has this key.
    #[error("unknown setting `{key}` in {place}; the settings are: {known}")]
    Unknown {
        /// The key.
        key: String,
        /// The file or the environment.
        place: String,
        /// All keys.
        known: String,
    },
    /// A value is out of range or of another kind.
    #[error("the setting `{key}` ({place}) cannot be `{value}`: it must be {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// Where it was set: the file, the variable or the command line.
        place: String,
        /// The value.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// No settings file is larger, with comments of every kind.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// Prefix of all environment variables.
const PREFIX: &str = "SILICONROUTE_";

/// Environment variables with the prefix that are no settings.
const OTHER_VARIABLES: &[&str] = &[crate::home::HOME_VARIABLE];

/// All settings, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How far outputs may lie from the reference.
    pub accuracy: AccuracyClass,
    /// Whether threads and policy are measured.
    pub autotune: bool,
    /// What decisions aim at.
    pub goal: Goal,
    /// The rules by which the state of the machine changes decisions.
    pub rules: Rules,
    /// The most power that a target may draw at work, where a decision is not told another.
    pub power_budget_watts: Option<f64>,
    /// The most memory that a target may take, where a decision is not told another.
    pub ram_budget_mib: Option<u64>,
    /// When a target that fails is left out, and for how long.
    pub quarantine: Quarantine,
    /// The share of the time of served runs that exploring may cost; `None` where it is off.
    pub exploration_share: Option<f64>,
    /// Whether nothing is fetched.
    pub offline: bool,
    /// Whether the home is only read.
    pub read_only: bool,
    /// Seed of input values and of the order of trials.
    pub seed: u64,
    /// Whether software imitations of a GPU are targets.
    pub software_adapters: bool,
    /// Time between two looks at the sensors.
    pub telemetry_period_ms: u64,
    /// Sampling time of one trial beyond the least number of samples.
    pub trial_budget_ms: u64,
    /// Time after which a tuning begins no further round.
    pub tuning_budget_ms: u64,
    /// The most threads that a tuning tries.
    pub tuning_threads: u64,
    /// How long a worker may be silent.
    pub worker_deadline_s: u64,
    /// Share of the machine's memory that a worker may hold.
    pub worker_memory_percent: u64,
    shown: Vec<Shown>,
    file: Option<PathBuf>,
}

impl Settings {
    /// Resolves all settings: `flags` over `environment` over the file under `home` over the defaults.
    ///
    /// # Errors
    /// An unreadable file, an unknown key, or an unusable value.
    pub fn resolve(
        home: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &BTreeMap<&'static str, String>,
    ) -> Result<Self, SettingsError> {
        Self::resolve_at(Some(home), environment, flags)
    }

    /// [`Self::resolve`] where there may be no home to hold a file.
    ///
    /// # Errors
    /// As [`Self::resolve`].
    pub fn resolve_at(
        home: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &BTreeMap<&'static str, String>,
    ) -> Result<Self, SettingsError> {
        let mut shown: Vec<Shown> = DEFINITIONS.iter().map(Shown::default_of).collect();
        let path = home.map(crate::home::Home::settings_file);
        let file = path.as_deref().map(load_file).transpose()?.unwrap_or_default();
        let environment = parse_environment(environment)?;
        let flags = flags.iter().map(|(&key, value)| (key.to_owned(), value.clone())).collect();
        for (origin, values) in
            [(Origin::File, file), (Origin::Environment, environment), (Origin::Flag, flags)]
        {
            for setting in &mut shown {
                if let Some(value) = values.get(setting.key) {
                    setting.value.clone_from(value);
                    setting.origin = origin.clone();
                }
            }
            // A value that a nearer origin overrides must be usable too.
            Self::check(shown.clone(), path.clone())?;
        }
        // What a nearer origin overrides may well be out of proportion to the rest.
        Self::check(shown, path)?.consistent()
    }

    /// The settings where nothing is set.
    pub fn defaults() -> Self {
        let shown = DEFINITIONS.iter().map(Shown::default_of).collect();
        Self::check(shown, None).expect("a test resolves the defaults")
    }

    /// Every setting with its value and origin.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The settings file, which need not exist; `None` where there is no home.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where a setting got its value: the file, the variable or the command line, as a person would find it.
    pub fn place(&self, key: &str) -> Option<String> {
        let shown = self.shown.iter().find(|shown| shown.key == key)?;
        Some(place(shown, self.file.as_deref()))
    }

    fn check(shown: Vec<Shown>, file: Option<PathBuf>) -> Result<Self, SettingsError> {
        let values = Values { shown: &shown, file: file.as_deref() };
        Ok(Self {
            accuracy: values.parse("accuracy", parse_accuracy)?,
            autotune: values.switch("autotune")?,
            goal: values.parse("goal", parse_goal)?,
            rules: values.rules()?,
            power_budget_watts: values.number("power_budget_watts")?,
            ram_budget_mib: values.whole("ram_budget_mib")?,
            quarantine: values.quarantine()?,
            exploration_share: values.share("exploration_percent")?,
            offline: values.switch("offline")?,
            read_only: values.switch("read_only")?,
            seed: values.parse("seed", |text| text.parse().ok())?,
            software_adapters: values.switch("software_adapters")?,
            telemetry_period_ms: values.count("telemetry_period_ms")?,
            trial_budget_ms: values.count("trial_budget_ms")?,
            tuning_budget_ms: values.count("tuning_budget_ms")?,
            tuning_threads: values.count("tuning_threads")?,
            worker_deadline_s: values.count("worker_deadline_s")?,
            worker_memory_percent: values.count("worker_memory_percent")?,
            shown,
            file,
        })
    }

    /// Itself, unless a limit lies below what it is to limit.
    fn consistent(self) -> Result<Self, SettingsError> {
        let Quarantine { first, longest, .. } = self.quarantine;
        let hot = self.rules.hot_chip.is_some_and(|hot| hot.from_celsius > hot.over_celsius);
        let pairs = [
            ("quarantine_limit_minutes", "quarantine_minutes", longest < first),
            ("hot_chip_limit_celsius", "hot_chip_celsius", hot),
        ];
        let Some((limit, limited, _)) = pairs.into_iter().find(|(_, _, is_below)| *is_below) else {
            return Ok(self);
        };
        let shown = |key| self.shown.iter().find(|shown| shown.key == key).expect("every setting is shown");
        let (of_limit, of_limited) = (shown(limit), shown(limited));
        Err(SettingsError::Value {
            key: limit,
            place: place(of_limit, self.file.as_deref()),
            value: of_limit.value.clone(),
            expected: format!(
                "at least `{limited}`, which is {} ({})",
                of_limited.value,
                place(of_limited, self.file.as_deref())
            ),
        })
    }
}

fn place(shown: &Shown, file: Option<&Path>) -> String {
    match (&shown.origin, file) {
        (Origin::File, Some(path)) => format!("in `{}`", path.display()),
        (Origin::Environment, _) => format!("variable {}", shown.variable),
        (origin, _) => origin.to_string(),
    }
}

struct Values<'a> {
    shown: &'a [Shown],
    file: Option<&'a Path>,
}

impl Values<'_> {
    fn definition(key: &str) -> &'static Definition {
        DEFINITIONS.iter().find(|d| d.key == key).expect("every setting has a definition")
    }

    fn parse<T>(&self, key: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, SettingsError> {
        let shown = self.shown.iter().find(|shown| shown.key == key).expect("every setting has a definition");
        parse(&shown.value).ok_or_else(|| SettingsError::Value {
            key,
            place: place(shown, self.file),
            value: shown.value.clone(),
            expected: Self::definition(key).kind.to_string(),
        })
    }

    fn switch(&self, key: &'static str) -> Result<bool, SettingsError> {
        self.parse(key, |text| text.parse().ok())
    }

    /// A whole number within its bounds, or `None` for `off`.
    fn whole(&self, key: &'static str) -> Result<Option<u64>, SettingsError> {
        let within = |text: &str| match Self::definition(key).kind {
            Kind::Whole { off: true, .. } if text == "off" => Some(None),
            Kind::Whole { low, high, .. } => {
                text.parse().ok().filter(|value| (low..=high).contains(value)).map(Some)
            }
            _ => None,
        };
        self.parse(key, within)
    }

    /// A whole number that is never off.
    fn count(&self, key: &'static str) -> Result<u64, SettingsError> {
        Ok(self.whole(key)?.expect("a setting without `off` has a value"))
    }

    /// A number within its bounds, or `None` for `off`.
    fn number(&self, key: &'static str) -> Result<Option<f64>, SettingsError> {
        let within = |text: &str| match Self::definition(key).kind {
            Kind::Number { off: true, .. } if text == "off" => Some(None),
            Kind::Number { low, high, .. } => {
                text.parse().ok().filter(|value| (low..=high).contains(value)).map(Some)
            }
            _ => None,
        };
        self.parse(key, within)
    }

    fn share(&self, key: &'static str) -> Result<Option<f64>, SettingsError> {
        Ok(self.number(key)?.map(|percent| percent / 100.0))
    }

    fn rules(&self) -> Result<Rules, SettingsError> {
        let never_off = "a setting without `off` has a value";
        let factor = self.number("busy_chip_factor")?.expect(never_off);
        let over_celsius = self.number("hot_chip_limit_celsius")?.expect(never_off);
        Ok(Rules {
            low_battery_percent: self.number("low_battery_percent")?,
            busy_chip: self
                .number("busy_chip_percent")?
                .map(|over_percent| BusyChip { over_percent, factor }),
            hot_chip: self
                .number("hot_chip_celsius")?
                .map(|from_celsius| HotChip { from_celsius, over_celsius }),
            cold_start_margin: self.share("cold_start_percent")?,
            volatility_band: self.share("volatility_percent")?,
            quarantine: self.switch("quarantine")?,
            free_memory: self.switch("free_memory")?,
        })
    }

    fn quarantine(&self) -> Result<Quarantine, SettingsError> {
        let minutes = |key| Ok(Duration::from_secs(self.count(key)? * 60));
        Ok(Quarantine {
            failures: self.count("quarantine_failures")? as u32,
            first: minutes("quarantine_minutes")?,
            longest: minutes("quarantine_limit_minutes")?,
        })
    }
}

/// Reads an accuracy class by its name.
pub fn parse_accuracy(text: &str) -> Option<AccuracyClass> {
    AccuracyClass::ALL.into_iter().find(|class| class.to_string() == text)
}

/// Reads a goal by its name.
pub fn parse_goal(text: &str) -> Option<Goal> {
    Goal::ALL.into_iter().find(|goal| goal.to_string() == text)
}

/// Reads a workload by its name.
pub fn parse_workload(text: &str) -> Option<Workload> {
    Workload::ALL.into_iter().find(|workload| workload.name() == text)
}

fn unknown(key: &str, place: String) -> SettingsError {
    let known = DEFINITIONS.iter().map(|definition| definition.key).collect::<Vec<_>>().join(", ");
    SettingsError::Unknown { key: key.to_owned(), place, known }
}

fn load_file(path: &Path) -> Result<BTreeMap<String, String>, SettingsError> {
    use std::io::Error;
    use std::io::ErrorKind::{InvalidData, NotADirectory, NotFound};
    let utf8 = |bytes| String::from_utf8(bytes).map_err(|error| Error::new(InvalidData, error));
    let text = match read_regular(path, LARGEST_FILE_BYTES).and_then(utf8) {
        Ok(text) => text,
        // Where the home is no folder, opening it says so better than its settings can.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(BTreeMap::new()),
        Err(source) => return Err(SettingsError::Read { path: path.to_owned(), source }),
    };
    let table: toml::Table = toml::from_str(&text).map_err(|error| syntax(path, &text, &error))?;
    table
        .into_iter()
        .map(|(key, value)| {
            if !DEFINITIONS.iter().any(|definition| definition.key == key) {
                return Err(unknown(&key, format!("`{}`", path.display())));
            }
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Ok((key, text))
        })
        .collect()
}

/// Says where in `text` an error lies. The parser's own words are a drawing of several lines.
fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> SettingsError {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    SettingsError::Syntax {
        path: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message: error.message().lines().map(str::trim).collect::<Vec<_>>().join(", "),
    }
}

fn parse_environment(
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<BTreeMap<String, String>, SettingsError> {
    let mut values = BTreeMap::new();
    for (variable, value) in environment {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&variable.as_str()) {
            continue;
        }
        let key = name.to_ascii_lowercase();
        if !DEFINITIONS.iter().any(|definition| definition.key == key) {
            return Err(unknown(&key, format!("the environment (`{variable}`)")));
        }
        values.insert(key, value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests;
