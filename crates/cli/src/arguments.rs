//! The arguments of every command.
//!
//! Invariant: long flags everywhere, short ones only where the neighbouring tools agree on them.

mod bench;
mod fleet;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use siliconroute::evaluation::USUAL_DECISIONS;

pub(crate) use self::bench::{Bench, Format, LONGEST_REST_S};
pub(crate) use self::fleet::{Export, Import};

/// Exit codes, as shown by `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the work failed
  2    wrong usage, a bad input or model
  3    nothing suitable: no target, no package, no build for this machine
  4    the home is unusable: its store, or there is no room for what must be kept there
  130  interrupted

With --json there is exactly one document, and whenever the exit code is not 0 it holds
\"error\": {\"code\", \"exit_code\", \"message\", \"hint\"}. A result that is a failure, such as
a benchmark or an evaluation that was interrupted, or a benchmark in which a case was not
measured, keeps its schema and has the error in it; without a result the schema is
siliconroute.error/1. The code is work_failed, usage, nothing_suitable, store or
interrupted; the hint may be null.";

/// Measures ONNX models on every chip of this machine and routes each inference to the best one.
#[derive(Debug, Parser)]
#[command(name = "siliconroute", bin_name = "siliconroute", version, after_help = EXIT_CODES, propagate_version = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    // Only `--profile-info` does without one.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The names of the command and of those inside of it, as they were given.
    #[arg(skip)]
    given: Vec<String>,
}

/// The command line as clap knows it.
pub(crate) fn command() -> clap::Command {
    let number = |argument: clap::Arg| {
        // Else a number below 0 is told to be an unknown flag, and not what is wrong with it.
        if argument.get_action().takes_values() { argument.allow_negative_numbers(true) } else { argument }
    };
    Arguments::command().mut_subcommands(move |command| {
        command.mut_args(number).mut_subcommands(move |inner| inner.mut_args(number))
    })
}

/// Reads the arguments of this program.
///
/// # Errors
/// When they are not understood, or help is asked for.
pub(crate) fn parse() -> Result<Arguments, clap::Error> {
    Arguments::of(&command().try_get_matches()?)
}

impl Arguments {
    /// The arguments with the names of their commands.
    fn of(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let named = |within: &clap::ArgMatches| {
            within.subcommand().map(|(name, inner)| (name.to_owned(), inner.clone()))
        };
        let names = std::iter::successors(named(matches), |(_, inner)| named(inner)).map(|(name, _)| name);
        Ok(Self { given: names.collect(), ..Self::from_arg_matches(matches)? })
    }

    /// A refusal with the usage of the command that was given.
    pub(crate) fn misuse(&self, kind: clap::error::ErrorKind, message: &str) -> clap::Error {
        let mut root = command();
        root.build();
        let mut asked = &mut root;
        for name in &self.given {
            asked = asked.find_subcommand_mut(name).expect("it was given");
        }
        asked.error(kind, message)
    }

    /// Whether standard output is for one JSON document.
    pub(crate) fn wants_document(&self) -> bool {
        let format = match &self.command {
            Some(Command::Bench(bench)) => bench.output,
            _ => None,
        };
        self.global.json || format == Some(Format::Json)
    }

    /// What of the arguments goes against one another or would be ignored, in a sentence.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.global.no_autotune && self.global.recalibrate {
            return Some("--no-autotune measures nothing, so --recalibrate would be ignored".to_owned());
        }
        let tunes_nothing = match &self.command {
            Some(Command::Doctor) => Some("doctor"),
            Some(Command::Config(_)) => Some("config"),
            Some(Command::Completions { .. }) => Some("completions"),
            Some(Command::Evaluate(evaluate)) => evaluate.without_home(),
            _ => None,
        };
        if matches!(self.command, Some(Command::Completions { .. })) && self.global.json {
            return Some("`completions` prints a script for a shell, so --json would be ignored".to_owned());
        }
        if let Some(name) = tunes_nothing.filter(|_| self.global.recalibrate) {
            return Some(format!(
                "`{name}` opens no home to keep a tuning in, so --recalibrate would be ignored"
            ));
        }
        match &self.command {
            Some(Command::Bench(bench)) => bench.contradiction(self.global.json),
            Some(Command::Run(run)) => run.contradiction(),
            _ => None,
        }
    }
}

/// Where the help lists the flags that every command takes.
const GLOBAL: &str = "Global options";

/// What the help says of the home and of the variable that names it.
const HOME: &str =
    "The home folder: store, packages, models, and settings in its config.toml [env: SILICONROUTE_HOME]";

/// Flags that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON document on standard output, and nothing else there.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
    /// The home folder.
    // Its variable is not read by clap, which would show the flag in usage texts as if it had been written.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "DIR", help = HOME)]
    pub(crate) home: Option<PathBuf>,
    /// Show no progress; notices that change what the result means are shown.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) quiet: bool,
    /// Show more of what happens; twice for everything.
    #[arg(short, long, global = true, help_heading = GLOBAL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Fetch nothing.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) offline: bool,
    /// Seed of input values and of the order of trials.
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Tune nothing: 4 threads, Static.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) no_autotune: bool,
    /// Tune this machine anew before anything else.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) recalibrate: bool,
    /// Print the hardware id and the facts of the host as JSON, and do nothing else.
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) profile_info: bool,
}

impl Global {
    /// The settings that were given as flags.
    pub(crate) fn settings(&self) -> BTreeMap<&'static str, String> {
        let mut flags = BTreeMap::new();
        if self.offline {
            flags.insert("offline", "true".to_owned());
        }
        if self.no_autotune {
            flags.insert("autotune", "false".to_owned());
        }
        if let Some(seed) = self.seed {
            flags.insert("seed", seed.to_string());
        }
        flags
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up, measure, learn, decide and check: the first start and every start.
    Up(Up),
    /// List chips and targets, with the reason for each that cannot be used.
    Devices(Devices),
    /// List, install, remove and verify engine packages.
    #[command(subcommand)]
    Packages(Packages),
    /// List, fetch, inspect and generate models.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Find how many threads are best on this machine, and how work is best divided among them.
    Tune(Tune),
    /// Show what the machine's sensors tell: load, clocks, power, heat, memory.
    ///
    /// A live view on a terminal, which Ctrl-C ends with exit code 0; elsewhere a line for each look. What cannot be
    /// read is shown with the reason. A chip that is watched may not go to sleep.
    Top(Top),
    /// Measure models on targets.
    Bench(Bench),
    /// Show the hardware models fitted to this machine's measurements.
    Fit,
    /// Decide where a model should run, and explain it.
    Route(Route),
    /// Run one inference on the best target.
    Run(Run),
    /// Check decisions against new measurements, beside baselines.
    Evaluate(Evaluate),
    /// Write this machine's measurements to a file for other machines.
    Export(Export),
    /// Read other machines' measurements from files, list them, forget them.
    Import(Import),
    /// Find what is wrong with this set-up and what to do about it.
    Doctor,
    /// Show the settings.
    #[command(subcommand)]
    Config(Config),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Stop after the self-check.
    #[arg(long)]
    pub(crate) once: bool,
    /// Show the results in the browser, too.
    #[arg(long)]
    pub(crate) open: bool,
    /// Models of your own, measured besides the starter models: files or names.
    #[arg(value_name = "MODEL")]
    pub(crate) models: Vec<String>,
}

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub(crate) struct Devices {
    #[command(subcommand)]
    pub(crate) command: Option<DevicesCommand>,
}

/// What else `devices` does.
#[derive(Debug, Subcommand)]
pub(crate) enum DevicesCommand {
    /// Load one target for some seconds and show by the sensors which chip answers.
    ///
    /// Ends with exit code 1 when another chip than the target names did the work, and with 0 when it did or the
    /// sensors cannot tell.
    Identify {
        /// The target's key.
        #[arg(value_name = "TARGET")]
        target: String,
        /// How long it is loaded: 0.5 to 600 seconds.
        #[arg(long, value_name = "N", default_value_t = 5.0)]
        seconds: f64,
    },
}

/// Arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Show one look and end; so does --json without --seconds.
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) once: bool,
    /// Show looks for so long and end: 0.1 to 86400 seconds.
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<f64>,
    /// Seconds between two looks, 0.1 to 60; the setting `telemetry_period_ms` when absent.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) interval: Option<f64>,
    /// Keep in the store what is seen.
    #[arg(long)]
    pub(crate) record: bool,
}

/// Arguments of `packages`.
#[derive(Debug, Subcommand)]
pub(crate) enum Packages {
    /// List all packages, whether they fit this machine and whether they are installed.
    List,
    /// Install packages by name.
    Install {
        /// The packages; those that fit this machine when none is named.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Take this wheel instead of fetching it; for one named package.
        #[arg(long, value_name = "FILE")]
        wheel: Option<PathBuf>,
    },
    /// Remove installed packages.
    Remove {
        /// The packages.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Compare every installed file with its pinned hash.
    Verify {
        /// The packages; all installed ones when none is named.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Arguments of `models`.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the catalogue and the models measured so far.
    List,
    /// Remember models of your own.
    Add {
        /// The model files.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<String>,
    },
    /// Fetch models of the catalogue.
    Fetch {
        /// The models; all of the catalogue when none is named.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Show parameters, bytes, operators and the work of one call.
    Inspect {
        /// A model file or name.
        #[arg(value_name = "MODEL")]
        model: String,
        #[command(flatten)]
        shape: Shape,
    },
    /// Write synthetic models.
    Generate {
        /// Names such as mlp-256w-4l, conv-96c-4l, attn-256d-2l; the published ladder when none is named.
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The folder to write to; the home's when absent.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
}

/// Arguments of `tune`.
#[derive(Debug, Args)]
pub(crate) struct Tune {
    /// Measure all seven policies, which is the default.
    #[arg(long, conflicts_with = "model")]
    pub(crate) all_policies: bool,
    /// Find the thread settings that suit this model, a file or name, on the CPU's targets, instead of tuning the
    /// machine. Sessions of it take what is found from then on.
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The model's batch size.
    #[arg(long, value_name = "N", requires = "model")]
    pub(crate) batch: Option<u64>,
    /// Shapes of the model's inputs, such as x:1,3,224,224; repeatable.
    #[arg(long, value_name = "NAME:SIZES", requires = "model")]
    pub(crate) shape: Vec<String>,
    /// Keys of targets on the CPU, separated by commas; all that can be tuned when absent.
    #[arg(short, long, value_name = "DEVICE", value_delimiter = ',', requires = "model")]
    pub(crate) device: Vec<String>,
    /// What the settings are to be good for: fastest, or battery, which takes the least processor time among those
    /// that are at most 5 % slower than the fastest [default: fastest].
    #[arg(long, value_name = "GOAL", requires = "model")]
    pub(crate) goal: Option<String>,
    /// Forget what was found for the model, with all its batch sizes and shapes, and measure nothing.
    #[arg(long, requires = "model", conflicts_with_all = ["batch", "shape", "device", "goal"])]
    pub(crate) forget: bool,
}

/// How free dimensions are bound.
#[derive(Debug, Args)]
pub(crate) struct Shape {
    /// Shapes of inputs, such as x:1,3,224,224; repeatable.
    #[arg(long, value_name = "NAME:SIZES")]
    pub(crate) shape: Vec<String>,
}

/// Arguments that name a case and how it is to be decided.
#[derive(Debug, Args)]
pub(crate) struct CaseArguments {
    /// A model file or name.
    #[arg(short, long, value_name = "MODEL", required = true)]
    model: Option<String>,
    /// The batch size.
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// The workload: `sustained`, `idle_loaded` or `cold_start`; inferred when absent.
    #[arg(long, value_name = "WORKLOAD")]
    pub(crate) workload: Option<String>,
    /// The goal: fastest, battery, balanced or cool.
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Option<String>,
    /// Milliseconds by which an inference is to be done with 95 % certainty; the cheapest target that meets it is taken.
    #[arg(long, value_name = "MS")]
    pub(crate) deadline: Option<f64>,
    /// Inferences a second that are to be reached with 95 % certainty, one after the other; the cheapest target that
    /// reaches them is taken. A batch counts as one.
    #[arg(long, value_name = "N")]
    pub(crate) throughput: Option<f64>,
    /// Leave out targets that draw more watts than this at work; the setting `power_budget_watts` when absent.
    #[arg(long, value_name = "WATTS")]
    pub(crate) power_budget: Option<f64>,
    /// Leave out targets that take more mebibytes of memory than this; the setting `ram_budget_mib` when absent.
    #[arg(long, value_name = "MIB")]
    pub(crate) ram_budget: Option<u64>,
    /// The accuracy class: exact, standard or relaxed.
    #[arg(long, value_name = "CLASS")]
    pub(crate) accuracy: Option<String>,
}

impl CaseArguments {
    /// The model file or name.
    pub(crate) fn model(&self) -> &str {
        self.model.as_deref().expect("a command that decides a case does not start without a model")
    }
}

/// What asks for a new decision, and would be ignored beside stored ones.
const OF_A_NEW_DECISION: [&str; 14] = [
    "model",
    "batch",
    "shape",
    "workload",
    "goal",
    "deadline",
    "throughput",
    "power_budget",
    "ram_budget",
    "accuracy",
    "explain",
    "inferences",
    "rest",
    "verify",
];

/// Arguments of `route`.
#[derive(Debug, Args)]
#[command(mut_arg("model", |model| model.required(false).required_unless_present_any(["list", "replay"])))]
pub(crate) struct Route {
    #[command(flatten)]
    pub(crate) case: CaseArguments,
    /// Show what each prediction rests on.
    #[arg(long)]
    pub(crate) explain: bool,
    /// How many inferences are to follow, from which the workload is inferred: one is a cold start, more are sustained.
    #[arg(long, value_name = "N", conflicts_with = "workload")]
    pub(crate) inferences: Option<u64>,
    /// How long the target will have rested before an idle-loaded inference [default: 10].
    #[arg(long, value_name = "SECONDS")]
    pub(crate) rest: Option<f64>,
    /// Measure all candidates now and show the regret.
    #[arg(long)]
    pub(crate) verify: bool,
    /// List the latest decisions, with what came of them.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", conflicts_with = "replay", conflicts_with_all = OF_A_NEW_DECISION, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) list: Option<u32>,
    /// Make the stored decision of this number again, from what is stored of it alone.
    #[arg(long, value_name = "ID", conflicts_with_all = OF_A_NEW_DECISION)]
    pub(crate) replay: Option<i64>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) case: CaseArguments,
    /// auto, cpu, gpu, npu or one target key.
    #[arg(short, long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Inputs from a .npz, .npy or .json file; made from the seed when absent.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Write the outputs to this .npz, .npy or .json file.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
}

impl Run {
    /// What decides among targets where one of them is named, in a sentence.
    fn contradiction(&self) -> Option<String> {
        let is_named = self.device != "auto" && crate::commands::chip_kind(&self.device).is_none();
        let given = [
            ("--goal", self.case.goal.is_some()),
            ("--deadline", self.case.deadline.is_some()),
            ("--throughput", self.case.throughput.is_some()),
            ("--power-budget", self.case.power_budget.is_some()),
            ("--ram-budget", self.case.ram_budget.is_some()),
        ];
        let (flag, _) = given.into_iter().find(|(_, given)| is_named && *given)?;
        Some(format!("--device {} leaves nothing to decide, so {flag} would be ignored", self.device))
    }
}

/// Arguments of `evaluate`.
#[derive(Debug, Args)]
pub(crate) struct Evaluate {
    /// Models to evaluate: files or names; all measured cases when none is named.
    #[arg(short, long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// Batch sizes of the named models, separated by commas.
    #[arg(long, value_name = "N", value_delimiter = ',', requires = "models")]
    pub(crate) batch: Vec<u64>,
    /// Print the latest stored checks and measure nothing.
    #[arg(long)]
    pub(crate) stored: bool,
    /// Leave out each measured model in turn, decide it as if it had never been seen, and judge by the stored trials;
    /// nothing is measured.
    #[arg(long, conflicts_with_all = ["stored", "corpus", "replay"])]
    pub(crate) leave_out: bool,
    /// How many decisions to check, in equal parts in each workload.
    #[arg(long, value_name = "N", default_value_t = USUAL_DECISIONS, value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with_all = ["stored", "leave_out", "corpus", "replay", "simulate"])]
    pub(crate) decisions: u32,
    /// This workload alone; `--leave-out` takes sustained where none is named.
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["corpus", "replay", "simulate"])]
    pub(crate) workload: Option<String>,
    /// Decide and measure for no more than so many seconds, counted once targets are found: fewer samples, and fewer
    /// decisions. Nothing begins that is not expected to fit into the rest, and a session that takes longer to begin is
    /// ended; an inference under way may end later. A decision without its time is not checked, and that is told.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["stored", "leave_out", "corpus", "replay", "simulate"])]
    pub(crate) budget: Option<f64>,
    /// Evaluate on measured boards instead of this machine: a table of boards, candidates, models and times.
    #[arg(long, value_name = "FILE", requires_all = ["model_facts", "task"], conflicts_with_all = ["models", "stored", "replay"])]
    pub(crate) corpus: Option<PathBuf>,
    /// The facts of the boards' models: a table of their work, parameters and, better, further facts.
    #[arg(long = "models", value_name = "FILE", requires = "corpus")]
    pub(crate) model_facts: Option<PathBuf>,
    /// What may be known of a board's left-out model.
    #[arg(long, value_enum, requires = "corpus")]
    pub(crate) task: Option<CorpusTask>,
    /// Decide published cases again: the folder with the tables of their times and decisions.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["models", "stored"])]
    pub(crate) replay: Option<PathBuf>,
    /// The rules to decide published cases by.
    #[arg(long, value_enum, default_value = "default", requires = "replay")]
    pub(crate) preset: ReplayPreset,
    /// Let the router decide and learn on simulated machines instead of this one, all chance drawn from --seed; nothing is
    /// measured.
    #[arg(long, conflicts_with_all = ["models", "stored", "leave_out", "corpus", "replay"])]
    pub(crate) simulate: bool,
    /// One scenario of the simulation: steady, slow-down, throttling, load, sleep, failures, battery, wild-runs, drift or
    /// many-models; all of them when absent.
    #[arg(long, value_name = "NAME", requires = "simulate")]
    pub(crate) scenario: Option<String>,
}

impl Evaluate {
    /// The form of the command that opens no home, where it is one.
    fn without_home(&self) -> Option<&'static str> {
        let forms = [
            ("evaluate --simulate", self.simulate),
            ("evaluate --corpus", self.corpus.is_some()),
            ("evaluate --replay", self.replay.is_some()),
        ];
        forms.into_iter().find(|(_, given)| *given).map(|(form, _)| form)
    }
}

/// What may be known of a model that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CorpusTask {
    /// Its facts and the board's times of other models.
    ZeroShot,
    /// Besides, one time on a CPU configuration.
    OneShot,
    /// Its facts and everything measured on other boards.
    Fleet,
}

/// Rules for published cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayPreset {
    /// Those that the cases were published with.
    Published,
    /// This program's own.
    Default,
}

/// Arguments of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting, its value and where the value came from.
    ///
    /// A flag beats the variable of a setting, which beats the file `config.toml` in the home folder, which holds a line
    /// such as `goal = "battery"` for each setting that is not to have its default.
    Show,
}

#[cfg(test)]
mod tests;
