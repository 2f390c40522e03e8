//! Times of other machines stand between measured and fitted ones, and are said to be what they are.

use super::*;
use crate::knowledge::ImportedFacts;
use crate::workload::Workload;

fn imported(target: &str, case: &Case, machine: u32, ms: f64, error: Option<f64>) -> ImportedFacts {
    ImportedFacts {
        target: TargetKey(target.to_owned()),
        case: case.id,
        workload: Workload::Sustained,
        machine,
        time_ns: ms * 1e6,
        outputs: error.map(|max_relative_error| OutputDifference {
            max_relative_error,
            same_top1: true,
            reference_magnitude: 1.0,
        }),
    }
}

fn knowledge(facts: Vec<ImportedFacts>, measured: &[(&str, f64)], case: &Case) -> Knowledge {
    let mut builder = KnowledgeBuilder::default();
    for name in ["a", "b"] {
        builder.target(target(name), [None, None, None], None);
    }
    for (name, ms) in measured {
        builder.trial(TrialFacts {
            target: TargetKey((*name).to_owned()),
            case: case.id,
            model: case.model,
            workload: Workload::Sustained,
            outcome: Ok((summary(*ms, 0.1), OutputCheck::Reference)),
        });
    }
    for fact in facts {
        builder.imported(fact);
    }
    builder.build()
}

#[test]
fn an_imported_time_stands_in_until_this_machine_has_its_own() {
    let case = case(MODEL, 1e6);
    let facts = || vec![imported("a", &case, 1, 1.0, None), imported("a", &case, 2, 1.0, Some(1e-4))];
    let query = query(&case, AccuracyClass::Standard);
    let prior = knowledge(facts(), &[("b", 5.0)], &case);
    let decision = decide(&prior, &query, &Context::default());
    assert_eq!(name(&prior, decision.chosen), Some("a"));
    let prediction = decision.candidates[0].outlook.unwrap();
    assert_eq!(prediction.source, Source::Imported { machines: 2, assumed: false });
    assert_eq!(prediction.source.name(), "imported");
    let sentence = decision.sentence(&prior);
    assert!(
        sentence.starts_with("a is expected to need 1.00 ms (imported from 2 other machines"),
        "{sentence}"
    );

    let own = knowledge(facts(), &[("a", 9.0), ("b", 5.0)], &case);
    let decision = decide(&own, &query, &Context::default());
    assert_eq!(name(&own, decision.chosen), Some("b"));
    assert_eq!(decision.candidates[0].outlook.unwrap().source, Source::Measured { sessions: 1 });
    assert_eq!(own.cells(case.id).unwrap()[0].times[0].unwrap().sessions, 1, "no session of this machine's");
    let fitted_only = Context { ignore_measurements: true, ..Context::default() };
    assert!(decide(&prior, &query, &fitted_only).chosen.is_none());
}

#[test]
fn an_imported_time_counts_in_the_classes_that_its_outputs_satisfied() {
    let case = case(MODEL, 1e6);
    let prior = knowledge(vec![imported("a", &case, 1, 1.0, Some(1e-4))], &[], &case);
    let chosen = |class| decide(&prior, &query(&case, class), &Context::default()).chosen;
    assert_eq!((chosen(AccuracyClass::Standard).is_some(), chosen(AccuracyClass::Exact)), (true, None));
    let sentence =
        decide(&prior, &query(&case, AccuracyClass::Standard), &Context::default()).sentence(&prior);
    assert!(sentence.contains("1 other machine of this kind, how far such machines differ being assumed"));
}
