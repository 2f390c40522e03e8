//! Decisions with all that led to them, what came of them, and what checking them found.
//!
//! Invariant: decisions, outcomes and verifications are only ever added.

use rusqlite::{Connection, OptionalExtension, Row, params};
use siliconroute_core::accuracy::AccuracyClass;
use siliconroute_core::identity::CaseId;
use siliconroute_core::target::TargetKey;
use siliconroute_core::workload::{Goal, Workload};

use crate::Store;
use crate::catalogue::case_row;
use crate::column::{CampaignId, DecisionId, Name, TargetId, VerificationId};
use crate::error::StoreError;

/// A decision to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewDecision<'a> {
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// What the user wanted most.
    pub goal: Goal,
    /// How exact the outputs had to be.
    pub accuracy: AccuracyClass,
    /// The chosen target; `None` when every target was excluded.
    pub chosen: Option<TargetId>,
    /// The candidates, their predictions and the reasons, as a JSON document.
    pub document: &'a str,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A recorded decision.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDecision {
    /// The row.
    pub id: DecisionId,
    /// The case.
    pub case: CaseId,
    /// The workload.
    pub workload: Workload,
    /// What the user wanted most.
    pub goal: Goal,
    /// How exact the outputs had to be.
    pub accuracy: AccuracyClass,
    /// The chosen target; `None` when every target was excluded.
    pub chosen: Option<TargetKey>,
    /// The candidates, their predictions and the reasons, as a JSON document.
    pub document: String,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A row that does not hold what was written into it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the row of decision {id} is damaged: {reason}")]
pub struct DamagedDecision {
    /// The row.
    pub id: DecisionId,
    /// What is wrong in it.
    pub reason: String,
}

/// What came of a decision that was carried out.
#[derive(Debug, Clone, Copy)]
pub struct NewOutcome<'a> {
    /// The decision.
    pub decision: DecisionId,
    /// The target that answered last; `None` when none did.
    pub target: Option<TargetId>,
    /// What was run, how long it took and what failed, as a JSON document.
    pub document: &'a str,
    /// When it was told, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A recorded outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutcome {
    /// The target that answered last; `None` when none did.
    pub target: Option<TargetKey>,
    /// What was run, how long it took and what failed, as a JSON document.
    pub document: String,
    /// When it was told, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A verification to be recorded.
#[derive(Debug, Clone, Copy)]
pub struct NewVerification<'a> {
    /// The decision that was checked.
    pub decision: DecisionId,
    /// The campaign whose trials checked it, where there was one.
    pub campaign: Option<CampaignId>,
    /// The target that was chosen.
    pub chosen: Option<TargetId>,
    /// The fastest target of the check.
    pub best: Option<TargetId>,
    /// Regret in percent; `None` when the chosen target has no true time.
    pub regret_pct: Option<f64>,
    /// The true times, as a JSON document.
    pub document: &'a str,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

/// A recorded verification with the decision that it checked.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredVerification {
    /// The row.
    pub id: VerificationId,
    /// The decision that was checked.
    pub decision: StoredDecision,
    /// The campaign whose trials checked it, where there was one.
    pub campaign: Option<CampaignId>,
    /// The target that was chosen.
    pub chosen: Option<TargetKey>,
    /// The fastest target of the check.
    pub best: Option<TargetKey>,
    /// Regret in percent; `None` when the chosen target has no true time.
    pub regret_pct: Option<f64>,
    /// The true times, as a JSON document.
    pub document: String,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: i64,
}

impl Store {
    /// Records a decision; its case must be known.
    pub fn record_decision(&self, new: &NewDecision<'_>) -> Result<DecisionId, StoreError> {
        self.write("record a decision", |transaction| {
            let case = case_row(transaction, new.case)?;
            let id = transaction
                .prepare_cached(
                    "INSERT INTO decision
                         (case_id, workload, goal, accuracy, chosen_target_id, document, created_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     RETURNING id",
                )?
                .query_row(
                    params![
                        case,
                        Name(new.workload),
                        Name(new.goal),
                        Name(new.accuracy),
                        new.chosen,
                        new.document,
                        new.created_unix_ms,
                    ],
                    |row| row.get(0),
                )?;
            Ok(id)
        })
    }

    /// The decision in a row; the inner error says that the row cannot be read.
    pub fn decision(
        &self,
        id: DecisionId,
    ) -> Result<Option<Result<StoredDecision, DamagedDecision>>, StoreError> {
        self.read("read a decision", |connection| {
            let found = connection
                .prepare_cached(
                    "SELECT decision.id, model_case.digest, workload, goal, accuracy, target.key, document,
                            created_unix_ms
                     FROM decision
                     JOIN model_case ON model_case.id = decision.case_id
                     LEFT JOIN target ON target.id = decision.chosen_target_id
                     WHERE decision.id = ?1",
                )?
                .query_row([id], readable_decision)
                .optional()?;
            Ok(found)
        })
    }

    /// The latest `limit` decisions, newest first; a row that cannot be read takes nothing from the others.
    pub fn latest_decisions(
        &self,
        limit: u32,
    ) -> Result<Vec<Result<StoredDecision, DamagedDecision>>, StoreError> {
        self.read("read the decisions", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT decision.id, model_case.digest, workload, goal, accuracy, target.key, document,
                        created_unix_ms
                 FROM decision
                 JOIN model_case ON model_case.id = decision.case_id
                 LEFT JOIN target ON target.id = decision.chosen_target_id
                 ORDER BY decision.id DESC LIMIT ?1",
            )?;
            Ok(query.query_map([limit], readable_decision)?.collect::<Result<_, _>>()?)
        })
    }

    /// Records what came of a decision that was carried out.
    pub fn record_outcome(&self, new: &NewOutcome<'_>) -> Result<(), StoreError> {
        self.write("record an outcome", |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO decision_outcome (decision_id, target_id, document, created_unix_ms)
                     VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![new.decision, new.target, new.document, new.created_unix_ms])?;
            Ok(())
        })
    }

    /// When each target answered a decision last, in milliseconds since 1970 UTC.
    pub fn latest_answers(&self) -> Result<Vec<(TargetId, i64)>, StoreError> {
        self.read("read the latest answers", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT target_id, max(created_unix_ms) FROM decision_outcome
                 WHERE target_id IS NOT NULL GROUP BY target_id",
            )?;
            Ok(query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?)
        })
    }

    /// What came of a decision, oldest first.
    pub fn outcomes(&self, decision: DecisionId) -> Result<Vec<StoredOutcome>, StoreError> {
        self.read("read the outcomes", |connection| {
            let mut query = connection.prepare_cached(
                "SELECT target.key, document, created_unix_ms
                 FROM decision_outcome LEFT JOIN target ON target.id = target_id
                 WHERE decision_id = ?1 ORDER BY decision_outcome.id",
            )?;
            let outcomes = query.query_map([decision], |row| {
                Ok(StoredOutcome {
                    target: row.get::<_, Option<String>>(0)?.map(TargetKey),
                    document: row.get(1)?,
                    created_unix_ms: row.get(2)?,
                })
            })?;
            Ok(outcomes.collect::<Result<_, _>>()?)
        })
    }

    /// The regret that the latest check of a decision found; `None` where it was not checked, or could not be judged.
    pub fn regret_of(&self, decision: DecisionId) -> Result<Option<f64>, StoreError> {
        self.read("read a verification", |connection| {
            let found = connection
                .prepare_cached(
                    "SELECT regret_pct FROM verification WHERE decision_id = ?1 ORDER BY id DESC LIMIT 1",
                )?
                .query_row([decision], |row| row.get(0))
                .optional()?;
            Ok(found.flatten())
        })
    }

    /// Records what checking a decision found.
    pub fn record_verification(&self, new: &NewVerification<'_>) -> Result<VerificationId, StoreError> {
        self.write("record a verification", |transaction| {
            let id = transaction
                .prepare_cached(
                    "INSERT INTO verification
                         (decision_id, campaign_id, chosen_target_id, best_target_id, regret_pct, document,
                          created_unix_ms)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     RETURNING id",
                )?
                .query_row(
                    params![
                        new.decision,
                        new.campaign,
                        new.chosen,
                        new.best,
                        new.regret_pct,
                        new.document,
                        new.created_unix_ms,
                    ],
                    |row| row.get(0),
                )?;
            Ok(id)
        })
    }

    /// The latest verification of each question (case, workload, goal, accuracy), oldest first.
    ///
    /// With a campaign, only verifications by that campaign count.
    pub fn latest_verifications(
        &self,
        campaign: Option<CampaignId>,
    ) -> Result<Vec<StoredVerification>, StoreError> {
        self.read("read the verifications", |connection| latest_verifications(connection, campaign))
    }
}

fn latest_verifications(
    connection: &Connection,
    campaign: Option<CampaignId>,
) -> Result<Vec<StoredVerification>, crate::error::Fault> {
    let mut query = connection.prepare_cached(
        "WITH latest AS (
             SELECT max(verification.id) AS id
             FROM verification JOIN decision ON decision.id = verification.decision_id
             WHERE ?1 IS NULL OR verification.campaign_id = ?1
             GROUP BY decision.case_id, decision.workload, decision.goal, decision.accuracy
         )
         SELECT decision.id, model_case.digest, decision.workload, decision.goal, decision.accuracy,
                decided.key, decision.document, decision.created_unix_ms,
                verification.id, verification.campaign_id, chosen.key, best.key, verification.regret_pct,
                verification.document, verification.created_unix_ms
         FROM latest
         JOIN verification ON verification.id = latest.id
         JOIN decision ON decision.id = verification.decision_id
         JOIN model_case ON model_case.id = decision.case_id
         LEFT JOIN target AS decided ON decided.id = decision.chosen_target_id
         LEFT JOIN target AS chosen ON chosen.id = verification.chosen_target_id
         LEFT JOIN target AS best ON best.id = verification.best_target_id
         ORDER BY verification.id",
    )?;
    let verifications = query.query_map([campaign], |row| {
        Ok(StoredVerification {
            decision: stored_decision(row, 0)?,
            id: row.get(8)?,
            campaign: row.get(9)?,
            chosen: row.get::<_, Option<String>>(10)?.map(TargetKey),
            best: row.get::<_, Option<String>>(11)?.map(TargetKey),
            regret_pct: row.get(12)?,
            document: row.get(13)?,
            created_unix_ms: row.get(14)?,
        })
    })?;
    Ok(verifications.collect::<Result<_, _>>()?)
}

/// Reads a decision, or its number and what is wrong in its row.
fn readable_decision(row: &Row<'_>) -> rusqlite::Result<Result<StoredDecision, DamagedDecision>> {
    let id = row.get(0)?;
    Ok(stored_decision(row, 0).map_err(|error| DamagedDecision { id, reason: error.to_string() }))
}

/// Reads a decision from eight columns, the first of which is at `first`.
fn stored_decision(row: &Row<'_>, first: usize) -> rusqlite::Result<StoredDecision> {
    Ok(StoredDecision {
        id: row.get(first)?,
        case: CaseId(row.get(first + 1)?),
        workload: row.get::<_, Name<Workload>>(first + 2)?.0,
        goal: row.get::<_, Name<Goal>>(first + 3)?.0,
        accuracy: row.get::<_, Name<AccuracyClass>>(first + 4)?.0,
        chosen: row.get::<_, Option<String>>(first + 5)?.map(TargetKey),
        document: row.get(first + 6)?,
        created_unix_ms: row.get(first + 7)?,
    })
}
