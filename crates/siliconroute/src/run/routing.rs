//! How an inference is to be routed, and what is inferred where it does not say.
//!
//! Invariant: what was inferred can be told from what was asked for.

use siliconroute_core::decide::{Context, Limits, decide};
use siliconroute_core::{AccuracyClass, Case, ChipKind, Goal, TargetKey, Workload};

use crate::learn::Learned;
use crate::router::Router;

/// How an inference is to be routed.
#[derive(Debug, Clone, Default)]
pub struct Routing {
    /// This target and no other.
    pub target: Option<TargetKey>,
    /// Targets on chips of this kind and no others.
    pub chip_kind: Option<ChipKind>,
    /// In what state the target will be; inferred when absent.
    pub workload: Option<Workload>,
    /// How many inferences the session is for, as far as that is known. One makes it a cold start; who opens a session
    /// without saying keeps it for many.
    pub inferences: Option<u64>,
    /// What the user wants most; the setting when absent.
    pub goal: Option<Goal>,
    /// How exact outputs must be; the setting when absent.
    pub accuracy: Option<AccuracyClass>,
    /// What the chosen target must keep to; the settings' budgets where it says none.
    pub limits: Limits,
    /// Whether every target runs in a worker, under the deadline that a worker has and ended by an interrupt.
    pub isolated: bool,
}

impl Routing {
    /// The workload that is asked for, or inferred of a session that is not alive yet: its first inference is a cold
    /// start, and where more are to follow they count for more.
    pub fn workload(&self) -> Workload {
        let first = Workload::inferred(false, None);
        self.workload.unwrap_or(if self.is_for_one() { first } else { Workload::Sustained })
    }

    /// Why the workload was taken for what it is, where nobody named it.
    pub fn inference(&self) -> Option<String> {
        let why = if self.is_for_one() {
            "no session is alive and one inference is asked for"
        } else if self.limits.least_per_second.is_some() {
            "a number of inferences a second is asked for"
        } else {
            "a session is to serve more than one inference"
        };
        self.workload.is_none().then(|| format!("the workload is taken for {}, since {why}", self.workload()))
    }

    fn is_for_one(&self) -> bool {
        self.inferences == Some(1) && self.limits.least_per_second.is_none()
    }
}

impl Router {
    /// `routing` with its workload, and how that was inferred where nobody named it.
    ///
    /// Where nothing is known of any target in the workload that is inferred, and something is in the sustained one,
    /// that one decides, which is said too.
    pub fn settled(&self, case: &Case, routing: &Routing, learned: &Learned) -> (Routing, Option<String>) {
        let of = |workload| Routing { workload: Some(workload), ..routing.clone() };
        let inferred = of(routing.workload());
        let Some(inference) = routing.inference() else { return (inferred, None) };
        let knows = |routing: &Routing| {
            let decision = decide(&learned.knowledge, &self.query(case, routing), &Context::default());
            decision.candidates.iter().any(|candidate| candidate.outlook.is_ok())
        };
        let sustained = of(Workload::Sustained);
        if inferred.workload == sustained.workload || knows(&inferred) || !knows(&sustained) {
            return (inferred, Some(inference));
        }
        let sentence =
            format!("{inference}; nothing is known of it here, so what is known of sustained decides");
        (sustained, Some(sentence))
    }
}
