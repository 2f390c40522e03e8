//! One inference on the best target, with a fall-back that keeps the request.
//!
//! Invariant: inputs are checked before any target sees them, so that a wrong input is the caller's
//! error and not a target's failure.

mod choice;
mod kept_failure;
mod refusal;
mod routing;

use std::borrow::Cow;
use std::time::Instant;

use siliconroute_core::decide::{Decision, Limits, Query, decide};
use siliconroute_core::model::BoundInput;
use siliconroute_core::target::SessionSettings;
use siliconroute_core::tensor::{Dimension, NamedTensor, TensorSpec};
use siliconroute_core::trial::{Failure, FailureKind};
use siliconroute_core::{Case, Reading, TargetKey, Workload};
use siliconroute_engine::session::{RunError, Session, SessionRequest, check_indices, check_inputs};
use siliconroute_engine::worker::client::RemoteModel;
use siliconroute_engine::worker::remote::RemoteSession;
use siliconroute_engine::worker::serve::load_engine;
use siliconroute_engine::worker::wire::EngineSpec;

use crate::campaign::{all_refuse, check_placement};
use crate::context::OnChip;
use crate::decisions::{Carried, DecisionId, Made, Occasion};
use crate::discovery::Found;
use crate::error::Error;
use crate::learn::Learned;
use crate::model_tuning::Tuned;
use crate::models::KnownModel;
use crate::router::{NO_TELEMETRY, Router, Targets};
use crate::verified::check_engine;
use choice::{accuracy_notice, fixed_order_notice};
use refusal::{all_failed, failure_of, joined, runs_elsewhere};

pub(crate) use choice::fixed_order;
pub use choice::{Choice, index_notice};
pub use refusal::{no_target, require_target};
pub use routing::Routing;

/// The target whose refusal of an inference is final.
const REFERENCE: &str = "cpu/ort";

/// A target that failed before another one answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FellBack {
    /// The target that failed.
    pub target: TargetKey,
    /// What happened.
    pub failure: Failure,
}

/// Told of a target that failed and of the one that is asked next.
type FallBackTold<'r> = Box<dyn FnMut(&FellBack, &TargetKey) + 'r>;

/// A session on the chosen target that goes on with the next one when it fails.
pub struct RoutedSession<'r> {
    router: &'r Router,
    targets: Cow<'r, Targets>,
    model: &'r KnownModel,
    case: &'r Case,
    session: Box<dyn Session>,
    target: TargetKey,
    /// Counts the session on its chip, so that its own load is taken for nobody else's.
    on_chip: OnChip,
    choice: Choice,
    workload: Workload,
    /// How the workload was inferred, where it was.
    inference: Option<String>,
    notice: Option<String>,
    /// Candidates not yet tried, best first.
    left: Vec<TargetKey>,
    inputs: Vec<NamedTensor>,
    fell_back: Vec<FellBack>,
    fall_back_told: Option<FallBackTold<'r>>,
    isolated: bool,
    runs: u64,
    /// The stored decision that it carries out; `None` where the target was named.
    decision: Option<DecisionId>,
    last_run_ms: Option<f64>,
}

impl std::fmt::Debug for RoutedSession<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoutedSession")
            .field("target", &self.target)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl Router {
    /// The query for `case` under `routing` and the settings.
    pub fn query<'c>(&'c self, case: &'c Case, routing: &Routing) -> Query<'c> {
        let Limits { memory_bytes, power_watts, .. } = routing.limits;
        Query {
            case,
            workload: routing.workload(),
            goal: routing.goal.unwrap_or(self.settings.goal),
            accuracy: routing.accuracy.unwrap_or(self.settings.accuracy),
            limits: Limits {
                memory_bytes: memory_bytes.or(self.settings.ram_budget_mib.map(|mebibytes| mebibytes << 20)),
                power_watts: power_watts.or(self.settings.power_budget_watts),
                ..routing.limits
            },
            rules: &self.settings.rules,
        }
    }

    /// Opens a session for `case` on the target that is decided for it.
    ///
    /// Where nothing is known of any target, a fixed order decides, the references first, and the session's
    /// [notice](RoutedSession::notice) says so.
    ///
    /// Unless the routing names a target, each takes the settings that [tuning](Self::tune_model) found for the case.
    ///
    /// Built-in providers run in this process unless the routing wants them isolated; plugin providers,
    /// which may crash it, always in a worker. ONNX Runtime runs in this process only if the environment has
    /// `ORT_DISABLE_TELEMETRY`, since it would send telemetry of its own otherwise.
    ///
    /// # Errors
    /// When no target suits, or every suitable one refuses the model.
    pub fn open_session<'r>(
        &'r self,
        model: &'r KnownModel,
        case: &'r Case,
        targets: &'r Targets,
        learned: &Learned,
        routing: &Routing,
    ) -> Result<RoutedSession<'r>, Error> {
        let Tuned { targets, notices } = match &routing.target {
            None => self.tuned_targets(targets, case)?,
            Some(_) => Tuned { targets: Cow::Borrowed(targets), notices: Vec::new() },
        };
        let relearned = match &targets {
            Cow::Owned(tuned) => Some(self.learn(tuned)?),
            Cow::Borrowed(_) => None,
        };
        let learned = relearned.as_ref().unwrap_or(learned);
        let (settled, inference) = self.settled(case, routing, learned);
        let routing = &settled;
        let (mut choice, mut notice, mut kept) = (Choice::Named, None, None);
        let mut left = if let Some(target) = &routing.target {
            notice = accuracy_notice(case, target, self.query(case, routing).accuracy, routing, learned);
            vec![nameable(&targets.resolve(target.as_str())?)?]
        } else {
            let query = self.query(case, routing);
            let context = self.context(learned);
            let decision = decide(&learned.knowledge, &query, &context);
            log_rules(&decision, learned);
            let mut orders = [
                (Choice::Decided, best_first(&decision, learned)),
                (Choice::FixedOrder, fixed_order(&decision, &learned.knowledge)),
            ];
            if let Some(kind) = routing.chip_kind {
                let on_kind: Vec<&TargetKey> =
                    targets.of_kind(kind)?.into_iter().map(|found| &found.target.key).collect();
                for (_, order) in &mut orders {
                    order.retain(|key| on_kind.contains(&key));
                }
            }
            let Some((ground, order)) = orders.into_iter().find(|(_, order)| !order.is_empty()) else {
                return Err(no_target(case, &query, &decision, (learned, &targets)));
            };
            choice = ground;
            let made = Made {
                occasion: Occasion::Run,
                query: &query,
                context: &context,
                decision: &decision,
                knowledge: &learned.knowledge,
            };
            kept = self.try_keep(&made, &targets);
            if choice == Choice::FixedOrder {
                notice = Some(fixed_order_notice(case, query.workload, &order));
            }
            order
        };
        left.reverse();
        let mut fell_back = Vec::new();
        while let Some(target) = left.pop() {
            self.stop_if_cancelled()?;
            let found = targets.resolve(target.as_str())?;
            match self.create(model, case, &found, routing.isolated) {
                Ok(session) => {
                    let unchecked = index_notice(model, case, &found);
                    let notices: Vec<String> = notice.into_iter().chain(unchecked).chain(notices).collect();
                    let notice = (!notices.is_empty()).then(|| notices.join("; "));
                    return Ok(RoutedSession {
                        router: self,
                        targets,
                        model,
                        case,
                        session,
                        on_chip: OnChip::begin(&self.observed.live, &found.target.chip),
                        target,
                        choice,
                        workload: routing.workload(),
                        inference: inference.filter(|_| choice != Choice::Named),
                        notice,
                        left,
                        inputs: Vec::new(),
                        fell_back,
                        fall_back_told: None,
                        isolated: routing.isolated,
                        runs: 0,
                        decision: kept,
                        last_run_ms: None,
                    });
                }
                Err(failure) => {
                    let asked = (case, routing.workload());
                    fell_back.push(self.fallen(&targets, asked, target, failure));
                }
            }
        }
        if let Some(id) = kept {
            let carried = Carried { target: None, runs: 0, last_run_ms: None, fell_back: fell_back.clone() };
            self.try_keep_outcome(id, &carried, &targets);
        }
        if all_refuse(fell_back.iter().map(|fallen| (&fallen.target, &fallen.failure))) {
            return Err(Error::ModelRefused { case: case.label(), refusals: joined(&fell_back) });
        }
        Err(all_failed(case, choice, &fell_back))
    }

    /// A target that failed on `case`; what may pass counts against it for a while, in other processes, too.
    fn fallen(
        &self,
        targets: &Targets,
        asked: (&Case, Workload),
        target: TargetKey,
        failure: Failure,
    ) -> FellBack {
        if failure.kind.is_transient() {
            self.note_failure(&target);
            self.try_keep_failure(targets, asked, &target, &failure);
        }
        FellBack { target, failure }
    }

    /// Keeps a decision; an inference does not fail for want of a record.
    fn try_keep(&self, made: &Made<'_, '_>, targets: &Targets) -> Option<DecisionId> {
        self.keep_decision(made, targets)
            .inspect_err(|error| tracing::warn!("a decision is not recorded: {error}"))
            .ok()
            .flatten()
    }

    fn try_keep_outcome(&self, id: DecisionId, carried: &Carried, targets: &Targets) {
        if let Err(error) = self.keep_outcome(id, carried, targets) {
            tracing::warn!("what came of decision {id} is not recorded: {error}");
        }
    }

    fn create(
        &self,
        model: &KnownModel,
        case: &Case,
        found: &Found,
        isolated: bool,
    ) -> Result<Box<dyn Session>, Failure> {
        let in_process = match &found.engine {
            _ if isolated => false,
            EngineSpec::Rten => true,
            EngineSpec::OnnxRuntime { plugins, .. } => {
                // Only a worker's environment is this library's to set.
                plugins.is_empty()
                    && found.target.key.base() == REFERENCE
                    && std::env::var_os(NO_TELEMETRY).is_some()
            }
        };
        if in_process {
            check_engine(&self.home.packages(), &found.engine, &self.cancelled)?;
            let refused =
                |error: &dyn std::error::Error| Failure::new(FailureKind::Refused, error.to_string());
            let engine = load_engine(&found.engine, siliconroute_hardware::list_adapters);
            let engine = engine.map_err(|error| refused(&error))?;
            let request = SessionRequest {
                model: &model.path,
                inputs: &model.facts.inputs,
                outputs: &model.facts.outputs,
                bindings: &case.bindings,
                threads: &found.threads(),
                compile_cache: None,
            };
            let session = engine.create_session(&found.base().0, &request);
            return session.map_err(|error| refused(&error));
        }
        let threads = found.threads();
        let remote = RemoteModel {
            path: &model.path,
            inputs: &model.facts.inputs,
            outputs: &model.facts.outputs,
            bindings: &case.bindings,
            threads: &threads,
            compile_cache: None,
        };
        let (launcher, deadline) = (self.launcher.as_ref(), self.worker_deadline());
        let session = RemoteSession::open(launcher, &found.engine, &found.base().0, &remote, deadline)?;
        let placement = session.placement();
        if let Reading::Available(placement) = &placement
            && placement.is_full_fallback()
        {
            return Err(Failure::new(FailureKind::FellBack, runs_elsewhere(placement)));
        }
        check_placement(&found.engine, &placement)?;
        Ok(Box::new(session))
    }
}

impl<'r> RoutedSession<'r> {
    /// Calls `told` with each target that fails in a run, before the next one is asked.
    pub fn on_fall_back(&mut self, told: impl FnMut(&FellBack, &TargetKey) + 'r) {
        self.fall_back_told = Some(Box::new(told));
    }
}

impl Drop for RoutedSession<'_> {
    /// Records what came of the decision.
    fn drop(&mut self) {
        let Some(id) = self.decision else { return };
        let failed = self.fell_back.iter().any(|fallen| fallen.target == self.target);
        let answered = self.runs > 0 && !failed;
        let carried = Carried {
            target: answered.then(|| self.target.clone()),
            runs: self.runs,
            last_run_ms: self.last_run_ms,
            fell_back: std::mem::take(&mut self.fell_back),
        };
        self.router.try_keep_outcome(id, &carried, &self.targets);
    }
}

impl RoutedSession<'_> {
    /// The stored decision that the session carries out; `None` where the target was named or nothing is kept.
    pub fn decision(&self) -> Option<DecisionId> {
        self.decision
    }

    /// The target that the session is on now.
    pub fn target(&self) -> &TargetKey {
        &self.target
    }

    /// On what ground the first target was chosen.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    /// The workload that the choice was made for.
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// How the workload was inferred that the choice was made for, where nobody named it.
    pub fn inference(&self) -> Option<&str> {
        self.inference.as_deref()
    }

    /// What the caller should know of the choice: that it rests on no knowledge, or that the target named does
    /// not, or not provably, compute as exactly as asked.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// The targets that failed so far.
    pub fn fell_back(&self) -> &[FellBack] {
        &self.fell_back
    }

    /// Inferences that were answered.
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Checks and sets the inputs of the runs to come.
    ///
    /// # Errors
    /// When they do not fit the model, or no target takes them.
    pub fn set_inputs(&mut self, inputs: Vec<NamedTensor>) -> Result<(), Error> {
        // Against the bound shapes: the decision was made for them, and so were sessions of static shapes.
        check_inputs(&bound_specs(self.case), &inputs)?;
        check_indices(&self.case.facts.index_limits, &inputs)?;
        self.inputs = inputs;
        let set = self.session.set_inputs(&self.inputs);
        self.or_next(set)
    }

    /// Runs one inference; when the target fails, the next one answers.
    ///
    /// # Errors
    /// When every suitable target failed.
    #[inline]
    pub fn run(&mut self) -> Result<(), Error> {
        self.runs += 1;
        match self.session.run() {
            Ok(()) => {
                if self.runs == 1 {
                    self.router.note_answer(&self.target);
                }
                Ok(())
            }
            failed => self.or_next_run(failed),
        }
    }

    /// The outputs of the last run.
    ///
    /// # Errors
    /// When there was no run or an output cannot be read.
    pub fn outputs(&self) -> Result<Vec<NamedTensor>, Error> {
        self.session
            .outputs()
            .map_err(|error| Error::Worker { target: self.target.to_string(), failure: failure_of(error) })
    }

    #[cold]
    fn or_next_run(&mut self, failed: Result<(), RunError>) -> Result<(), Error> {
        self.or_next(failed)?;
        loop {
            match self.session.run() {
                Ok(()) => return Ok(()),
                failed => self.or_next(failed)?,
            }
        }
    }

    fn fall(&mut self, target: TargetKey, failure: Failure) {
        let asked = (self.case, self.workload);
        self.fell_back.push(self.router.fallen(&self.targets, asked, target, failure));
    }

    /// Goes on to the next target with the same inputs, if `outcome` is a failure.
    fn or_next(&mut self, outcome: Result<(), RunError>) -> Result<(), Error> {
        let Err(error) = outcome else { return Ok(()) };
        if let RunError::Input(error) = error {
            return Err(error.into());
        }
        if self.inputs.is_empty() && !self.model.facts.inputs.is_empty() {
            return Err(Error::Usage("no inputs are set for the inference".to_owned()));
        }
        let failure = failure_of(error);
        let refused = failure.kind == FailureKind::Refused;
        self.fall(self.target.clone(), failure);
        self.router.stop_if_cancelled()?;
        // What the reference refuses to compute, such as an index beyond a table, others may answer with
        // made-up numbers, since they do not check it.
        if refused && self.runs > 0 && self.target.base() == REFERENCE {
            return Err(Error::InferenceRefused {
                case: self.case.label(),
                target: self.target.to_string(),
                failures: joined(&self.fell_back),
            });
        }
        while let Some(target) = self.left.pop() {
            self.router.stop_if_cancelled()?;
            if let (Some(told), Some(fallen)) = (&mut self.fall_back_told, self.fell_back.last()) {
                told(fallen, &target);
            }
            let found = self.targets.resolve(target.as_str())?;
            let ready =
                self.router.create(self.model, self.case, &found, self.isolated).and_then(|mut session| {
                    session.set_inputs(&self.inputs).map_err(failure_of)?;
                    Ok(session)
                });
            match ready {
                Ok(session) => {
                    self.session = session;
                    self.on_chip = OnChip::begin(&self.router.observed.live, &found.target.chip);
                    self.target = target;
                    return Ok(());
                }
                Err(failure) => self.fall(target, failure),
            }
        }
        Err(all_failed(self.case, self.choice, &self.fell_back))
    }
}

/// What one routed inference gave.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The target that answered.
    pub target: TargetKey,
    /// The targets that failed before.
    pub fell_back: Vec<FellBack>,
    /// Wall time of the inference, transport to a worker included.
    pub run_ms: f64,
    /// The outputs.
    pub outputs: Vec<NamedTensor>,
}

impl RoutedSession<'_> {
    /// Runs one inference on `inputs` and copies its outputs.
    ///
    /// # Errors
    /// When the inputs do not fit or every suitable target failed.
    pub fn infer(&mut self, inputs: Vec<NamedTensor>) -> Result<RunOutcome, Error> {
        self.set_inputs(inputs)?;
        let start = Instant::now();
        self.run()?;
        let run_ms = start.elapsed().as_secs_f64() * 1e3;
        self.last_run_ms = Some(run_ms);
        self.router.stop_if_cancelled()?;
        let outputs = self.outputs()?;
        Ok(RunOutcome { target: self.target.clone(), fell_back: self.fell_back.clone(), run_ms, outputs })
    }
}

/// The key of a target that a caller named, whose settings an inference can have.
fn nameable(found: &Found) -> Result<TargetKey, Error> {
    let (_, settings) = found.base();
    if settings == SessionSettings::of_cpu(settings.cpu.clone()) {
        return Ok(found.target.key.clone());
    }
    let key = &found.target.key;
    Err(Error::Usage(format!("{key}: only settings of threads can be named for an inference")))
}

/// The inputs of a case, every size fixed.
fn bound_specs(case: &Case) -> Vec<TensorSpec> {
    let spec = |input: &BoundInput| TensorSpec {
        name: input.name.clone(),
        element: input.element,
        shape: input.shape.iter().map(|&size| Dimension::Fixed(size)).collect(),
    };
    case.facts.inputs.iter().map(spec).collect()
}

/// The candidates of a decision that may be taken, best first, and at the end what failed lately: better that than no
/// answer.
fn best_first(decision: &Decision<'_>, learned: &Learned) -> Vec<TargetKey> {
    let order = decision.order().into_iter().chain(decision.last_resorts());
    order.map(|target| learned.knowledge.target(target).key.clone()).collect()
}

/// Writes what the rules did into the log.
pub fn log_rules(decision: &Decision<'_>, learned: &Learned) {
    for fired in &decision.fired {
        tracing::info!("rule {}: {}", fired.name(), fired.sentence(&learned.knowledge));
    }
    for candidate in &decision.candidates {
        if let Some(bar) = candidate.barred {
            let key = &learned.knowledge.target(candidate.target).key;
            tracing::info!("rule {}: {key} {}", bar.name(), bar.sentence());
        }
    }
}
