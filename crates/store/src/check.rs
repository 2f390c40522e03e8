//! Looks for damage in an open store.
//!
//! Invariant: a check changes nothing.

use crate::Store;
use crate::error::StoreError;

/// The most findings of one kind that are told.
const LIMIT: u32 = 20;

impl Store {
    /// Checks pages, rules, references and the number of samples; no finding means a sound store.
    ///
    /// Reads the whole file, so this is for `doctor` and not for every start.
    pub fn check(&self) -> Result<Vec<String>, StoreError> {
        self.read("check the store", |connection| {
            let mut findings = Vec::new();
            let mut pages = connection.prepare(&format!("PRAGMA quick_check({LIMIT})"))?;
            for finding in pages.query_map([], |row| row.get::<_, String>(0))? {
                let finding = finding?;
                if finding != "ok" {
                    findings.push(finding);
                }
            }
            let mut references = connection.prepare("PRAGMA foreign_key_check")?;
            let broken = references.query_map([], |row| {
                let (table, row_id, parent): (String, Option<i64>, String) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let row_id = row_id.map_or_else(String::new, |id| format!(" {id}"));
                Ok(format!("{table}{row_id} refers to a {parent} that is not there"))
            })?;
            for finding in broken.take(LIMIT as usize) {
                findings.push(finding?);
            }
            let mut counts = connection.prepare(
                "SELECT id, samples, found
                 FROM (SELECT id, samples, (SELECT count(*) FROM sample WHERE trial_id = trial.id) AS found FROM trial)
                 WHERE samples <> found LIMIT ?1",
            )?;
            let wrong = counts.query_map([LIMIT], |row| {
                let (trial, samples, found): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(format!("trial {trial} was recorded with {samples} samples and has {found}"))
            })?;
            for finding in wrong {
                findings.push(finding?);
            }
            Ok(findings)
        })
    }
}
