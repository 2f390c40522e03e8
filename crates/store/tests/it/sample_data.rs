//! Made-up chips, targets, models, cases and trials that the tests and the benchmark record.
//!
//! Invariant: the same arguments give the same values.

use std::collections::BTreeMap;

use siliconroute_core::accuracy::OutputDifference;
use siliconroute_core::chip::{Chip, ChipIdentity, ChipKey, ChipKind};
use siliconroute_core::energy::NOT_MEASURED;
use siliconroute_core::identity::ModelId;
use siliconroute_core::model::{
    Bindings, BoundInput, Case, CaseFacts, ClassWork, Family, ModelFacts, OperatorClass, Precision,
};
use siliconroute_core::reading::Reading;
use siliconroute_core::target::{ProviderName, Target, TargetKey};
use siliconroute_core::tensor::ElementType;
use siliconroute_core::trial::{
    Before, Failure, FailureKind, Measurement, OutputCheck, Placement, Preparation, Purpose, Sample, Trial,
};
use siliconroute_core::workload::Workload;
use siliconroute_store::{CampaignId, ModelRecord, NewCampaign, Store, TargetId};

pub(crate) const NOW: i64 = 1_700_000_000_000;

pub(crate) fn chip() -> Chip {
    Chip {
        key: ChipKey::cpu(),
        kind: ChipKind::Cpu,
        vendor: "Maker".to_owned(),
        name: "Fast Chip 9".to_owned(),
        identity: ChipIdentity::default(),
        memory_bytes: None,
        software: false,
        driver: None,
    }
}

pub(crate) fn target(version: &str) -> Target {
    let provider = ProviderName::parse("openvino");
    Target {
        key: TargetKey::new(&ChipKey::cpu(), &provider, None),
        provider,
        provider_version: version.to_owned(),
        chip: ChipKey::cpu(),
        chip_kind: ChipKind::Cpu,
        options: BTreeMap::from([("INFERENCE_PRECISION_HINT".to_owned(), "f32".to_owned())]),
    }
}

pub(crate) fn model(number: u8) -> ModelFacts {
    ModelFacts {
        id: ModelId([number; 32]),
        ir_version: 8,
        opsets: BTreeMap::from([(String::new(), 17)]),
        producer: None,
        parameters: 1000 * u64::from(number),
        weight_bytes: 4000 * u64::from(number),
        file_bytes: 5000 * u64::from(number),
        precision: Precision::Fp32,
        nodes: 3,
        operators: BTreeMap::from([("Gemm".to_owned(), 3)]),
        inputs: Vec::new(),
        outputs: Vec::new(),
        free_dimensions: vec!["batch".to_owned()],
        external_data: false,
        method_version: 1,
    }
}

pub(crate) fn case(model: &ModelFacts, batch: u64) -> Case {
    let flops = (2 * model.parameters * batch) as f64 + 0.1;
    let facts = CaseFacts {
        batch,
        parameters: model.parameters,
        weight_bytes: model.weight_bytes,
        nodes: model.nodes,
        flops,
        activation_bytes: 1.0 / 3.0,
        by_class: vec![ClassWork { class: OperatorClass::MatMul, nodes: 3, flops, bytes: 0.3 }],
        family: Family::Mlp,
        inputs: vec![BoundInput {
            name: "x".to_owned(),
            element: ElementType::Float32,
            shape: vec![batch, 10],
        }],
        index_limits: BTreeMap::new(),
        precision: Some(Precision::Fp32),
        assumptions: Vec::new(),
        method_version: 1,
    };
    let bindings = Bindings(BTreeMap::from([("batch".to_owned(), batch)]));
    Case::new(model.id, format!("mlp-{}", model.id.0[0]), bindings, facts)
}

/// A trial with `samples` timings around 1 ms.
pub(crate) fn trial(case: &Case, samples: u32) -> Trial {
    let timing = |i: u32| Sample {
        round: i / 10,
        calls: 3,
        total_ns: 3_000_000 + u64::from(i * 7919 % 1000),
        before: Before::Running,
    };
    Trial {
        target: target("1").key,
        case: case.id,
        workload: Workload::Sustained,
        preparation: Preparation::Running,
        purpose: Purpose::Learn,
        started_unix_ms: NOW,
        order_seed: u64::MAX,
        input_seed: 42,
        conditions: r#"{"power":{"available":"mains"},"load":{"unavailable":"not asked"}}"#.to_owned(),
        suspect: None,
        outcome: Ok(Measurement {
            session_create_ns: 12_345_678,
            first_run_ns: 2_345_678,
            warmup_calls: 5,
            samples: (0..samples).map(timing).collect(),
            busy_cores: Reading::Available(1.9),
            peak_resident_bytes: Reading::unavailable("this system does not tell"),
            session_bytes: Reading::Available(4096),
            device_bytes: Reading::unavailable("the processor has none of its own"),
            placement: Reading::Available(Placement {
                on_target: 2,
                fallback: BTreeMap::from([("ort".to_owned(), 1)]),
            }),
            outputs: OutputCheck::Compared {
                reference: TargetKey("cpu/ort".to_owned()),
                difference: OutputDifference {
                    max_relative_error: 1.1e-7,
                    same_top1: true,
                    reference_magnitude: 0.7,
                },
            },
            energy: Reading::unavailable(NOT_MEASURED),
        }),
    }
}

pub(crate) fn failed_trial(case: &Case) -> Trial {
    let failure = Failure::new(FailureKind::TimedOut, "no answer after 10 s");
    Trial { outcome: Err(failure), ..trial(case, 0) }
}

pub(crate) fn campaign() -> NewCampaign<'static> {
    NewCampaign {
        host: None,
        purpose: Purpose::Learn,
        seed: u64::MAX - 1,
        program_version: "0.1.0",
        program_commit: Some("0123abc"),
        started_unix_ms: NOW,
        plan: r#"{"cases":1}"#,
    }
}

/// Records a chip, a target, a model with two cases and a campaign.
pub(crate) fn prepare(store: &Store) -> (CampaignId, TargetId, [Case; 2]) {
    store.record_chips(&[chip()], NOW).expect("a chip can be recorded");
    let target = store.record_target(&target("1"), NOW).expect("a target can be recorded");
    let facts = model(1);
    let record = ModelRecord { facts: &facts, name: "mlp-1", path: None, licence: None, source: None };
    store.record_model(&record, NOW).expect("a model can be recorded");
    let cases = [case(&facts, 1), case(&facts, 8)];
    for case in &cases {
        store.record_case(case, NOW).expect("a case can be recorded");
    }
    let campaign = store.begin_campaign(&campaign()).expect("a campaign can begin");
    (campaign, target, cases)
}
