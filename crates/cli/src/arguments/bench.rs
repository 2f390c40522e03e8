//! The arguments of `bench`, and which of them go together.
//!
//! Invariant: a flag that would be ignored beside the others is refused, with what it belongs to.

use clap::{Args, ValueEnum};
use siliconroute::settings::parse_workload;
use siliconroute_core::Workload;

use super::Shape;

/// The longest rest that can be asked for; the help names it.
pub(crate) const LONGEST_REST_S: f64 = 3600.0;

/// Output formats of `bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Csv,
    Md,
}

/// Its forms, as usage: what has to be named in each.
const USAGE: &str = "siliconroute bench [OPTIONS] --model <MODEL>
       siliconroute bench [OPTIONS] --model <MODEL> --compare <TARGET,TARGET>
       siliconroute bench [OPTIONS] --compare <CAMPAIGN,CAMPAIGN>";

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Bench {
    /// A model file or name; repeatable.
    #[arg(short, long = "model", value_name = "MODEL", required_unless_present = "compare")]
    pub(crate) models: Vec<String>,
    /// auto, cpu, gpu, npu or target keys, separated by commas. A key may end in session settings: +threads=N,
    /// +spin=off, `+block_base=N`, +cores=performance, efficiency or 0-3:6, `+compile_cache`, +concurrency=N. Targets
    /// that are not named take the settings that `tune` found.
    #[arg(short, long, value_name = "DEVICE", value_delimiter = ',', default_value = "auto")]
    pub(crate) device: Vec<String>,
    /// Batch sizes: a list such as 1,8,32, with ranges such as 1-4, 8-32+8 (in steps) or 1-64*2 (in factors).
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(crate) batch: Vec<String>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    /// `sustained`, `idle_loaded`, `cold_start` or all; several are separated by commas.
    #[arg(long, value_name = "WORKLOAD", value_delimiter = ',', default_value = "sustained")]
    pub(crate) workload: Vec<String>,
    /// Compare two targets, such as cpu/ort,cpu/openvino or cpu/ort,cpu/ort+threads=1, or two stored campaigns by
    /// their numbers.
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with = "device")]
    pub(crate) compare: Vec<String>,
    /// Sessions of each configuration, which show how much it varies from one to the next; a comparison takes 8,
    /// and up to 32 where they differ.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sessions: Option<u32>,
    /// Sessions that run at the same time, for throughput.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) concurrency: Option<u32>,
    /// Sample until the 95 % interval of the median is within so many percent [default: 2].
    #[arg(long, value_name = "PERCENT", conflicts_with = "iterations")]
    pub(crate) precision: Option<f64>,
    /// Take exactly so many single-call samples; adaptive when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Least number of warm-up runs.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) warmup: u64,
    /// Seconds for the samples of one trial beyond the least number, until the precision is reached [default: 10].
    #[arg(long, value_name = "SECONDS", conflicts_with = "iterations")]
    pub(crate) time: Option<f64>,
    /// Seconds for everything together.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) budget: Option<f64>,
    /// Rests before idle-loaded samples, in seconds up to 3600, separated by commas; 0.5,2,10,30 shows how a target wakes.
    /// Decisions learn from the usual 10 alone [default: 10].
    #[arg(long, value_name = "SECONDS", value_delimiter = ',')]
    pub(crate) rests: Vec<f64>,
    /// Where the files of a cold start lie: warm, dropped (from the system's file cache), or both [default: warm].
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) files: Vec<String>,
    /// Samples of each idle-loaded and cold-start trial [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repetitions: Option<u32>,
    /// Show what would be measured and how long it would take, and measure nothing.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Go on with the latest benchmark of these arguments that was stopped before its end.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Measure the joules of an inference in the sustained workload: after its samples each target rests and then
    /// works while meters are read. Where none can be read it says what is missing.
    #[arg(long)]
    pub(crate) energy: bool,
    /// Seconds of the rest and of the load in which energy is measured.
    #[arg(
        long,
        value_name = "IDLE,LOAD",
        value_delimiter = ',',
        default_value = "15,30",
        requires = "energy"
    )]
    pub(crate) energy_windows: Vec<f64>,
    /// The format of the result; a table when absent.
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Format>,
}

impl Bench {
    /// What goes against one another or would be ignored, in a sentence; `json` says that `--json` was given.
    pub(super) fn contradiction(&self, json: bool) -> Option<String> {
        if let Some(format @ (Format::Table | Format::Csv | Format::Md)) = self.output
            && json
        {
            let value = format.to_possible_value()?;
            return Some(format!("--json and --output {} ask for two forms of the result", value.get_name()));
        }
        self.ignored_form()
            .or_else(|| self.ignored_beside_campaigns())
            .or_else(|| self.ignored_beside_comparison())
            .or_else(|| self.ignored_in_workloads())
    }

    /// A form of output that would leave out what was asked for.
    fn ignored_form(&self) -> Option<String> {
        match self.output {
            _ if self.plan && self.resume => {
                Some("--plan measures nothing and shows the whole, so --resume would be ignored".to_owned())
            }
            Some(Format::Csv | Format::Md) if self.plan => {
                Some("--plan is printed as a table or with --json; --output has no form for it".to_owned())
            }
            Some(Format::Csv) if !self.compare.is_empty() => Some(
                "--output csv has no place for the verdict of --compare; take table, md or json".to_owned(),
            ),
            _ => None,
        }
    }

    /// What says how to measure, where two stored campaigns are compared.
    fn ignored_beside_campaigns(&self) -> Option<String> {
        let of_campaigns =
            !self.compare.is_empty() && self.compare.iter().all(|word| word.parse::<i64>().is_ok());
        let given = [
            ("--model", !self.models.is_empty()),
            ("--batch", !self.batch.is_empty()),
            ("--shape", !self.shape.shape.is_empty()),
            ("--sessions", self.sessions.is_some()),
            ("--concurrency", self.concurrency.is_some()),
            ("--iterations", self.iterations.is_some()),
            ("--precision", self.precision.is_some()),
            ("--time", self.time.is_some()),
            ("--rests", !self.rests.is_empty()),
            ("--files", !self.files.is_empty()),
            ("--repetitions", self.repetitions.is_some()),
            ("--budget", self.budget.is_some()),
            ("--plan", self.plan),
            ("--resume", self.resume),
            ("--energy", self.energy),
        ];
        let (flag, _) = given.into_iter().find(|(_, given)| of_campaigns && *given)?;
        Some(format!("--compare with two campaigns measures nothing, so {flag} would be ignored"))
    }

    /// What says how long a session is sampled, where sessions are compared.
    fn ignored_beside_comparison(&self) -> Option<String> {
        let given = [("--precision", self.precision.is_some()), ("--time", self.time.is_some())];
        let (flag, _) = given.into_iter().find(|(_, given)| !self.compare.is_empty() && *given)?;
        Some(format!("--compare takes the same short sessions of both, so {flag} would be ignored"))
    }

    /// What belongs to a workload that is not measured.
    fn ignored_in_workloads(&self) -> Option<String> {
        const SUSTAINED: &[Workload] = &[Workload::Sustained];
        const RESTED: &[Workload] = &[Workload::IdleLoaded];
        const COLD: &[Workload] = &[Workload::ColdStart];
        const REPEATED: &[Workload] = &[Workload::IdleLoaded, Workload::ColdStart];
        let wanted = |workload: Workload| {
            self.workload.iter().any(|word| word == "all" || parse_workload(word) == Some(workload))
        };
        // A word that is no workload is refused by its own name.
        if self.workload.iter().any(|word| word != "all" && parse_workload(word).is_none()) {
            return None;
        }
        let given = [
            ("--precision", self.precision.is_some(), SUSTAINED),
            ("--time", self.time.is_some(), SUSTAINED),
            ("--iterations", self.iterations.is_some(), SUSTAINED),
            ("--concurrency", self.concurrency.is_some(), SUSTAINED),
            ("--energy", self.energy, SUSTAINED),
            ("--rests", !self.rests.is_empty(), RESTED),
            ("--files", !self.files.is_empty(), COLD),
            ("--repetitions", self.repetitions.is_some(), REPEATED),
        ];
        let (flag, _, of) = given
            .into_iter()
            .find(|(_, given, of)| *given && !of.iter().any(|workload| wanted(*workload)))?;
        let names: Vec<String> = of.iter().map(ToString::to_string).collect();
        let names = names.join(" or ");
        Some(format!(
            "{flag} belongs to the workload {names}, which is not measured here, so it would be ignored"
        ))
    }
}
