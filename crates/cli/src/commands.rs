//! One module for each command; this one opens the router and hands over.

mod bench;
mod config;
mod devices;
mod doctor;
mod evaluate;
mod fit;
mod fleet;
mod interruption;
mod models;
mod packages;
mod route;
mod run;
mod top;
mod tune;
mod tune_model;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute::doctor::Patient;
use siliconroute::home::Home;
use siliconroute::machine::HostProfile;
use siliconroute::models::{Given, KnownModel};
use siliconroute::run::Routing;
use siliconroute::settings::{Settings, bounds, parse_accuracy, parse_goal, parse_workload};
use siliconroute::tuning::Anew;
use siliconroute::{Error, Options, Router, array_file};
use siliconroute_core::decide::Limits;
use siliconroute_core::{Case, ChipKind, Workload};

use self::evaluate::Elsewhere;
use crate::arguments::{Arguments, CaseArguments, Command, Shape};
use crate::output::Output;
use crate::progress::Progress;

/// What every command works with.
pub(crate) struct Session<'o> {
    pub(crate) router: Router,
    pub(crate) output: &'o Output,
}

/// Runs the command that `arguments` name.
pub(crate) fn run(
    arguments: &Arguments,
    output: &Output,
    cancelled: &Arc<AtomicBool>,
) -> Result<ExitCode, Error> {
    if arguments.global.profile_info {
        output.document(&HostProfile::detect());
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = &arguments.command else { return Ok(ExitCode::SUCCESS) };
    if let Command::Completions { shell } = command {
        print_completions(*shell, output);
        return Ok(ExitCode::SUCCESS);
    }
    let home = match &arguments.global.home {
        Some(home) if home.as_os_str().is_empty() => {
            return Err(Error::Usage("the home folder must not be empty".to_owned()));
        }
        Some(home) => Ok(absolute(home)),
        None => Home::root_from_environment(),
    };
    let ignored_variable = arguments.global.home.is_none().then(Home::ignored_variable).flatten();
    if let Command::Doctor = command {
        let settings =
            Settings::resolve_at(home.as_deref().ok(), unicode_environment(), &arguments.global.settings());
        let patient = Patient { home, settings, ignored_variable, cancelled: Arc::clone(cancelled) };
        return doctor::run(patient, output);
    }
    if let Some(ignored) = ignored_variable {
        output.note(ignored);
    }
    let home = home?;
    let settings = Settings::resolve(&home, unicode_environment(), &arguments.global.settings())?;
    if let Command::Config(command) = command {
        return Ok(config::run(command, &settings, output));
    }
    let told = |error| interruption::told(command, error);
    if let Command::Evaluate(command) = command {
        let stop = || cancelled.load(Ordering::Relaxed);
        let elsewhere = Elsewhere { seed: settings.seed, output, stop: &stop, told: &told };
        if let Some(ran) = evaluate::run_on_files(command, &elsewhere) {
            return ran;
        }
    }
    let options = Options { cancelled: Arc::clone(cancelled), ..Options::new(home, settings) };
    let session = Session { router: Router::open(options)?, output };
    if let Some(reason) = session.router.read_only() {
        output.note(format!("nothing of this is kept in the home: {reason}"));
    }
    let anew = if arguments.global.recalibrate { Anew::Always } else { Anew::IfNeeded };
    if anew == Anew::Always && !has_its_own_tuning(command) {
        session.router.tune(anew, &mut session.progress())?;
    }
    let ran = match command {
        Command::Up(command) => up::run(&session, command, anew),
        Command::Tune(command) => tune::run(&session, command, anew),
        Command::Devices(command) => devices::run(&session, command),
        Command::Packages(command) => packages::run(&session, command),
        Command::Models(command) => models::run(&session, command),
        Command::Top(top) => top::run(&session, top, &told),
        Command::Bench(command) => bench::run(&session, command),
        Command::Fit => fit::run(&session),
        Command::Route(command) => route::run(&session, command, &told),
        Command::Run(command) => run::run(&session, command),
        Command::Evaluate(command) => evaluate::run(&session, command, &told),
        Command::Export(command) => fleet::export(&session, command),
        Command::Import(command) => fleet::import(&session, command),
        Command::Doctor | Command::Config(_) | Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    };
    ran.map_err(told)
}

/// Whether the command tunes the machine itself, as a part of its work.
fn has_its_own_tuning(command: &Command) -> bool {
    match command {
        Command::Up(_) => true,
        Command::Tune(tune) => tune.model.is_none(),
        _ => false,
    }
}

impl<'o> Session<'o> {
    pub(crate) fn progress(&self) -> Progress<'o> {
        Progress::new(self.output)
    }

    /// Finds a model and binds its free dimensions.
    pub(crate) fn case(
        &self,
        reference: &str,
        batch: Option<u64>,
        shape: &Shape,
    ) -> Result<(KnownModel, Case), Error> {
        let given = given(batch, shape)?;
        let model = self.router.find_model(reference, &mut self.progress())?;
        let case = self.router.models().case(&model, &given)?;
        Ok((model, case))
    }
}

/// Variables that are not Unicode cannot be settings.
fn unicode_environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
}

/// What the arguments say about free dimensions.
pub(crate) fn given(batch: Option<u64>, shape: &Shape) -> Result<Given, Error> {
    if batch == Some(0) {
        return Err(Error::Usage("batch 0 holds nothing to compute; the least batch is 1".to_owned()));
    }
    let shapes = shape
        .shape
        .iter()
        .map(|text| array_file::parse_shape_argument(text).map_err(|error| Error::Usage(error.to_string())))
        .collect::<Result<_, _>>()?;
    Ok(Given { batch, shapes })
}

fn refuse(what: &str, text: &str, names: &str) -> Error {
    Error::Usage(format!("unknown {what} `{text}`; it must be {names}"))
}

/// The workload that an argument names.
pub(crate) fn workload(argument: Option<&str>) -> Result<Option<Workload>, Error> {
    let named = argument.map(|text| {
        parse_workload(text).ok_or_else(|| refuse("workload", text, "sustained, idle_loaded or cold_start"))
    });
    named.transpose()
}

/// How the arguments want a case decided.
pub(crate) fn routing(arguments: &CaseArguments) -> Result<Routing, Error> {
    let goal = arguments.goal.as_deref().map(|text| {
        parse_goal(text).ok_or_else(|| refuse("goal", text, "fastest, battery, balanced or cool"))
    });
    let accuracy = arguments.accuracy.as_deref().map(|text| {
        parse_accuracy(text).ok_or_else(|| refuse("accuracy class", text, "exact, standard or relaxed"))
    });
    Ok(Routing {
        target: None,
        chip_kind: None,
        isolated: true,
        workload: workload(arguments.workload.as_deref())?,
        inferences: None,
        goal: goal.transpose()?,
        accuracy: accuracy.transpose()?,
        limits: limits(arguments)?,
    })
}

/// A bound as a person would write it.
fn plain(bound: f64) -> String {
    if (1e-4..1e10).contains(&bound) { bound.to_string() } else { format!("{bound:e}") }
}

/// What the arguments say that a target must keep to.
fn limits(arguments: &CaseArguments) -> Result<Limits, Error> {
    let within = |flag: &str, what: &str, value: Option<f64>, low: f64, high: f64| match value {
        Some(value) if !(low..=high).contains(&value) => {
            let (low, high) = (plain(low), plain(high));
            Err(Error::Usage(format!("{flag} {value} is no number of {what}; give one from {low} to {high}")))
        }
        value => Ok(value),
    };
    // As nanoseconds, or a millionth of it, it has to be a number still.
    let positive = |flag, what, value| within(flag, what, value, 1e-9, 1e15);
    // A flag takes what the setting of the same meaning takes.
    let as_setting = |flag, what, value, key| {
        let (low, high) = bounds(key).expect("a setting that is a budget has bounds");
        within(flag, what, value, low, high)
    };
    let mebibytes = arguments.ram_budget;
    as_setting("--ram-budget", "MiB", mebibytes.map(|it| it as f64), "ram_budget_mib")?;
    Ok(Limits {
        deadline_ns: positive("--deadline", "milliseconds", arguments.deadline)?.map(|ms| ms * 1e6),
        least_per_second: positive("--throughput", "inferences a second", arguments.throughput)?,
        memory_bytes: mebibytes.map(|mebibytes| mebibytes << 20),
        power_watts: as_setting("--power-budget", "watts", arguments.power_budget, "power_budget_watts")?,
    })
}

/// The kind of chip that a word of `--device` means; `None` for `auto` and for target keys.
pub(crate) fn chip_kind(word: &str) -> Option<ChipKind> {
    [ChipKind::Cpu, ChipKind::Gpu, ChipKind::Npu].into_iter().find(|kind| kind.to_string() == word)
}

/// Where a path that a user named lies, for messages.
pub(crate) fn absolute(path: &std::path::Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_no_folder| path.to_owned())
}

fn print_completions(shell: clap_complete::Shell, output: &Output) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::arguments::command(), "siliconroute", &mut script);
    output.verbatim(String::from_utf8_lossy(&script).trim_end());
}

#[cfg(test)]
mod tests;
