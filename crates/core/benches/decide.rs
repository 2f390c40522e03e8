//! Times one decision among 8 targets with 1,000 known models: measured, predicted, and excluded candidates; one
//! prediction; and making knowledge of 1,000 trials on 8 targets, hardware models fitted and all.
//!
//! Run with `cargo bench -p siliconroute-core --bench decide`.

use std::collections::BTreeMap;

use siliconroute_core::accuracy::OutputDifference;
use siliconroute_core::decide::{Context, Limits, Query, Rules, decide};
use siliconroute_core::form::{FitRow, fit_forms};
use siliconroute_core::knowledge::{Knowledge, KnowledgeBuilder, TargetIndex, TrialFacts};
use siliconroute_core::model::{ClassWork, OperatorClass};
use siliconroute_core::statistics::summarise;
use siliconroute_core::trial::OutputCheck;
use siliconroute_core::{
    AccuracyClass, Bindings, Case, CaseFacts, ChipKey, ChipKind, Family, Goal, ModelId, ProviderName, Target,
    TargetKey, Workload,
};

const TARGETS: usize = 8;
const MODELS: usize = 1000;
/// A known model that was measured on half of the targets.
const PARTLY_MEASURED: usize = 2 * MODELS;
/// A known model that was not measured.
const NEVER_MEASURED: usize = 2 * MODELS + 1;

fn main() {
    divan::main();
}

fn target(index: usize) -> Target {
    let (chip, provider) = (ChipKey::cpu(), ProviderName(format!("p{index}")));
    Target {
        key: TargetKey::new(&chip, &provider, None),
        provider,
        provider_version: "1".to_owned(),
        chip,
        chip_kind: ChipKind::Cpu,
        options: BTreeMap::new(),
    }
}

fn case(index: usize) -> Case {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let flops = 1e6 * (index + 1) as f64;
    let facts = CaseFacts {
        batch: 1,
        parameters: 1000 * (index as u64 + 1),
        weight_bytes: 4000 * (index as u64 + 1),
        nodes: 10,
        flops,
        activation_bytes: 1e4,
        by_class: [OperatorClass::MatMul, OperatorClass::Conv, OperatorClass::ElementWise]
            .into_iter()
            .enumerate()
            .map(|(position, class)| {
                let share = ((index + 7 * position) % 5 + 1) as f64 / 15.0;
                ClassWork { class, nodes: 3, flops: flops * share, bytes: 1e4 * share }
            })
            .collect(),
        family: Family::Mlp,
        inputs: Vec::new(),
        index_limits: BTreeMap::new(),
        precision: None,
        assumptions: Vec::new(),
        method_version: 1,
    };
    Case::new(ModelId(digest), format!("model-{index}"), Bindings::default(), facts)
}

fn time_ns(case: &Case, target: usize) -> f64 {
    1e4 + case.facts.flops / (50.0 + 10.0 * target as f64)
}

/// Knowledge of `models` models measured on [`TARGETS`] targets, each with fits to `fitted` of them; two more cases
/// are known, one of a model that was measured on half of the targets, one of a model that was not measured.
fn knowledge(models: usize, fitted: usize) -> Knowledge {
    let mut cases: Vec<Case> = (0..models).map(case).collect();
    let mut builder = KnowledgeBuilder::default();
    for index in 0..TARGETS {
        let rows: Vec<FitRow> = cases
            .iter()
            .step_by(models / fitted)
            .map(|case| FitRow::from((&case.facts, case.model, time_ns(case, index))))
            .collect();
        let fit = fit_forms(&rows, 1e6).expect("forty rows with different work can be fitted");
        builder.target(target(index), [Some(fit), None, None], Some(1e-7));
    }
    let reference = target(0).key;
    cases.push(case(PARTLY_MEASURED));
    for (position, case) in cases.iter().enumerate() {
        let targets = if position == models { TARGETS / 2 } else { TARGETS };
        for index in 0..targets {
            let time = time_ns(case, index);
            let samples: Vec<f64> = (0..30).map(|sample| time * (1.0 + 0.001 * f64::from(sample))).collect();
            let summary = summarise(&samples).expect("thirty finite samples");
            // The last target is too inexact for the standard class, so exclusion is part of the work.
            let error = if index == TARGETS - 1 { 3e-2 } else { 1e-6 };
            let difference =
                OutputDifference { max_relative_error: error, same_top1: true, reference_magnitude: 1.0 };
            builder.trial(TrialFacts {
                target: target(index).key,
                case: case.id,
                model: case.model,
                workload: Workload::Sustained,
                outcome: Ok((summary, OutputCheck::Compared { reference: reference.clone(), difference })),
            });
        }
    }
    cases.push(case(NEVER_MEASURED));
    for case in cases {
        builder.case(case);
    }
    builder.build()
}

fn bench(bencher: divan::Bencher<'_, '_>, case: &Case) {
    let knowledge = knowledge(MODELS, 40);
    let query = Query {
        case,
        workload: Workload::Sustained,
        goal: Goal::Fastest,
        accuracy: AccuracyClass::Standard,
        limits: Limits::default(),
        rules: &Rules::USUAL,
    };
    let context = Context::default();
    bencher.bench_local(|| {
        decide(divan::black_box(&knowledge), divan::black_box(&query), divan::black_box(&context))
    });
}

/// The case was measured on every target.
#[divan::bench]
fn measured_case(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &case(500));
}

/// The case was known when the knowledge was made, and measured on half of the targets.
#[divan::bench]
fn partly_measured_case(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &case(PARTLY_MEASURED));
}

/// The case was known when the knowledge was made, and never measured.
#[divan::bench]
fn known_case(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &case(NEVER_MEASURED));
}

/// The case was never seen: every candidate is predicted anew.
#[divan::bench]
fn unknown_case(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, &case(MODELS + 500));
}

/// One prediction for another shape of a model that was measured on all targets.
#[divan::bench]
fn predict_other_shape(bencher: divan::Bencher<'_, '_>) {
    let knowledge = knowledge(MODELS, 40);
    let measured = case(500);
    let bindings = Bindings(BTreeMap::from([("batch".to_owned(), 7)]));
    let other = Case::new(measured.model, measured.model_name, bindings, measured.facts);
    bencher.bench_local(|| {
        divan::black_box(&knowledge).predicted(divan::black_box(&other), TargetIndex(3), Workload::Sustained)
    });
}

/// Joining 1,000 trials on 8 targets, fitting every form to each, and learning to predict.
#[divan::bench(sample_count = 5)]
fn learn_1000_trials(bencher: divan::Bencher<'_, '_>) {
    bencher.bench_local(|| knowledge(divan::black_box(125), 125));
}
