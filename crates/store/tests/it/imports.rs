//! Imported knowledge: whole or absent, with its origin, and gone when it is forgotten.

use siliconroute_core::chip::ChipKind;
use siliconroute_core::fleet::{ChipModel, FleetCase, FleetTarget, FleetTime};
use siliconroute_core::statistics::Interval;
use siliconroute_core::{Case, CaseId, Workload};
use siliconroute_store::{NewOrigin, OriginId, Store, StoreError, TrialFilter};

use crate::new_store;
use crate::sample_data::{NOW, prepare};

fn time(case: CaseId, median_ns: f64) -> FleetTime {
    let chip = ChipModel {
        kind: ChipKind::Cpu,
        vendor: "Maker".to_owned(),
        name: "fast_chip_9".to_owned(),
        ids: None,
        architecture: Some("x86_64".to_owned()),
        logical_cores: Some(8),
        memory_bytes: None,
    };
    let target = FleetTarget {
        chip,
        provider: "openvino".to_owned(),
        target: "openvino".to_owned(),
        library_version: "1".to_owned(),
        driver: None,
    };
    FleetTime {
        target,
        case,
        workload: Workload::Sustained,
        unix_day: 19_675,
        samples: 30,
        median_ns,
        interval: Some(Interval { low: median_ns, high: median_ns + 1.0 / 3.0 }),
        min_ns: median_ns,
        max_ns: median_ns,
        session_create_ns: 7,
        first_run_ns: 8,
        peak_resident_bytes: None,
        outputs: None,
    }
}

fn origin<'a>(digest: u8, cases: &'a [FleetCase], times: &'a [FleetTime]) -> NewOrigin<'a> {
    NewOrigin {
        digest: [digest; 32],
        file: "other.jsonl",
        hardware_id: "x86_64_fast_chip_9_8c_16gh",
        os: "linux",
        program_version: "0.1.0",
        exported_unix_day: 19_675,
        imported_unix_ms: NOW,
        cases,
        times,
    }
}

fn fleet_case(case: &Case) -> FleetCase {
    FleetCase::new(case.id, case.model, case.facts.clone())
}

fn counts(store: &Store) -> Vec<(OriginId, u64, u64)> {
    let origins = store.origins().expect("the origins can be read");
    origins.iter().map(|origin| (origin.id, origin.cases, origin.times)).collect()
}

#[test]
fn what_is_imported_comes_back_and_stays_apart_from_trials() {
    let (_folder, store) = new_store();
    let (_, _, [case, _]) = prepare(&store);
    let stranger = FleetCase { id: CaseId([9; 32]), ..fleet_case(&case) };
    let cases = [fleet_case(&case), stranger];
    let times = [time(case.id, 1e6), time(case.id, 2e6), time(CaseId([9; 32]), 3e6)];
    assert_eq!(store.record_origin(&origin(1, &cases, &times)).unwrap(), (OriginId(1), true));
    let known: Vec<_> = store.imported_times().unwrap().into_iter().map(|it| (it.origin, it.time)).collect();
    assert_eq!(known, [(OriginId(1), times[0].clone()), (OriginId(1), times[1].clone())]);
    let mut found = store.imported_cases(OriginId(1)).unwrap();
    found.sort_by_key(|found| found.id != case.id);
    assert_eq!(found, cases);
    assert!(store.trial_summaries(&TrialFilter::default()).unwrap().is_empty());
    assert_eq!(store.cases().unwrap().len(), 2);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn the_same_file_twice_changes_nothing_and_a_forgotten_number_is_not_given_again() {
    let (_folder, store) = new_store();
    let (_, _, [case, _]) = prepare(&store);
    let (cases, times) = ([fleet_case(&case)], [time(case.id, 1e6)]);
    let first = origin(1, &cases, &times);
    assert_eq!(store.record_origin(&first).unwrap(), (OriginId(1), true));
    let later = NewOrigin { file: "renamed.jsonl", imported_unix_ms: NOW + 1, ..first };
    let before = store.origins().unwrap();
    assert_eq!(store.record_origin(&later).unwrap(), (OriginId(1), false));
    assert_eq!(store.origins().unwrap(), before);
    assert_eq!(store.record_origin(&origin(2, &cases, &times)).unwrap(), (OriginId(2), true));
    assert_eq!(counts(&store), [(OriginId(1), 1, 1), (OriginId(2), 1, 1)]);

    assert_eq!(store.forget_origin(OriginId(2)).unwrap().unwrap().file, "other.jsonl");
    assert_eq!(store.forget_origin(OriginId(2)).unwrap(), None);
    assert_eq!(counts(&store), [(OriginId(1), 1, 1)]);
    assert_eq!(store.imported_cases(OriginId(2)).unwrap(), []);
    assert_eq!(store.record_origin(&origin(2, &cases, &times)).unwrap(), (OriginId(3), true));
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn an_import_that_fails_at_its_last_time_leaves_nothing() {
    let (_folder, store) = new_store();
    let (_, _, [case, other]) = prepare(&store);
    let cases = [fleet_case(&case)];
    let good = time(case.id, 1e6);
    for bad in [good.clone(), time(other.id, 1e6), time(case.id, -1.0), time(case.id, f64::NAN)] {
        let refused = store.record_origin(&origin(1, &cases, &[good.clone(), bad]));
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        assert_eq!(counts(&store), []);
        assert_eq!(store.imported_times().unwrap(), []);
    }
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}
