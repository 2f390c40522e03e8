//! Crossings of known laws, and what makes a series.

use proptest::prelude::*;

use super::*;
use crate::model::{Bindings, BoundInput, CaseFacts, ClassWork};
use crate::tensor::ElementType;

/// Times of two laws at places, each known to within `share` of itself.
fn points(places: &[f64], share: f64, first: fn(f64) -> f64, second: fn(f64) -> f64) -> Vec<Point> {
    let time = |time: f64| (time, Interval { low: time * (1.0 - share), high: time * (1.0 + share) });
    places.iter().map(|&at| Point { at, first: time(first(at)), second: time(second(at)) }).collect()
}

/// Overhead 1, then 1 for each unit of size.
fn steep(at: f64) -> f64 {
    1.0 + at
}

/// Overhead 50, then a tenth of it; it crosses the steep one at 54.4.
fn flat(at: f64) -> f64 {
    50.0 + 0.1 * at
}

#[track_caller]
fn crossings(points: &[Point]) -> Vec<Crossing> {
    match compare(points) {
        Some(Finding::Crosses(crossings)) => crossings,
        found => panic!("{found:?}"),
    }
}

#[test]
fn a_crossing_is_bracketed_by_its_measured_neighbours() {
    let found = crossings(&points(&[8.0, 32.0, 48.0, 64.0, 256.0], 0.01, steep, flat));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].between, found[0].below), (Interval { low: 48.0, high: 64.0 }, Side::First));
    assert!((found[0].at - 54.4).abs() < 1.0 && !found[0].extrapolated, "{found:?}");
    // Where a neighbour cannot be told apart, the next one that can takes its place.
    let found = crossings(&points(&[8.0, 32.0, 48.0, 64.0, 256.0], 0.1, steep, flat));
    assert_eq!(found[0].between, Interval { low: 32.0, high: 256.0 });
    assert!((found[0].at - 54.4).abs() < 1.0, "{found:?}");
}

#[test]
fn nothing_is_claimed_beyond_twice_the_measured_range() {
    // The lines go on to cross near 54; 32 doubled reaches it, 16 doubled does not.
    let found = crossings(&points(&[8.0, 16.0, 32.0], 0.001, steep, flat));
    assert!(found[0].extrapolated && (32.0..=64.0).contains(&found[0].at), "{found:?}");
    assert_eq!(found[0].between, Interval { low: 32.0, high: 64.0 });
    let found = compare(&points(&[4.0, 8.0, 16.0], 0.001, steep, flat));
    assert_eq!(found, Some(Finding::AlwaysFaster(Side::First)));
    let found = crossings(&points(&[96.0, 128.0, 512.0], 0.001, steep, flat));
    assert!(found[0].extrapolated && (48.0..=96.0).contains(&found[0].at), "{found:?}");
    // No batch is smaller than 1.
    let found = compare(&points(&[1.0, 2.0], 0.001, |at| 2.0 + at, |at| 3.2 - 0.3 / at));
    assert!(!matches!(found, Some(Finding::Crosses(it)) if it.iter().any(|it| it.at < 1.0)));
}

#[test]
fn what_cannot_be_told_apart_does_not_cross() {
    assert_eq!(compare(&points(&[1.0, 2.0, 4.0], 0.5, steep, |at| 1.1 + at)), Some(Finding::NotSeparable));
    assert_eq!(compare(&points(&[3.0], 0.1, steep, flat)), None);
    // They change places by less than the intervals tell: faster where it is known, and that is all.
    let nearly = compare(&points(&[1.0, 2.0, 4.0], 0.05, |_| 10.0, |at| if at > 3.0 { 9.9 } else { 20.0 }));
    assert_eq!(nearly, Some(Finding::AlwaysFaster(Side::First)));
}

fn case(model: u8, family: Family, nodes: u64, parameters: u64, batch: u64) -> Case {
    let facts = CaseFacts {
        batch,
        parameters,
        weight_bytes: 4 * parameters,
        nodes,
        flops: 2.0 * (parameters * batch) as f64,
        activation_bytes: 0.0,
        by_class: vec![ClassWork { class: OperatorClass::MatMul, nodes, flops: 1.0, bytes: 1.0 }],
        family,
        inputs: vec![BoundInput {
            name: "x".to_owned(),
            element: ElementType::Float32,
            shape: vec![batch, 8],
        }],
        index_limits: BTreeMap::new(),
        precision: None,
        assumptions: Vec::new(),
        method_version: 1,
    };
    let bindings = Bindings(BTreeMap::from([("batch".to_owned(), batch)]));
    Case::new(ModelId([model; 32]), format!("m{model}"), bindings, facts)
}

#[test]
fn series_hold_what_differs_in_one_respect() {
    let cases = [
        case(1, Family::Mlp, 8, 100, 1),
        case(2, Family::Mlp, 8, 400, 1),
        case(3, Family::Mlp, 8, 200, 1),
        case(3, Family::Mlp, 8, 200, 16),
        case(4, Family::Mlp, 9, 300, 1),
        case(5, Family::Conv, 8, 500, 1),
    ];
    let found = find_series(&cases);
    let told: Vec<(&str, Axis, Vec<f64>)> = found
        .iter()
        .map(|it| (it.label.as_str(), it.axis, it.cases.iter().map(|(at, _)| *at).collect()))
        .collect();
    assert_eq!(
        told,
        [
            ("mlp of 8 nodes at batch 1", Axis::Parameters, vec![100.0, 200.0, 400.0]),
            ("m3", Axis::Batch, vec![1.0, 16.0]),
        ]
    );
}

proptest! {
    #[test]
    fn crossings_lie_within_twice_the_range(
        times in prop::collection::vec((1.0_f64..1e6, 1.0_f64..1e6), 2..8), share in 0.0_f64..0.3,
    ) {
        let time = |time: f64| (time, Interval { low: time * (1.0 - share), high: time * (1.0 + share) });
        let points: Vec<Point> = times
            .iter()
            .enumerate()
            .map(|(index, (a, b))| Point { at: (index as f64).exp2(), first: time(*a), second: time(*b) })
            .collect();
        if let Some(Finding::Crosses(crossings)) = compare(&points) {
            let most = points.last().map_or(0.0, |point| point.at);
            for pair in crossings.windows(2) {
                prop_assert!(pair[0].at <= pair[1].at && pair[0].below != pair[1].below);
            }
            for it in crossings {
                prop_assert!((1.0..=2.0 * most).contains(&it.at));
                prop_assert!(it.between.contains(it.at));
            }
        }
    }
}
