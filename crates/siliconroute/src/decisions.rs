//! Decisions as records: each is kept with all that led to it and what came of it, can be listed, and replayed.
//!
//! Invariant: a replay reads the stored row alone. It looks at no machine, no model and no measurement, so it gives the
//! same answer for as long as the method of ranking is the same, and says so where it is not.

use serde::{Deserialize, Serialize};
use siliconroute_core::decide::{Context, Decision, Methods, Query, Record};
use siliconroute_core::knowledge::Knowledge;
use siliconroute_core::{AccuracyClass, CaseId, Goal, TargetKey, Workload};
pub use siliconroute_store::{DamagedDecision, DecisionId};
use siliconroute_store::{NewDecision, NewOutcome, StoredDecision};

use crate::error::{Error, ErrorKind};
use crate::router::{Router, Targets};
use crate::run::FellBack;

/// The schema of a stored decision's document.
const DOCUMENT_SCHEMA: &str = "siliconroute.stored-decision/1";

/// What a decision was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// The user asked where the case should run.
    Route,
    /// A session was opened to run it.
    Run,
    /// It was checked against measurements.
    Check,
}

impl Occasion {
    /// The stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Run => "run",
            Self::Check => "check",
        }
    }
}

/// What is to be kept of a decision.
#[derive(Debug)]
pub struct Made<'a, 'k> {
    /// What it was made for.
    pub occasion: Occasion,
    /// What was asked.
    pub query: &'a Query<'a>,
    /// What the machine was like.
    pub context: &'a Context,
    /// What was decided.
    pub decision: &'a Decision<'k>,
    /// What it was made from.
    pub knowledge: &'a Knowledge,
}

/// What is stored of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    schema: String,
    /// What it was made for.
    pub occasion: Occasion,
    /// The case, in words.
    pub case: String,
    /// The reason in one sentence.
    pub reason: String,
    /// Everything that it was made from, and the answer.
    pub record: Record,
}

/// What came of a decision that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The target that answered last; `None` when none did.
    pub target: Option<TargetKey>,
    /// Inferences that were asked for.
    pub runs: u64,
    /// Wall time of the last inference that was timed.
    pub last_run_ms: Option<f64>,
    /// The targets that failed before.
    pub fell_back: Vec<FellBack>,
}

/// Why a stored decision cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Another version of the program stored it, with less or with other things.
    #[error("{0}")]
    Version(String),
    /// It is not what any version stores.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// What to do about a damaged record.
pub const DAMAGED_ADVICE: &str =
    "nothing else rests on it; `siliconroute doctor` looks whether the rest of the store is intact";

/// A stored decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// Its number.
    pub id: DecisionId,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
    /// The case.
    pub case_id: CaseId,
    /// The case in words.
    pub case: String,
    /// The workload.
    pub workload: Workload,
    /// What the user wanted most.
    pub goal: Goal,
    /// How exact the outputs had to be.
    pub accuracy: AccuracyClass,
    /// The chosen target; `None` when every target was excluded.
    pub chosen: Option<TargetKey>,
    /// The whole decision, or why it cannot be read.
    pub document: Result<Document, Unreadable>,
    /// What came of it, where it was carried out.
    pub outcomes: Vec<Carried>,
    /// Further outcomes that cannot be read.
    pub damaged_outcomes: usize,
    /// The regret that checking it found.
    pub regret_pct: Option<f64>,
}

impl Router {
    /// Keeps a decision and gives its number; `None` where nothing is kept in the home.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_decision(&self, made: &Made<'_, '_>, targets: &Targets) -> Result<Option<DecisionId>, Error> {
        // The number of a row in a private copy would name another decision, or none, once the copy is gone.
        if self.read_only().is_some() { Ok(None) } else { self.record_decision(made, targets).map(Some) }
    }

    /// [`Self::keep_decision`] where the home is known to be written.
    pub(crate) fn record_decision(
        &self,
        made: &Made<'_, '_>,
        targets: &Targets,
    ) -> Result<DecisionId, Error> {
        let Made { occasion, query, context, decision, knowledge } = made;
        let document = Document {
            schema: DOCUMENT_SCHEMA.to_owned(),
            occasion: *occasion,
            case: query.case.label(),
            reason: decision.sentence(*knowledge),
            record: Record::of(decision, query, context, knowledge),
        };
        let chosen = document.record.key(decision.chosen).and_then(|target| targets.rows.get(&target.key));
        Ok(self.store.record_decision(&NewDecision {
            case: query.case.id,
            workload: query.workload,
            goal: query.goal,
            accuracy: query.accuracy,
            chosen: chosen.copied(),
            document: &serde_json::to_string(&document).expect("a decision has only text keys"),
            created_unix_ms: (self.clock)(),
        })?)
    }

    /// Keeps what came of a decision.
    ///
    /// # Errors
    /// When the store fails.
    pub fn keep_outcome(&self, id: DecisionId, carried: &Carried, targets: &Targets) -> Result<(), Error> {
        let document = serde_json::to_string(carried).expect("an outcome has only text keys");
        Ok(self.store.record_outcome(&NewOutcome {
            decision: id,
            target: carried.target.as_ref().and_then(|key| targets.rows.get(key)).copied(),
            document: &document,
            created_unix_ms: (self.clock)(),
        })?)
    }

    /// The latest `limit` decisions, newest first; a damaged one takes nothing from the others.
    ///
    /// # Errors
    /// When the store fails.
    pub fn decisions(&self, limit: u32) -> Result<Vec<Result<Kept, DamagedDecision>>, Error> {
        let read = |stored| match stored {
            Ok(stored) => self.with_outcomes(stored).map(Ok),
            Err(damaged) => Ok(Err(damaged)),
        };
        self.store.latest_decisions(limit)?.into_iter().map(read).collect()
    }

    /// The decision `id`.
    ///
    /// # Errors
    /// When there is none, it is damaged, or the store fails.
    pub fn decision(&self, id: DecisionId) -> Result<Kept, Error> {
        let Some(stored) = self.store.decision(id)? else {
            let latest = self.store.latest_decisions(1)?;
            let latest = latest.first().map(|latest| latest.as_ref().map_or_else(|it| it.id, |it| it.id));
            let latest = latest.map_or_else(|| "none".to_owned(), |latest| latest.to_string());
            return Err(Error::Usage(format!("there is no decision {id}; the latest is {latest}")));
        };
        self.with_outcomes(stored.map_err(|damaged| damaged_record(damaged.to_string()))?)
    }

    fn with_outcomes(&self, stored: StoredDecision) -> Result<Kept, Error> {
        let told = self.store.outcomes(stored.id)?;
        let outcomes: Vec<Carried> =
            told.iter().filter_map(|outcome| serde_json::from_str(&outcome.document).ok()).collect();
        Ok(Kept {
            id: stored.id,
            created_unix_ms: stored.created_unix_ms,
            case_id: stored.case,
            case: self.store.case(stored.case)?.map_or_else(|| stored.case.to_string(), |case| case.label()),
            workload: stored.workload,
            goal: stored.goal,
            accuracy: stored.accuracy,
            chosen: stored.chosen,
            document: parse(&stored.document),
            damaged_outcomes: told.len() - outcomes.len(),
            outcomes,
            regret_pct: self.store.regret_of(stored.id)?,
        })
    }
}

/// Reads a stored document, which another version of the program may have written.
fn parse(text: &str) -> Result<Document, Unreadable> {
    let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
    let value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
    match value.get("schema") {
        Some(serde_json::Value::String(schema)) if schema == DOCUMENT_SCHEMA => {}
        // The first versions stored objects without a schema.
        None | Some(serde_json::Value::String(_)) if value.is_object() => {
            let text = "it was stored by another version, without all that it was made from";
            return Err(Unreadable::Version(text.to_owned()));
        }
        _ => return Err(Unreadable::Damaged("it is no record of a decision".to_owned())),
    }
    let document: Document = serde_json::from_value(value).map_err(damaged)?;
    if document.record.is_whole() {
        Ok(document)
    } else {
        Err(Unreadable::Damaged("it names targets that it does not list".to_owned()))
    }
}

fn damaged_record(message: String) -> Error {
    Error::Finding { kind: ErrorKind::Store, message, advice: Some(DAMAGED_ADVICE.to_owned()) }
}

impl Kept {
    /// The whole decision.
    ///
    /// # Errors
    /// When it was stored by a version that kept less, or is damaged.
    pub fn replayable(&self) -> Result<&Document, Error> {
        self.document.as_ref().map_err(|reason| {
            let text = format!("decision {} cannot be made again: {reason}", self.id);
            match reason {
                Unreadable::Version(_) => Error::Usage(text),
                Unreadable::Damaged(_) => damaged_record(text),
            }
        })
    }
}

impl Document {
    /// Decides once more from what is stored.
    pub fn replay(&self) -> Replayed<'_> {
        let decision = self.record.replay();
        let reason = decision.sentence(&self.record);
        Replayed {
            same: self.record.repeats() && reason == self.reason,
            methods: Methods::CURRENT,
            decision,
            reason,
        }
    }
}

/// A stored decision made once more.
#[derive(Debug)]
pub struct Replayed<'d> {
    /// The decision.
    pub decision: Decision<'d>,
    /// Its reason in one sentence.
    pub reason: String,
    /// Whether it is the stored one, to the last figure.
    pub same: bool,
    /// The methods by which it was made now.
    pub methods: Methods,
}

#[cfg(test)]
mod tests;
