//! What a simulated target does with a model: how long it takes, what it computes, where it fails.
//!
//! Invariant: a target's behaviour depends on the model's name and sizes alone; a test may change it
//! between two calls, never within one.

use std::collections::BTreeMap;

use siliconroute_core::trial::Placement;
use siliconroute_core::{ChipKey, ChipKind, ProviderName, Reading, Target, TargetKey};
use siliconroute_engine::ThreadOptions;

use crate::outputs::Outputs;

/// The time of one inference: `overhead + flops · ns_per_flop + weight bytes · ns_per_byte`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TimeLaw {
    /// The time of an empty call.
    pub overhead_ns: f64,
    /// Time of one operation.
    pub ns_per_flop: f64,
    /// Time of one byte of weights.
    pub ns_per_byte: f64,
}

impl TimeLaw {
    /// A law without a cost of weights.
    pub fn new(overhead_ns: f64, ns_per_flop: f64) -> Self {
        Self { overhead_ns, ns_per_flop, ns_per_byte: 0.0 }
    }

    /// The time of a call with this work, without noise.
    pub fn time_ns(&self, flops: f64, weight_bytes: f64) -> f64 {
        self.overhead_ns + flops * self.ns_per_flop + weight_bytes * self.ns_per_byte
    }
}

/// What a worker is asked to do when a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the request of the same name")]
pub enum Moment {
    Open,
    Create,
    SetInputs,
    Run,
    Sample,
}

/// How a worker fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The process dies.
    Crash,
    /// The process never answers.
    Hang,
    /// The process outgrows its memory.
    OutOfMemory,
    /// The engine says no and lives on.
    Refuse(String),
}

/// A fault at its moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// The request that fails.
    pub moment: Moment,
    /// How many of its kind go well before in a session.
    pub good: u32,
    /// How it fails.
    pub fault: Fault,
}

/// Where the nodes of a model run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodePlacement {
    /// The engine does not tell.
    Unknown,
    /// All on the target.
    #[default]
    All,
    /// So many on the target, so many on `CPUExecutionProvider`.
    Partial(u64, u64),
    /// None on the target.
    Elsewhere,
}

impl NodePlacement {
    /// The placement as an engine would report it.
    pub fn reading(&self) -> Reading<Placement> {
        let placed = |on_target, fallback: u64| {
            let others = (fallback > 0).then(|| ("CPUExecutionProvider".to_owned(), fallback));
            Reading::Available(Placement { on_target, fallback: others.into_iter().collect() })
        };
        match *self {
            Self::Unknown => Reading::unavailable("the simulated engine does not tell"),
            Self::All => placed(9, 0),
            Self::Partial(on_target, fallback) => placed(on_target, fallback),
            Self::Elsewhere => placed(0, 9),
        }
    }
}

/// What a target does with a model besides taking its time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Behaviour {
    /// What it computes.
    pub outputs: Outputs,
    /// Where its nodes run.
    pub placement: NodePlacement,
    /// When and how it fails.
    pub strike: Option<Strike>,
    /// The time of one inference, in place of what the law says.
    pub time_ns: Option<f64>,
}

impl Behaviour {
    /// Fails at the first request of that kind.
    pub fn fault(moment: Moment, fault: Fault) -> Self {
        Self::fault_after(moment, 0, fault)
    }

    /// Fails once so many requests of that kind went well.
    pub fn fault_after(moment: Moment, good: u32, fault: Fault) -> Self {
        Self { strike: Some(Strike { moment, good, fault }), ..Self::default() }
    }

    /// Computes something else.
    pub fn outputs(outputs: Outputs) -> Self {
        Self { outputs, ..Self::default() }
    }

    /// Runs somewhere else.
    pub fn placed(placement: NodePlacement) -> Self {
        Self { placement, ..Self::default() }
    }

    /// Takes this time whatever the sizes.
    pub fn time(time_ns: f64) -> Self {
        Self { time_ns: Some(time_ns), ..Self::default() }
    }
}

/// How a simulated session works under some thread options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Working {
    /// Its time over that of the law.
    pub time_factor: f64,
    /// CPUs that it keeps busy while it is called again and again.
    pub busy_cores: f64,
    /// Processor time that it uses after a call; `None` where it does not tell.
    pub idle_ns: Option<u64>,
}

/// A simulated target.
#[derive(Debug, Clone)]
pub struct FakeTarget {
    /// The target; its version is filled in by the engine that offers it.
    pub target: Target,
    /// Why the engine offers it as unusable.
    pub unavailable: Option<String>,
    /// The chip that does its work in truth, where that is not the one that it names.
    pub answers: Option<ChipKey>,
    /// How long a call takes.
    pub law: TimeLaw,
    /// The most memory that its worker tells of with a session; `None` where it tells nothing.
    pub memory_bytes: Option<u64>,
    /// How far samples lie from the law at most, relative to it.
    pub spread: f64,
    /// What the options of a session's threads change; nothing where there is no such rule.
    pub by_threads: Option<fn(&ThreadOptions) -> Working>,
    /// Whether its samples take the time that they tell, for meters that go by the time that passes.
    pub paced: bool,
    /// What it does with any model but those of `models`.
    pub behaviour: Behaviour,
    /// What it does with a model by its name; the precision probe is called `precision-probe`.
    pub models: BTreeMap<String, Behaviour>,
}

impl FakeTarget {
    /// A well-behaved target whose `key` is `chip/provider` with an optional `-variant`.
    pub fn new(key: &str, law: TimeLaw) -> Self {
        let (chip, provider) = key.split_once('/').unwrap_or(("cpu", key));
        let kind = match chip.split(':').next() {
            Some("gpu") => ChipKind::Gpu,
            Some("npu") => ChipKind::Npu,
            _ => ChipKind::Cpu,
        };
        let provider = provider.split('-').next().unwrap_or(provider);
        Self {
            target: Target {
                key: TargetKey(key.to_owned()),
                provider: ProviderName::parse(provider),
                provider_version: String::new(),
                chip: ChipKey(chip.to_owned()),
                chip_kind: kind,
                options: BTreeMap::new(),
            },
            unavailable: None,
            answers: None,
            law,
            memory_bytes: None,
            spread: 0.01,
            by_threads: None,
            paced: false,
            behaviour: Behaviour::default(),
            models: BTreeMap::new(),
        }
    }

    /// Does this with every model that has no behaviour of its own, the precision probe included.
    #[must_use]
    pub fn always(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// Does this with `model`.
    #[must_use]
    pub fn on(mut self, model: &str, behaviour: Behaviour) -> Self {
        self.models.insert(model.to_owned(), behaviour);
        self
    }

    /// Takes the time that its samples tell.
    #[must_use]
    pub fn paced(mut self) -> Self {
        self.paced = true;
        self
    }

    /// Has an option that sets it apart.
    #[must_use]
    pub fn option(mut self, key: &str, value: &str) -> Self {
        self.target.options.insert(key.to_owned(), value.to_owned());
        self
    }

    /// What it does with `model`.
    pub fn behaviour_on(&self, model: &str) -> &Behaviour {
        self.models.get(model).unwrap_or(&self.behaviour)
    }
}
