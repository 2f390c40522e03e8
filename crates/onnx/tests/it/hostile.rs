//! Whatever the bytes say, reading ends with facts or an error.

use std::sync::LazyLock;

use proptest::prelude::*;
use siliconroute_core::Bindings;
use siliconroute_onnx::{SyntheticFamily, SyntheticModel, parse_model, precision_probe_model};

/// Models whose structure is most of their bytes.
static MODELS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut models = vec![precision_probe_model()];
    for family in [SyntheticFamily::Mlp, SyntheticFamily::Conv, SyntheticFamily::Attn] {
        models.push(SyntheticModel::new(family, 2, 3).to_bytes());
    }
    models
});

fn read(bytes: Vec<u8>) {
    if let Ok(model) = parse_model(bytes) {
        let defaults = model.default_bindings(3, &Bindings::default());
        for bindings in [Bindings::default(), defaults] {
            if let Ok(facts) = model.case_facts(&bindings) {
                assert!(facts.flops.is_finite() && facts.flops >= 0.0);
                assert!(facts.by_class.iter().all(|w| w.bytes.is_finite() && w.bytes >= 0.0));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cut_models_are_survived(which in 0..4_usize, keep in any::<prop::sample::Index>()) {
        let bytes = &MODELS[which];
        read(bytes[..keep.index(bytes.len())].to_vec());
    }

    #[test]
    fn changed_models_are_survived(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = MODELS[which].clone();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        read(bytes);
    }

    #[test]
    fn spliced_models_are_survived(
        which in 0..4_usize,
        (from, to, at) in any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>(),
    ) {
        let mut bytes = MODELS[which].clone();
        let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
        let part = bytes[a.min(b)..a.max(b).min(a.min(b) + 64)].to_vec();
        let at = at.index(bytes.len());
        bytes.splice(at..at, part);
        read(bytes);
    }

    #[test]
    fn noise_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        read(bytes);
    }
}
