//! What a session is set up with; no library is loaded here.

use std::path::Path;

use siliconroute_core::model::Bindings;
use siliconroute_core::{ChipKey, ChipKind, ProviderName, Target, TargetKey};

use super::*;
use crate::onnxruntime::devices::Quirks;
use crate::session::{Offer, ThreadOptions};

fn configured(quirks: Quirks, options: &[(&str, &str)]) -> Configured {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let target = Target {
        key: TargetKey("gpu@x/dml".to_owned()),
        provider: ProviderName::parse("DmlExecutionProvider"),
        provider_version: "1".to_owned(),
        chip: ChipKey("gpu@x".to_owned()),
        chip_kind: ChipKind::Gpu,
        options,
    };
    Configured {
        offer: Offer { target, device: BTreeMap::new(), unavailable: None },
        registered_name: "DmlExecutionProvider".to_owned(),
        access: Access::Device(0),
        luid: None,
        quirks,
    }
}

fn setup(configured: &Configured, cached: &Cached) -> Setup {
    let bindings = Bindings(BTreeMap::from([("batch".to_owned(), 8)]));
    let request = SessionRequest {
        model: Path::new("m.onnx"),
        inputs: &[],
        outputs: &[],
        bindings: &bindings,
        threads: &ThreadOptions::default(),
        compile_cache: None,
    };
    Setup::new(configured, &request, cached).unwrap()
}

#[test]
fn precautions_are_taken_where_the_provider_needs_them() {
    let plain = setup(&configured(Quirks::default(), &[]), &Cached::default());
    assert!(!plain.one_operator_at_a_time && plain.dimensions.is_empty());
    let careful = Quirks { one_operator_at_a_time: true, static_shapes: true, ..Quirks::default() };
    let careful = setup(&configured(careful, &[]), &Cached::default());
    assert!(careful.one_operator_at_a_time);
    assert_eq!(careful.dimensions, [("batch".to_owned(), 8)]);
}

#[test]
fn every_session_records_where_its_nodes_run() {
    let setup = setup(&configured(Quirks::default(), &[]), &Cached::default());
    assert_eq!(setup.entries, [(placement::RECORD_KEY, "1".to_owned())]);
}

#[test]
fn options_are_prefixed_once_and_a_compile_cache_joins_them() {
    let cached = Cached {
        options: BTreeMap::from([("b".to_owned(), "cache".to_owned())]),
        entries: vec![("ep.context_enable", "1".to_owned())],
        model: None,
    };
    let setup = setup(&configured(Quirks::default(), &[("a", "1"), ("b", "2")]), &cached);
    let prefixed = setup.prefixed_options("DmlExecutionProvider");
    let expected = [("DmlExecutionProvider.a", "1"), ("DmlExecutionProvider.b", "cache")];
    assert_eq!(prefixed, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert_eq!(setup.entries[1], ("ep.context_enable", "1".to_owned()));
}
