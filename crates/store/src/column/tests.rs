//! Columns that round trip, and values that are refused.

use rusqlite::Connection;
use siliconroute_core::chip::ChipKind;
use siliconroute_core::trial::FailureKind;
use siliconroute_core::workload::Workload;

use super::*;

/// Sends a value through SQLite.
fn through<T: FromSql>(value: impl ToSql) -> rusqlite::Result<T> {
    Connection::open_in_memory()?.query_row("SELECT ?1", [value], |row| row.get(0))
}

#[test]
fn seeds_keep_all_their_bits() {
    for seed in [0, 1, u64::MAX, 1 << 63] {
        assert_eq!(through::<Seed>(Seed(seed)).unwrap().0, seed);
    }
}

#[test]
fn names_are_the_stable_ones() {
    for workload in Workload::ALL {
        assert_eq!(through::<String>(Name(workload)).unwrap(), workload.name());
        assert_eq!(through::<Name<Workload>>(Name(workload)).unwrap().0, workload);
    }
    let kind = FailureKind::MemoryExceeded;
    assert_eq!(through::<String>(Name(kind)).unwrap(), kind.name());
    assert_eq!(through::<String>(Name(ChipKind::Npu)).unwrap(), ChipKind::Npu.to_string());
    assert!(through::<Name<Workload>>("no workload").is_err());
    assert!(through::<String>(Name(5)).is_err(), "a number is not a name");
}

#[test]
fn numbers_come_back_as_they_were() {
    let numbers = vec![0.1 + 0.2, 1.0 / 3.0, f64::MIN_POSITIVE, f64::MAX, 5e-324];
    assert_eq!(through::<Json<Vec<f64>>>(Json(&numbers)).unwrap().0, numbers);
}

#[test]
fn refuses_what_could_not_be_read_back() {
    assert!(through::<String>(Json(&vec![f64::NAN])).is_err());
    assert!(through::<String>(Json(&f64::INFINITY)).is_err());
    assert!(through::<Json<Vec<f64>>>("[").is_err());
}
