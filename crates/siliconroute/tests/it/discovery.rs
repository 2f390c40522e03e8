//! Which targets are found, and why others cannot be used.

use siliconroute::Router;
use siliconroute::discovery::Found;
use siliconroute::event::Silent;
use siliconroute_core::{ChipKind, Reading};
use siliconroute_hardware::ChipFinding;
use siliconroute_testkit::{
    Behaviour, FakeEngine, FakeTarget, Fault, Moment, NodePlacement, Outputs, TimeLaw,
};

use crate::simulated::{GPU, ORT, RTEN, Simulated, gpu, key, ort, rten};

fn found(router: &Router) -> Vec<Found> {
    router.targets(&mut Silent).unwrap().discovery.found
}

/// The reason why the target called `name` cannot be used.
#[track_caller]
fn check(simulated: &Simulated, name: &str, reason: Option<&str>) {
    let all = found(&simulated.router());
    let entry = all.iter().find(|found| found.target.key == key(name)).unwrap();
    match (&entry.unavailable, reason) {
        (None, None) => {}
        (Some(found), Some(reason)) => assert!(found.contains(reason), "{found}"),
        (found, expected) => panic!("{name}: {found:?}, expected {expected:?}"),
    }
}

/// A CPU provider whose `load_config` asks for a precision, with this error.
fn precision(asked: &str, outputs: Outputs) -> Simulated {
    let target = FakeTarget::new("cpu/openvino", TimeLaw::new(1e4, 0.01))
        .option("load_config", &format!(r#"{{"CPU":{{"INFERENCE_PRECISION_HINT":"{asked}"}}}}"#))
        .always(Behaviour::outputs(outputs));
    Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new("fakeov", vec![target]),
        FakeEngine::new("rten", vec![rten()]),
    ])
}

#[test]
fn targets_are_listed_in_the_order_of_their_engines_with_their_proof() {
    let simulated = Simulated::usual();
    let all = found(&simulated.router());
    let keys: Vec<&str> = all.iter().map(|found| found.target.key.as_str()).collect();
    assert_eq!(keys, [ORT, GPU, RTEN]);
    assert!(all.iter().all(|found| found.unavailable.is_none()));
    assert!(all.iter().all(|found| *found.proven_error.available().unwrap() < 1e-6));
    assert!(all.iter().all(|found| found.target.provider_version.contains("simulated")));
}

#[test]
fn an_engine_that_does_not_open_is_listed_with_its_reason() {
    let faults = [
        (Fault::Crash, "crashed: the worker ended by itself"),
        (Fault::Hang, "timed_out: no answer within 60.0 s"),
        (Fault::OutOfMemory, "memory_exceeded"),
        (Fault::Refuse("the library is for another CPU".to_owned()), "refused: the library is for another"),
    ];
    for (fault, reason) in faults {
        let simulated = Simulated::of(vec![
            FakeEngine::new("onnxruntime", vec![ort()]),
            FakeEngine::broken("fakegpu", fault),
            FakeEngine::new("rten", vec![rten()]),
        ]);
        check(&simulated, "*/fakegpu", Some(reason));
        check(&simulated, ORT, None);
        check(&simulated, RTEN, None);
    }
}

#[test]
fn a_crash_is_not_remembered_and_a_refusal_is() {
    for (fault, asked_again) in [(Fault::Crash, true), (Fault::Refuse("no".to_owned()), false)] {
        let simulated = Simulated::of(vec![
            FakeEngine::new("onnxruntime", vec![ort()]),
            FakeEngine::broken("fakegpu", fault),
            FakeEngine::new("rten", vec![rten()]),
        ]);
        found(&simulated.router());
        simulated.launcher.forget_calls();
        found(&simulated.router());
        assert_eq!(!simulated.launcher.calls().is_empty(), asked_again);
    }
}

#[test]
fn a_target_that_dies_of_the_probe_does_not_take_its_neighbours_along() {
    let second = FakeTarget::new("gpu:8086:1234@0000:02:00.0/webgpu", TimeLaw::new(1e5, 1e-3));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new(
            "fakegpu",
            vec![gpu().on("precision-probe", Behaviour::fault(Moment::Run, Fault::Crash)), second],
        ),
        FakeEngine::new("rten", vec![rten()]),
    ]);
    check(&simulated, GPU, Some("the precision probe failed: crashed"));
    check(&simulated, "gpu:8086:1234@0000:02:00.0/webgpu", None);
}

#[test]
fn the_probe_must_run_on_the_target_and_give_its_outputs() {
    let with_gpu = |behaviour| Simulated::with(ort(), gpu().on("precision-probe", behaviour), rten());
    check(&with_gpu(Behaviour::placed(NodePlacement::Elsewhere)), GPU, Some("fell_back: 0 of 9 nodes"));
    check(&with_gpu(Behaviour::outputs(Outputs::NotANumber)), GPU, Some("beyond every accuracy class"));
    check(&with_gpu(Behaviour::outputs(Outputs::Off(0.2))), GPU, Some("relative error is 2.0e-1, beyond"));
    check(&with_gpu(Behaviour::outputs(Outputs::Off(2e-2))), GPU, None);
}

#[test]
fn a_precision_option_must_have_an_effect() {
    check(&precision("f32", Outputs::Right), "cpu/openvino", None);
    let ineffective =
        Some("asked for f32, but the probe's relative error is 2.0e-3: the option has no effect");
    check(&precision("f32", Outputs::Off(2e-3)), "cpu/openvino", ineffective);
    check(&precision("bf16", Outputs::Off(2e-3)), "cpu/openvino", None);
    check(&precision("bf16", Outputs::Right), "cpu/openvino", Some("asked for 16 bits"));
    check(&precision("f16", Outputs::Right), "cpu/openvino", Some("asked for 16 bits"));
}

#[test]
fn what_an_engine_calls_unusable_keeps_its_reason() {
    let mut offered = gpu();
    offered.unavailable = Some("needs a newer driver".to_owned());
    let simulated = Simulated::with(ort(), offered, rten());
    check(&simulated, GPU, Some("needs a newer driver"));
    let targets = simulated.router().targets(&mut Silent).unwrap();
    let error = targets.get(GPU).unwrap_err().to_string();
    assert!(error.contains("needs a newer driver"), "{error}");
    let error = targets.get("npu:nope/x").unwrap_err().to_string();
    assert!(error.contains("cpu/ort, cpu/rten"), "{error}");
}

#[test]
fn the_first_engine_that_offers_a_target_keeps_it() {
    let twin = FakeTarget { law: TimeLaw::new(1.0, 1e-9), ..ort() };
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new("fakegpu", vec![twin]),
        FakeEngine::new("rten", vec![rten()]),
    ]);
    let all = found(&simulated.router());
    assert_eq!(all.len(), 2);
    assert!(all[0].target.provider_version.starts_with("9.9.9"));
}

#[test]
fn whether_a_target_checks_indices_is_probed_and_harms_no_neighbour() {
    let checks = |behaviour: Option<Behaviour>| {
        let scripted = match behaviour {
            Some(behaviour) => gpu().on("index-probe", behaviour),
            None => gpu(),
        };
        let simulated = Simulated::with(ort(), scripted, rten());
        check(&simulated, GPU, None);
        check(&simulated, RTEN, None);
        let all = found(&simulated.router());
        all.into_iter().find(|found| found.target.key == key(GPU)).unwrap().checks_indices
    };
    assert_eq!(checks(None), Reading::Available(true));
    assert_eq!(checks(Some(Behaviour::default())), Reading::Available(false));
    let refuse = Behaviour::fault(Moment::Create, Fault::Refuse("no Gather".to_owned()));
    for behaviour in [refuse, Behaviour::fault(Moment::Run, Fault::Crash)] {
        let unknown = checks(Some(behaviour)).to_string();
        assert!(unknown.contains("the index probe failed"), "{unknown}");
    }
}

#[test]
fn an_npu_that_only_a_provider_knows_is_among_the_chips() {
    let npu = FakeTarget::new("npu:1022:17f0/vitisai", TimeLaw::new(1e5, 0.001));
    let unclear = FakeTarget::new("gpu:10de:2684/dml", TimeLaw::new(1e5, 0.001))
        .always(Behaviour::fault(Moment::Create, Fault::Refuse("which of two it is".to_owned())));
    let simulated = Simulated::of(vec![
        FakeEngine::new("onnxruntime", vec![ort()]),
        FakeEngine::new("fakenpu", vec![npu, unclear]),
        FakeEngine::new("rten", vec![rten()]),
    ]);
    let gap = |kind, reason: &str| ChipFinding {
        kind,
        chip: Reading::unavailable(reason),
        source: "a test".to_owned(),
    };
    let seen = [gap(ChipKind::Gpu, "no GPU"), gap(ChipKind::Npu, "no NPU in the device class")];
    let chips = simulated.router().targets(&mut Silent).unwrap().discovery.chips(&seen);
    let told: Vec<_> = chips
        .iter()
        .map(|finding| {
            (finding.chip.available().map_or("none", |chip| chip.key.as_str()), finding.source.as_str())
        })
        .collect();
    let expected =
        [("none", "a test"), ("cpu", "the provider ort"), ("npu:1022:17f0", "the provider vitisai")];
    assert_eq!(told, expected);
    assert_eq!(chips[0], seen[0]);
}
