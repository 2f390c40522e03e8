//! Figures of chips.

use siliconroute_core::chip::ChipKey;
use siliconroute_core::chip_figure::{ChipFigure, ChipQuantity, MemoryLevel};
use siliconroute_store::StoreError;

use crate::new_store;
use crate::sample_data::{NOW, prepare};

fn bandwidth(level: MemoryLevel, threads: u32, value: f64) -> ChipFigure {
    ChipFigure {
        quantity: ChipQuantity::ReadBandwidth,
        level: Some(level),
        working_set_bytes: Some(1 << 20),
        threads,
        value,
        samples: vec![value, value * 0.99],
        method: 1,
    }
}

fn overhead(value: f64) -> ChipFigure {
    ChipFigure {
        quantity: ChipQuantity::DispatchOverhead,
        level: None,
        working_set_bytes: None,
        threads: 2,
        value,
        samples: vec![value],
        method: 1,
    }
}

#[test]
fn the_latest_figure_of_each_kind_counts() {
    let (_folder, store) = new_store();
    prepare(&store);
    let first = [bandwidth(MemoryLevel::L2, 1, 1e11), bandwidth(MemoryLevel::L2, 2, 2e11), overhead(3e-7)];
    store.record_chip_figures(&ChipKey::cpu(), "here", &first, NOW).unwrap();
    let again = [bandwidth(MemoryLevel::L2, 2, 1.9e11)];
    store.record_chip_figures(&ChipKey::cpu(), "here", &again, NOW + 1).unwrap();
    let found = store.chip_figures(&ChipKey::cpu(), "here").unwrap();
    let found: Vec<_> = found.into_iter().map(|stored| (stored.figure, stored.measured_unix_ms)).collect();
    let expected = [(first[2].clone(), NOW), (first[0].clone(), NOW), (again[0].clone(), NOW + 1)];
    assert_eq!(found, expected);
    assert!(store.chip_figures(&ChipKey::cpu(), "elsewhere").unwrap().is_empty());
    assert!(store.check().unwrap().is_empty());
}

#[test]
fn absurd_figures_are_refused_as_a_whole() {
    let (_folder, store) = new_store();
    prepare(&store);
    let level_of_no_bandwidth = ChipFigure { level: Some(MemoryLevel::L1), ..overhead(1.0) };
    for absurd in
        [overhead(f64::NAN), overhead(f64::INFINITY), overhead(0.0), overhead(-1.0), level_of_no_bandwidth]
    {
        let figures = [overhead(1e-7), absurd];
        let refused = store.record_chip_figures(&ChipKey::cpu(), "here", &figures, NOW);
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    }
    let unknown = store.record_chip_figures(&ChipKey("cpu:9".to_owned()), "here", &[overhead(1.0)], NOW);
    assert!(matches!(unknown, Err(StoreError::Refused { .. })), "{unknown:?}");
    assert!(store.chip_figures(&ChipKey::cpu(), "here").unwrap().is_empty());
}
