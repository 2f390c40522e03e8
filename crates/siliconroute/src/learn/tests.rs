//! The identity of what a hardware model was fitted on.

use siliconroute_core::form::OperatorWork;
use siliconroute_core::model::Family;

use super::*;

fn row(model: u8, time_ns: f64) -> FitRow {
    FitRow {
        model: ModelId([model; 32]),
        flops: 1e6,
        weight_bytes: 4e3,
        parameters: 1e3,
        batch: 1.0,
        nodes: 8.0,
        operators: OperatorWork::default(),
        family: Family::Mlp,
        time_ns,
    }
}

#[test]
fn a_digest_changes_with_whatever_a_fit_depends_on() {
    let rows = [row(1, 5.0), row(2, 6.0)];
    let bounds = ChipBounds::from(8e6);
    let original = digest(&rows, &bounds);
    assert_eq!(digest(&rows, &bounds), original);
    let mut changed = vec![
        digest(&rows, &ChipBounds::from(9e6)),
        digest(&rows[..1], &bounds),
        digest(&[rows[1], rows[0]], &bounds),
    ];
    let changes: [fn(&mut FitRow); 9] = [
        |row| row.model = ModelId([9; 32]),
        |row| row.flops += 1.0,
        |row| row.weight_bytes += 1.0,
        |row| row.parameters += 1.0,
        |row| row.batch += 1.0,
        |row| row.family = Family::Conv,
        |row| row.time_ns += 1.0,
        |row| row.operators.matrix_flops += 1.0,
        |row| row.operators.moved_bytes += 1.0,
    ];
    for change in changes {
        let mut other = rows;
        change(&mut other[1]);
        changed.push(digest(&other, &bounds));
    }
    for (index, digest) in changed.iter().enumerate() {
        assert_ne!(*digest, original, "change {index}");
        assert!(!changed[..index].contains(digest), "change {index}");
    }
}
