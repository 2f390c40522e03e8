//! The families against their formulas, counted from the written models.

use siliconroute_core::{Bindings, Family, OperatorClass};

use super::{SyntheticFamily, SyntheticModel, published_ladder};
use crate::load::{load_model, parse_model};

const ALL: [SyntheticFamily; 3] = [SyntheticFamily::Mlp, SyntheticFamily::Conv, SyntheticFamily::Attn];

#[test]
fn formulas_equal_the_counts_of_the_written_model() {
    for (family, expected) in ALL.into_iter().zip([Family::Mlp, Family::Conv, Family::Attn]) {
        for (width, layers, batch) in [(8, 1, 1), (24, 3, 5)] {
            let synthetic = SyntheticModel::new(family, width, layers);
            let model = parse_model(synthetic.to_bytes()).expect("sound");
            let bindings = model.default_bindings(batch, &Bindings::default());
            assert_eq!(bindings.to_string(), format!("batch={batch}"));
            let facts = model.case_facts(&bindings).expect("countable");
            let work: f64 = facts
                .by_class
                .iter()
                .filter(|w| matches!(w.class, OperatorClass::MatMul | OperatorClass::Conv))
                .map(|w| w.flops)
                .sum();
            assert!((work - synthetic.flops(batch)).abs() < 0.5, "{synthetic}");
            assert_eq!(facts.parameters, synthetic.parameters(), "{synthetic}");
            assert_eq!((facts.batch, facts.family), (batch, expected), "{synthetic}");
            assert!(facts.assumptions.is_empty(), "{synthetic}: {:?}", facts.assumptions);
            let shapes = model.output_shapes(&bindings).expect("inferable");
            let bound: Vec<Option<u64>> = facts.inputs[0].shape.iter().map(|&d| Some(d)).collect();
            assert_eq!(shapes[0].sizes.as_deref(), Some(bound.as_slice()), "output and input have one shape");
        }
    }
}

#[test]
fn names_round_trip_and_others_are_refused() {
    for model in published_ladder() {
        assert_eq!(SyntheticModel::parse(&model.name()), Ok(model));
    }
    for name in [
        "",
        "mlp",
        "mlp-256w",
        "mlp-256c-4l",
        "mlp-0w-4l",
        "mlp-256w-0l",
        "mlp-+256w-4l",
        "mlp-0256w-4l",
        "mlp-256w-4l-x",
        "lstm-256w-4l",
        "mlp-99999999999999999999w-4l",
        "mlp-8192w-64l",
        "MLP-256w-4l",
    ] {
        assert!(SyntheticModel::parse(name).is_err(), "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for family in ALL {
        let model = SyntheticModel::new(family, 16, 2);
        assert_eq!(model.to_bytes(), model.to_bytes());
        assert_ne!(model.to_bytes(), SyntheticModel { seed: 1, ..model }.to_bytes());
    }
}

#[test]
fn written_files_load() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("m.onnx");
    let synthetic = SyntheticModel::new(SyntheticFamily::Attn, 16, 1);
    synthetic.write(&path).expect("writable");
    synthetic.write(&path).expect("writable again");
    assert_eq!(load_model(&path).expect("sound").facts().parameters, synthetic.parameters());
    let error = synthetic.write(&folder.path().join("none/m.onnx")).expect_err("no folder");
    assert!(error.to_string().contains("m.onnx"), "{error}");
}

#[test]
fn weights_have_the_variance_that_keeps_activations_alive() {
    let mut weights = super::Weights(rand_xoshiro::rand_core::SeedableRng::seed_from_u64(3));
    let drawn = weights.draw(100_000, 0.25);
    let mean = drawn.iter().map(|&x| f64::from(x)).sum::<f64>() / 1e5;
    let variance = drawn.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 1e5;
    assert!(mean.abs() < 0.01 && (variance.sqrt() - 0.25).abs() < 0.005, "{mean} {variance}");
}

#[test]
fn the_ladder_is_the_published_one() {
    let names: Vec<String> = published_ladder().iter().map(SyntheticModel::name).collect();
    assert_eq!(names.len(), 18);
    for name in ["mlp-128w-4l", "mlp-4096w-4l", "conv-8c-4l", "conv-128c-4l", "attn-64d-2l", "attn-1024d-2l"]
    {
        assert!(names.contains(&name.to_owned()), "{name}");
    }
}
