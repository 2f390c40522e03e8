//! What the sampler saw, and what meters read for a trial.

use rusqlite::Connection;
use siliconroute_core::energy::{
    EnergyMethod, EnergyRun, EnergyScope, Meter, MeterPoint, MeterSeries, NOT_MEASURED, TimeWindow, WorkDone,
};
use siliconroute_core::reading::Reading;
use siliconroute_core::trial::Trial;
use siliconroute_store::{CampaignId, NewLook, TrialId};

use crate::new_store;
use crate::sample_data::{NOW, prepare, trial};

fn look(number: i64, absences: &str) -> NewLook {
    NewLook {
        taken_unix_ms: NOW + number,
        took_ns: 3,
        document: format!("{{\"number\":{number}}}"),
        absences: absences.to_owned(),
    }
}

#[test]
fn looks_come_back_in_their_order_with_their_reasons() {
    let (_folder, store) = new_store();
    let (campaign, ..) = prepare(&store);
    store.record_telemetry(Some(campaign), &[look(1, r#"{"a":"b"}"#), look(2, r#"{"a":"b"}"#)]).unwrap();
    store.record_telemetry(None, &[look(3, "{}")]).unwrap();
    store.record_telemetry(None, &[]).unwrap();
    let numbers = |campaign, since, most| {
        let looks = store.telemetry(campaign, since, most).unwrap();
        looks.iter().map(|it| it.look.taken_unix_ms - NOW).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, 0, 10), [1, 2, 3]);
    assert_eq!(numbers(Some(campaign), 0, 10), [1, 2]);
    assert_eq!(numbers(None, NOW + 2, 1), [2]);
    let first = &store.telemetry(None, 0, 1).unwrap()[0];
    assert_eq!((first.campaign, &first.look), (Some(campaign), &look(1, r#"{"a":"b"}"#)));
    let connection = Connection::open(store.path()).unwrap();
    let reasons: i64 =
        connection.query_row("SELECT count(*) FROM telemetry_absence", [], |row| row.get(0)).unwrap();
    assert_eq!(reasons, 2, "reasons that repeat are stored once");
    for change in [
        "UPDATE telemetry SET took_ns = 1",
        "DELETE FROM telemetry",
        "UPDATE telemetry_absence SET document = '{}'",
    ] {
        let refused = connection.execute(change, []).unwrap_err().to_string();
        assert!(refused.contains("telemetry is never"), "{refused}");
    }
}

#[test]
fn refuses_a_batch_of_which_a_part_cannot_be_stored() {
    let (_folder, store) = new_store();
    let broken = NewLook { document: "{".to_owned(), ..look(2, "{}") };
    store.record_telemetry(None, &[look(1, "{}"), broken]).unwrap_err();
    let endless = NewLook { took_ns: u64::MAX, ..look(2, "{}") };
    store.record_telemetry(None, &[look(1, "{}"), endless]).unwrap_err();
    store.record_telemetry(Some(CampaignId(99)), &[look(1, "{}")]).unwrap_err();
    assert_eq!(store.telemetry(None, 0, 10).unwrap(), Vec::new());
}

fn run() -> EnergyRun {
    let meter = Meter {
        method: EnergyMethod::Counter,
        scope: EnergyScope::Package,
        name: "rapl package-0".to_owned(),
        chip: None,
    };
    EnergyRun {
        idle: TimeWindow { begin_s: 0.0, end_s: 15.0 },
        load: TimeWindow { begin_s: 15.0, end_s: 45.1 },
        progress: vec![WorkDone { at_s: 45.1, calls: 1_000 }],
        series: vec![MeterSeries {
            meter,
            points: vec![MeterPoint { at_s: 0.1, value: 1.0 / 3.0 }],
            missed: 2,
            absence: Some("gone".to_owned()),
        }],
    }
}

fn with_energy(mut trial: Trial, energy: Reading<EnergyRun>) -> Trial {
    trial.outcome.as_mut().expect("the sample trial is a measurement").energy = energy;
    trial
}

#[test]
fn a_trial_keeps_what_meters_read_or_why_they_did_not() {
    let (_folder, store) = new_store();
    let (campaign, target, cases) = prepare(&store);
    for energy in
        [Reading::Available(run()), Reading::unavailable("no meter"), Reading::unavailable(NOT_MEASURED)]
    {
        let trial = with_energy(trial(&cases[0], 3), energy.clone());
        let id = store.record_trial(campaign, target, &trial).unwrap();
        assert_eq!(store.energy(id).unwrap(), energy);
        assert_eq!(store.trial(id).unwrap().unwrap(), trial);
    }
    assert_eq!(store.energy(TrialId(99)).unwrap(), Reading::unavailable(NOT_MEASURED));
    let connection = Connection::open(store.path()).unwrap();
    let rows: i64 = connection.query_row("SELECT count(*) FROM trial_energy", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
    let refused = connection.execute("DELETE FROM trial_energy", []).unwrap_err().to_string();
    assert!(refused.contains("never deleted"), "{refused}");
    // Infinity is no JSON, so that nothing of such a trial is stored.
    let mut endless = run();
    endless.series[0].points[0].value = f64::INFINITY;
    let trial = with_energy(trial(&cases[0], 3), Reading::Available(endless));
    store.record_trial(campaign, target, &trial).unwrap_err();
}
