//! The probe separates the precisions it is there to separate.

use super::{WIDTH, draw, index_probe_model, precision_probe_model, precision_probe_reference};

/// The largest error relative to the largest output, when the operands are first rounded by `round`.
fn error_when(round: impl Fn(f32) -> f32) -> f64 {
    let (input, weights) = draw();
    let reference = precision_probe_reference().output;
    let largest = reference.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    let mut sums = vec![0.0_f32; WIDTH];
    for (x, row) in input.iter().zip(weights.chunks_exact(WIDTH)) {
        for (sum, w) in sums.iter_mut().zip(row) {
            *sum += round(*x) * round(*w);
        }
    }
    sums.iter().zip(&reference).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max) / largest
}

/// Rounds to `bits` significant bits, half away from zero.
fn to_bits(x: f32, bits: i32) -> f32 {
    let scale = 2_f32.powi(bits - 1);
    (x * scale).round() / scale
}

#[test]
fn rounded_operands_show_in_the_output() {
    let single = error_when(|x| x);
    let half = error_when(|x| to_bits(x, 11));
    let brain = error_when(|x| to_bits(x, 8));
    assert!(single < 5e-6, "{single}");
    assert!((5e-5..1e-3).contains(&half), "{half}");
    assert!((5e-4..1e-2).contains(&brain), "{brain}");
}

#[test]
fn the_model_takes_the_probe_input() {
    let model = crate::load::parse_model(precision_probe_model()).expect("sound");
    assert_eq!(model.facts().inputs[0].to_string(), "input: float32[1,256]");
    assert!(model.facts().free_dimensions.is_empty());
    assert_eq!(precision_probe_reference().input.len(), WIDTH);
}

#[test]
fn the_index_probe_hides_its_index_from_the_check_of_inputs() {
    let model = crate::load::parse_model(index_probe_model()).expect("sound");
    assert_eq!(model.facts().inputs[0].to_string(), "ids: int64[1]");
    let facts = model.case_facts(&siliconroute_core::model::Bindings::default()).expect("countable");
    assert!(facts.index_limits.is_empty());
}
