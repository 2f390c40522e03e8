//! Keys with settings, there and back.

use std::collections::BTreeMap;

use super::*;
use crate::chip::{ChipKey, ChipKind};

fn plain(key: &str) -> Target {
    Target {
        key: TargetKey(key.to_owned()),
        provider: ProviderName::parse("ort"),
        provider_version: "1".to_owned(),
        chip: ChipKey::cpu(),
        chip_kind: ChipKind::Cpu,
        options: BTreeMap::new(),
    }
}

#[test]
fn settings_are_part_of_the_key_and_come_back_from_it() {
    for text in [
        "cpu/ort",
        "cpu/ort+threads=3",
        "cpu/ort+spin=off",
        "cpu/ort+threads=1+spin=on+block_base=4+cores=efficiency",
        "a/b-c+threads=1+compile_cache+concurrency=4+again",
        "cpu/ort+threads=8+spin=off+block_base=16+cores=0-3:6+compile_cache+concurrency=2+again",
    ] {
        let (base, settings) = SessionSettings::split(text).unwrap();
        let applied = settings.apply(plain(base.as_str()));
        assert_eq!(applied.key.as_str(), text);
        assert_eq!(SessionSettings::split(applied.key.as_str()).unwrap(), (base, settings));
    }
}

#[test]
fn a_key_has_one_order_whatever_was_written() {
    let (base, settings) =
        SessionSettings::split("cpu/ort+again+cores=1:0+block_base=2+spin=off+threads=2").unwrap();
    let target = settings.apply(plain(base.as_str()));
    assert_eq!(target.key.as_str(), "cpu/ort+threads=2+spin=off+block_base=2+cores=0-1+again");
    let options: Vec<_> = target.options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(options, ["block_base=2", "cores=0-1", "spin=off", "threads=2"]);
}

#[test]
fn unknown_settings_are_named() {
    for text in [
        "cpu/ort+",
        "cpu/ort+threads",
        "cpu/ort+threads=0",
        "cpu/ort+threads=1+threads=2",
        "a+spin=1",
        "a+spin",
        "a+spin=on+spin=off",
        "a+block_base=0",
        "a+cores=",
        "a+cores=fast",
        "a+cores=9-1",
    ] {
        let error = SessionSettings::split(text).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("+threads=N"), "{error}");
    }
}

#[test]
fn only_onnx_runtime_s_cpu_provider_takes_more_than_threads() {
    #[track_caller]
    fn check(provider: &str, text: &str, expected: Option<&str>) {
        let (base, settings) = SessionSettings::split(text).unwrap();
        let found = settings.check(&ProviderName::parse(provider), &base).err();
        match (found, expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
        }
    }
    check("ort", "cpu/ort+threads=2+spin=off+block_base=4+cores=performance", None);
    check("rten", "cpu/rten+threads=2", None);
    check("rten", "cpu/rten+spin=off", Some("cpu/rten takes no `spin`"));
    check("openvino", "cpu/openvino+block_base=4", Some("cpu/openvino takes no `block_base`"));
    check("dml", "gpu:1/dml+cores=0-1", Some("takes no `cores`"));
    check("ort", "cpu/ort+threads=1+cores=0-1", Some("one thread has none beside it"));
    check("ort", "cpu/ort+cores=3", Some("one thread has none beside it"));
}

#[test]
fn settings_round_trip_as_a_document() {
    let (_, settings) = SessionSettings::split("cpu/ort+threads=2+spin=off+cores=0-1").unwrap();
    let document = serde_json::to_string(&settings.cpu).unwrap();
    assert_eq!(document, r#"{"threads":2,"spin":false,"cores":"0-1"}"#);
    assert_eq!(serde_json::from_str::<CpuSettings>(&document).unwrap(), settings.cpu);
}
