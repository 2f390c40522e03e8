//! Stores that earlier versions of this program have written.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use siliconroute_core::chip::ChipKey;
use siliconroute_core::chip_figure::MemoryLevel;
use siliconroute_core::target::TargetKey;
use siliconroute_store::{APPLICATION_ID, OpenOptions, SCHEMA_VERSION, Store, TrialFilter, TrialId};

/// The step to each version, and rows as that version wrote them.
const VERSIONS: &[(&str, &str)] = &[
    (include_str!("../../migrations/0001_initial.sql"), include_str!("../fixtures/0001_rows.sql")),
    // Version 2 has another rule, and rows as before; version 3 more columns, which such rows leave empty,
    // versions 4 to 7 more tables.
    (include_str!("../../migrations/0002_json_or_null.sql"), include_str!("../fixtures/0001_rows.sql")),
    (include_str!("../../migrations/0003_workloads.sql"), include_str!("../fixtures/0001_rows.sql")),
    (
        include_str!("../../migrations/0004_chip_figures.sql"),
        concat!(include_str!("../fixtures/0001_rows.sql"), include_str!("../fixtures/0004_rows.sql")),
    ),
    (
        include_str!("../../migrations/0005_telemetry.sql"),
        concat!(include_str!("../fixtures/0001_rows.sql"), include_str!("../fixtures/0004_rows.sql")),
    ),
    (
        include_str!("../../migrations/0006_model_tunings.sql"),
        concat!(include_str!("../fixtures/0001_rows.sql"), include_str!("../fixtures/0004_rows.sql")),
    ),
    (
        include_str!("../../migrations/0007_imported_knowledge.sql"),
        concat!(
            include_str!("../fixtures/0001_rows.sql"),
            include_str!("../fixtures/0004_rows.sql"),
            include_str!("../fixtures/0007_rows.sql")
        ),
    ),
    // Version 8 has another rule.
    (
        include_str!("../../migrations/0008_served_runs.sql"),
        concat!(
            include_str!("../fixtures/0001_rows.sql"),
            include_str!("../fixtures/0004_rows.sql"),
            include_str!("../fixtures/0007_rows.sql")
        ),
    ),
    (
        include_str!("../../migrations/0009_decision_outcomes.sql"),
        concat!(
            include_str!("../fixtures/0001_rows.sql"),
            include_str!("../fixtures/0004_rows.sql"),
            include_str!("../fixtures/0007_rows.sql"),
            include_str!("../fixtures/0009_rows.sql")
        ),
    ),
    (
        include_str!("../../migrations/0010_doubts.sql"),
        concat!(
            include_str!("../fixtures/0001_rows.sql"),
            include_str!("../fixtures/0004_rows.sql"),
            include_str!("../fixtures/0007_rows.sql"),
            include_str!("../fixtures/0009_rows.sql"),
            include_str!("../fixtures/0010_rows.sql")
        ),
    ),
];

#[test]
fn every_version_has_its_rows() {
    assert_eq!(VERSIONS.len(), SCHEMA_VERSION as usize);
}

#[test]
fn a_store_of_every_version_opens_with_its_rows() {
    for (index, (_, rows)) in VERSIONS.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let old = Connection::open(&path).unwrap();
        for (step, _) in &VERSIONS[..=index] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(rows).unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        old.pragma_update(None, "user_version", index + 1).unwrap();
        drop(old);

        let store = Store::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(store.check().unwrap(), Vec::<String>::new());
        let (models, cases) = (store.models().unwrap(), store.cases().unwrap());
        assert_eq!((models.len(), cases.len()), (1, 1));
        if index == 0 {
            assert_eq!((models[0].facts.method_version, cases[0].facts.method_version), (0, 0));
        }
        assert_eq!(store.targets().unwrap()[0].target.key, TargetKey("cpu/openvino".to_owned()));
        let trials = store.trial_summaries(&TrialFilter::default()).unwrap();
        assert_eq!(trials.len(), 2);
        let summary = trials[0].outcome.clone().unwrap().summary.unwrap();
        assert_eq!((summary.samples, summary.min_ns), (3, 1_000_000.0));
        assert!(trials[1].outcome.is_err());
        assert_eq!(store.latest_verifications(None).unwrap()[0].regret_pct, Some(2.5));
        assert_eq!(store.campaigns().unwrap()[0].trials, 2);
        assert_eq!(store.samples(TrialId(1)).unwrap().len(), 3);
        let figures = store.chip_figures(&ChipKey::cpu(), "x86_64_fast_chip_9_8c_16gh").unwrap();
        assert_eq!(figures.len(), if index < 3 { 0 } else { 2 });
        if let [overhead, bandwidth] = figures.as_slice() {
            assert_eq!((overhead.figure.threads, overhead.figure.value), (2, 3.1e-7));
            assert_eq!(
                (bandwidth.figure.level, bandwidth.figure.samples.len()),
                (Some(MemoryLevel::Memory), 2)
            );
        }
        let outcomes = store.outcomes(store.latest_decisions(1).unwrap()[0].as_ref().unwrap().id).unwrap();
        assert_eq!(outcomes.len(), usize::from(index >= 8));
        let doubts = store.doubts("x86_64_fast_chip_9_8c_16gh").unwrap();
        assert_eq!(doubts.len(), usize::from(index >= 9));
        if let [doubt] = doubts.as_slice() {
            assert_eq!((doubt.target.as_str(), doubt.ratio), ("cpu/openvino", 3.0));
        }
        let imported = store.imported_times().unwrap();
        assert_eq!(imported.len(), usize::from(index >= 6));
        if let [imported] = imported.as_slice() {
            assert_eq!(
                (imported.time.median_ns, imported.time.target.chip.logical_cores),
                (1_000_000.5, Some(8))
            );
            assert_eq!(store.imported_cases(imported.origin).unwrap()[0].facts.parameters, 1000);
        }
        drop(store);
        check_as_an_older_sqlite(&path);
    }
}

/// Debian 12 and Ubuntu 22.04 have a SQLite whose `json_valid(NULL)` is 0.
#[track_caller]
fn check_as_an_older_sqlite(path: &Path) {
    let connection = Connection::open(path).expect("the store can be read");
    connection
        .create_scalar_function(
            "json_valid",
            1,
            FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS,
            |context| match context.get_raw(0) {
                ValueRef::Null => Ok(false),
                text => Ok(serde_json::from_slice::<serde::de::IgnoredAny>(text.as_bytes()?).is_ok()),
            },
        )
        .expect("the store can be read");
    let found: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the store can be read");
    assert_eq!(found, "ok");
    let schema: Vec<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE tbl_name = 'trial' AND sql IS NOT NULL ORDER BY name")
        .expect("the store can be read")
        .query_map([], |row| row.get(0))
        .expect("the store can be read")
        .collect::<Result<_, _>>()
        .expect("the names can be read");
    let kept =
        ["trial", "trial_by_campaign", "trial_by_case", "trial_is_never_changed", "trial_is_never_deleted"];
    assert_eq!(schema, kept);
}
