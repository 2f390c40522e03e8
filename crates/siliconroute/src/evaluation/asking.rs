//! Which decisions are evaluated: so many, spread over the workloads, the models and their batches.
//!
//! Invariant: no case is asked twice in one workload, and which ones are asked depends on what is known alone.

use serde::Serialize;
use siliconroute_core::Workload;
use siliconroute_core::knowledge::{Knowledge, TargetIndex};

use super::Question;

/// A question in one workload.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The case.
    pub question: Question,
    /// The workload.
    pub workload: Workload,
}

/// How many decisions are evaluated where nothing is said.
pub const USUAL_DECISIONS: u32 = 24;

/// How an evaluation is made.
#[derive(Debug, Clone, Serialize)]
pub struct EvaluationPlan {
    /// How many decisions at most.
    pub decisions: u32,
    /// In which workloads, an equal part in each.
    pub workloads: Vec<Workload>,
    /// Time for the whole.
    pub budget: Option<std::time::Duration>,
}

impl Default for EvaluationPlan {
    fn default() -> Self {
        Self { decisions: USUAL_DECISIONS, workloads: Workload::ALL.to_vec(), budget: None }
    }
}

/// Chooses what to ask: in each workload first the cases that were measured in it, spread over all there are.
pub fn ask(questions: &[Question], knowledge: &Knowledge, plan: &EvaluationPlan) -> Vec<Asked> {
    let count = plan.workloads.len().max(1);
    let of_workload = |(index, &workload): (usize, &Workload)| {
        // What does not divide goes to the first workloads.
        let wanted = (plan.decisions as usize + count - 1 - index) / count;
        let is_known = |question: &&Question| {
            let measured = (0..knowledge.targets().len())
                .filter(|&target| {
                    let target = TargetIndex(target as u16);
                    knowledge.estimate(question.case.id, target, workload).is_some()
                })
                .count();
            measured > 1
        };
        let (known, unknown): (Vec<&Question>, Vec<&Question>) = questions.iter().partition(is_known);
        let rest = wanted.saturating_sub(known.len());
        let chosen = spread(&known, wanted).into_iter().chain(spread(&unknown, rest));
        chosen.map(|question| Asked { question: question.clone(), workload }).collect::<Vec<_>>()
    };
    plan.workloads.iter().enumerate().flat_map(of_workload).collect()
}

/// At most `count` of `all`, as far apart as can be.
fn spread<'q>(all: &[&'q Question], count: usize) -> Vec<&'q Question> {
    let count = count.min(all.len());
    (0..count).map(|place| all[place * all.len() / count]).collect()
}
