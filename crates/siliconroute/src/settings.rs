//! Settings: what can be set, from where each value came, and what it means.
//!
//! Invariant: a flag beats the environment, which beats the file, which beats the default; an unknown
//! key or an unusable value is refused, never passed over.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use siliconroute_core::decide::{BusyChip, HotChip, Rules};
use siliconroute_core::{AccuracyClass, Goal, Workload};
use siliconroute_engine::regular_file::read_regular;

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
        expected: &'static str,
    },
}

struct Definition {
    key: &'static str,
    default: &'static str,
    expected: &'static str,
    meaning: &'static str,
}

/// No settings file is larger, with comments of every kind.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// Prefix of all environment variables.
const PREFIX: &str = "SILICONROUTE_";

/// Environment variables with the prefix that are no settings.
const OTHER_VARIABLES: &[&str] = &[crate::home::HOME_VARIABLE];

const DEFINITIONS: &[Definition] = &[
    Definition {
        key: "accuracy",
        default: "standard",
        expected: "exact, standard or relaxed",
        meaning: "how far outputs may lie from the reference",
    },
    Definition {
        key: "autotune",
        default: "true",
        expected: "true or false",
        meaning: "measure how many threads are best; else 4 and Static",
    },
    Definition {
        key: "busy_chip_factor",
        default: "1.3",
        expected: "a number from 1 to 100",
        meaning: "how much slower a busy GPU or NPU counts",
    },
    Definition {
        key: "busy_chip_percent",
        default: "80",
        expected: "a number from 0 to 100, or off",
        meaning: "a GPU or NPU that others load over this is busy",
    },
    Definition {
        key: "cold_start_percent",
        default: "30",
        expected: "a number from 0 to 100, or off",
        meaning: "a cold start leaves the CPU only for a target that is faster by over this",
    },
    Definition {
        key: "exploration_percent",
        default: "1",
        expected: "a number from 0 to 100, or off",
        meaning: "the share of the time of served runs that exploring may cost",
    },
    Definition {
        key: "free_memory",
        default: "true",
        expected: "true or false",
        meaning: "leave out targets that were seen to take more memory than is free",
    },
    Definition {
        key: "goal",
        default: "fastest",
        expected: "fastest, battery, balanced or cool",
        meaning: "what decisions aim at",
    },
    Definition {
        key: "hot_chip_celsius",
        default: "75",
        expected: "a number from 0 to 200, or off",
        meaning: "with the goal cool, a chip counts as slower from here on",
    },
    Definition {
        key: "hot_chip_limit_celsius",
        default: "87",
        expected: "a number from 0 to 200",
        meaning: "with the goal cool, a chip over this is left out",
    },
    Definition {
        key: "low_battery_percent",
        default: "30",
        expected: "a number from 0 to 100, or off",
        meaning: "on battery with less charge, energy decides",
    },
    Definition {
        key: "offline",
        default: "false",
        expected: "true or false",
        meaning: "fetch no packages and no models",
    },
    Definition {
        key: "power_budget_watts",
        default: "off",
        expected: "a number from 0 to 100000, or off",
        meaning: "leave out targets that draw more at work",
    },
    Definition {
        key: "quarantine",
        default: "true",
        expected: "true or false",
        meaning: "leave out targets that failed lately",
    },
    Definition {
        key: "quarantine_failures",
        default: "2",
        expected: "a whole number from 1 to 1000",
        meaning: "failures in a row after which a target is left out",
    },
    Definition {
        key: "quarantine_limit_minutes",
        default: "1440",
        expected: "a whole number from 1 to 525600",
        meaning: "the longest that a target is left out; after as long its failures are forgotten",
    },
    Definition {
        key: "quarantine_minutes",
        default: "10",
        expected: "a whole number from 1 to 525600",
        meaning: "how long a target is left out first; each further failure doubles it",
    },
    Definition {
        key: "ram_budget_mib",
        default: "off",
        expected: "a whole number from 1 to 1000000000, or off",
        meaning: "leave out targets that were seen to take more memory",
    },
    Definition {
        key: "read_only",
        default: "false",
        expected: "true or false",
        meaning: "keep nothing: work on a copy of the store",
    },
    Definition {
        key: "seed",
        default: "1",
        expected: "a whole number",
        meaning: "seed of input values and of the order of trials",
    },
    Definition {
        key: "software_adapters",
        default: "false",
        expected: "true or false",
        meaning: "take software imitations of a GPU for targets",
    },
    Definition {
        key: "telemetry_period_ms",
        default: "1000",
        expected: "a whole number from 100 to 60000",
        meaning: "time between two looks at the sensors",
    },
    Definition {
        key: "trial_budget_ms",
        default: "200",
        expected: "a whole number from 1 to 600000",
        meaning: "time for the samples of one trial beyond the least number",
    },
    Definition {
        key: "tuning_budget_ms",
        default: "140",
        expected: "a whole number from 1 to 60000",
        meaning: "time after which a tuning begins no further round",
    },
    Definition {
        key: "tuning_threads",
        default: "16",
        expected: "a whole number from 1 to 1024",
        meaning: "the most threads that a tuning tries",
    },
    Definition {
        key: "volatility_percent",
        default: "15",
        expected: "a number from 0 to 100, or off",
        meaning: "of two targets within this that cannot be told apart, take the steadier",
    },
    Definition {
        key: "worker_deadline_s",
        default: "60",
        expected: "a whole number from 1 to 86400",
        meaning: "a worker that does not answer for so long is ended",
    },
    Definition {
        key: "worker_memory_percent",
        default: "70",
        expected: "a whole number from 1 to 100",
        meaning: "a worker that holds more of the machine's memory is ended",
    },
];

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
        Self::check(shown, path)
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

    /// Where a setting got its value: the file, the variable or the command line, as a person would find it.
    pub fn place(&self, key: &str) -> Option<String> {
        let shown = self.shown.iter().find(|shown| shown.key == key)?;
        Some(place(shown, self.file.as_deref()))
    }

    fn check(shown: Vec<Shown>, file: Option<PathBuf>) -> Result<Self, SettingsError> {
        let values = Values { shown: &shown, file: file.as_deref() };
        Ok(Self {
            accuracy: values.parse("accuracy", parse_accuracy)?,
            autotune: values.parse("autotune", |text| text.parse().ok())?,
            goal: values.parse("goal", parse_goal)?,
            rules: values.rules()?,
            power_budget_watts: values.limit("power_budget_watts", 100_000.0)?,
            ram_budget_mib: values.parse("ram_budget_mib", |text| match text {
                "off" => Some(None),
                text => in_range(text, 1, 1_000_000_000).map(Some),
            })?,
            quarantine: values.quarantine()?,
            exploration_share: values.limit("exploration_percent", 100.0)?.map(|percent| percent / 100.0),
            offline: values.parse("offline", |text| text.parse().ok())?,
            read_only: values.parse("read_only", |text| text.parse().ok())?,
            seed: values.parse("seed", |text| text.parse().ok())?,
            software_adapters: values.parse("software_adapters", |text| text.parse().ok())?,
            telemetry_period_ms: values.parse("telemetry_period_ms", |text| in_range(text, 100, 60_000))?,
            trial_budget_ms: values.parse("trial_budget_ms", |text| in_range(text, 1, 600_000))?,
            tuning_budget_ms: values.parse("tuning_budget_ms", |text| in_range(text, 1, 60_000))?,
            tuning_threads: values.parse("tuning_threads", |text| in_range(text, 1, 1024))?,
            worker_deadline_s: values.parse("worker_deadline_s", |text| in_range(text, 1, 86_400))?,
            worker_memory_percent: values.parse("worker_memory_percent", |text| in_range(text, 1, 100))?,
            shown,
            file,
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
    fn parse<T>(&self, key: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, SettingsError> {
        let shown = self.shown.iter().find(|shown| shown.key == key).expect("every setting has a definition");
        let definition = DEFINITIONS.iter().find(|d| d.key == key).expect("every setting has a definition");
        parse(&shown.value).ok_or_else(|| SettingsError::Value {
            key,
            place: place(shown, self.file),
            value: shown.value.clone(),
            expected: definition.expected,
        })
    }
}

impl Values<'_> {
    fn rules(&self) -> Result<Rules, SettingsError> {
        let share = |key| Ok(self.limit(key, 100.0)?.map(|percent| percent / 100.0));
        let factor = self.parse("busy_chip_factor", |text| number(text, 1.0, 100.0))?;
        let over_celsius = self.parse("hot_chip_limit_celsius", |text| number(text, 0.0, 200.0))?;
        Ok(Rules {
            low_battery_percent: self.limit("low_battery_percent", 100.0)?,
            busy_chip: self
                .limit("busy_chip_percent", 100.0)?
                .map(|over_percent| BusyChip { over_percent, factor }),
            hot_chip: self
                .limit("hot_chip_celsius", 200.0)?
                .map(|from_celsius| HotChip { from_celsius, over_celsius }),
            cold_start_margin: share("cold_start_percent")?,
            volatility_band: share("volatility_percent")?,
            quarantine: self.parse("quarantine", |text| text.parse().ok())?,
            free_memory: self.parse("free_memory", |text| text.parse().ok())?,
        })
    }

    fn quarantine(&self) -> Result<Quarantine, SettingsError> {
        let minutes = |key| {
            let minutes = self.parse(key, |text| in_range(text, 1, 525_600))?;
            Ok(Duration::from_secs(minutes * 60))
        };
        let failures = self.parse("quarantine_failures", |text| in_range(text, 1, 1_000))?;
        Ok(Quarantine {
            failures: failures as u32,
            first: minutes("quarantine_minutes")?,
            longest: minutes("quarantine_limit_minutes")?,
        })
    }

    /// A number from 0 to `high`, or `None` for `off`.
    fn limit(&self, key: &'static str, high: f64) -> Result<Option<f64>, SettingsError> {
        self.parse(key, |text| if text == "off" { Some(None) } else { number(text, 0.0, high).map(Some) })
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

fn in_range(text: &str, low: u64, high: u64) -> Option<u64> {
    text.parse().ok().filter(|value| (low..=high).contains(value))
}

fn number(text: &str, low: f64, high: f64) -> Option<f64> {
    text.parse().ok().filter(|value| (low..=high).contains(value))
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
