//! Which options and precautions each provider gets; no library is loaded here.

use super::*;

fn entry(registered_name: &str, kind: ChipKind) -> Configured {
    let variant = Variant { name: None, options: Vec::new() };
    let chip = ChipIdentity::default().key(kind);
    configure(registered_name, "1", kind, &chip, variant, Access::Device(0), BTreeMap::new())
}

#[test]
fn directml_gets_neither_memory_patterns_nor_operators_side_by_side() {
    let quirks = entry("DmlExecutionProvider", ChipKind::Gpu).quirks;
    assert_eq!(quirks, Quirks { one_operator_at_a_time: true, by_dxgi_position: true, ..Quirks::default() });
    assert_eq!(entry("CPUExecutionProvider", ChipKind::Cpu).quirks, Quirks::default());
    assert!(entry("QNNExecutionProvider", ChipKind::Npu).quirks.static_shapes);
    assert!(entry("WebGpuExecutionProvider", ChipKind::Gpu).quirks.one_at_a_time);
}

#[test]
fn qnn_is_told_the_back_end_of_the_device_it_was_given() {
    let backends = |kind, imitated| -> Vec<String> {
        let variants = qnn_variants(kind, imitated);
        variants.into_iter().map(|variant| variant.options[0].1.clone()).collect()
    };
    assert_eq!(backends(ChipKind::Npu, false), ["htp", "htp"]);
    assert_eq!(backends(ChipKind::Gpu, false), ["gpu"]);
    assert_eq!(backends(ChipKind::Cpu, true), ["htp"]);
    assert!(backends(ChipKind::Cpu, false).is_empty());
    let burst = variants("qnn", ChipKind::Npu, CpuFeatures::default()).remove(1);
    assert_eq!(burst.name, Some("burst"));
    assert!(burst.options.contains(&("htp_performance_mode", "burst".to_owned())));
}

#[test]
fn core_ml_is_put_onto_the_chips_that_every_apple_processor_has() {
    let places: Vec<(String, String)> = places_by_name("CoreMLExecutionProvider")
        .into_iter()
        .map(|place| (place.chip.to_string(), place.options[0].1.clone()))
        .collect();
    let expected = [("gpu@soc", "CPUAndGPU"), ("npu@soc", "CPUAndNeuralEngine")];
    assert_eq!(places, expected.map(|(chip, units)| (chip.to_owned(), units.to_owned())));
    assert!(places_by_name("CUDAExecutionProvider").is_empty());
}

#[test]
fn a_built_in_provider_without_a_device_is_listed_with_the_reason() {
    let built_in = ["DmlExecutionProvider", "CPUExecutionProvider"].map(str::to_owned);
    let refused = refuse_unlisted(&built_in, |name| name.starts_with("CPU"), "1.24.4");
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].target.key.as_str(), "*/dml");
    assert_eq!(refused[0].target.provider_version, "1.24.4");
    assert!(refused[0].unavailable.as_deref().unwrap().contains("lists no device"));
}
