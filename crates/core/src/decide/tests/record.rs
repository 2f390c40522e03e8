//! A record gives its decision again.

use super::*;
use crate::energy::EnergyScope;
use crate::knowledge::{EnergyFacts, MemoryFacts, MemoryTaken};
use crate::learning::Allowance;
use crate::reading::Reading;

/// What is known of a target in a random world.
#[derive(Debug, Clone)]
struct Of {
    known: Known,
    gpu: bool,
    fitted: bool,
    proven_error: Option<f64>,
    half_width: f64,
    joules: Option<f64>,
    mebibytes: Option<u64>,
    spread: Option<f64>,
}

fn of() -> impl Strategy<Value = Of> {
    let some = |range: std::ops::Range<f64>| prop::option::of(range);
    (known(), any::<(bool, bool)>(), prop::option::of(1e-6_f64..1.0), 0.001_f64..0.9).prop_flat_map(
        move |(known, (gpu, fitted), proven_error, half_width)| {
            (some(1e-4..1.0), prop::option::of(1_u64..900), some(0.0..0.5)).prop_map(
                move |(joules, mebibytes, spread)| Of {
                    known,
                    gpu,
                    fitted,
                    proven_error,
                    half_width,
                    joules,
                    mebibytes,
                    spread,
                },
            )
        },
    )
}

fn world(targets: &[Of], workload: Workload) -> (Knowledge, Case) {
    let case = case(MODEL, 5e6);
    let mut builder = KnowledgeBuilder::default();
    let name = |index: usize| format!("t{index}");
    for (index, of) in targets.iter().enumerate() {
        let mut target = target(&name(index));
        if of.gpu {
            (target.chip, target.chip_kind) = (ChipKey("gpu:1".to_owned()), ChipKind::Gpu);
        }
        let place = builder.target(target, [of.fitted.then(fit), None, None], of.proven_error);
        if let Some(spread) = of.spread {
            builder.spread(place, workload, spread);
        }
    }
    for (index, of) in targets.iter().enumerate() {
        let (target, case, model) = (TargetKey(name(index)), case.id, MODEL);
        let outcome = match of.known {
            Known::Nothing => None,
            Known::Failed => Some(Err(Failure::new(FailureKind::Refused, "no"))),
            Known::Wrong => {
                let difference =
                    OutputDifference { max_relative_error: 0.5, same_top1: true, reference_magnitude: 1.0 };
                let check = OutputCheck::Compared { reference: TargetKey("t0".to_owned()), difference };
                Some(Ok((summary(1.0, 0.1), check)))
            }
            Known::Measured(ms) => Some(Ok((summary(ms, ms * of.half_width), OutputCheck::Reference))),
        };
        if let Some(outcome) = outcome {
            builder.trial(TrialFacts { target: target.clone(), case, model, workload, outcome });
        }
        if let Some(joules) = of.joules {
            let interval = Interval { low: joules * 0.9, high: joules * 1.2 };
            builder.energy(EnergyFacts {
                target: target.clone(),
                case,
                workload,
                scope: EnergyScope::Package,
                joules,
                interval,
                net_watts: joules * 1e3,
                load_watts: joules * 2e3,
            });
        }
        if let Some(bytes) = of.mebibytes.map(|mebibytes| mebibytes << 20) {
            let none = || Reading::unavailable("not looked at");
            let taken = Ok(MemoryTaken {
                peak_resident_bytes: Reading::Available(bytes),
                session_bytes: none(),
                device_bytes: none(),
            });
            builder.memory(MemoryFacts { target, case, model, taken });
        }
    }
    (builder.build(), case)
}

fn context() -> impl Strategy<Value = Context> {
    let percent = || prop::option::of(0.0_f64..100.0);
    let quarantined = prop::collection::vec(0_u16..6, 0..3);
    let memory = prop::option::of(1_u64..900);
    let rested = prop::option::of(1e6_f64..1e11);
    let state = (percent(), percent(), prop::option::of(20.0_f64..110.0), quarantined, memory, rested);
    (state, any::<bool>(), prop::option::of((0_u16..6, 0_u32..9)), prop::option::of(allowance())).prop_map(
        |(
            (charge, busy_percent, celsius, quarantined, mebibytes, rested_ns),
            ignore,
            running,
            exploration,
        )| Context {
            ignore_measurements: ignore,
            running: running.map(|(target, runs)| Running { target: TargetIndex(target), runs }),
            exploration,
            rested_ns,
            charge_on_battery_percent: charge,
            power_plan: None,
            free_memory_bytes: mebibytes.map(|mebibytes| mebibytes << 20),
            chips: [ChipNow { chip: ChipKey("gpu:1".to_owned()), busy_percent, celsius }]
                .into_iter()
                .collect(),
            quarantined: quarantined.into_iter().map(TargetIndex).collect(),
        },
    )
}

fn allowance() -> impl Strategy<Value = Allowance> {
    let open = prop::option::of(prop::collection::vec(0_u16..6, 0..4));
    let held = prop::option::of(0_u16..6);
    (-1e6_f64..1e9, open, 1_u32..4, held, 0.0_f64..1e4).prop_map(|(left_ns, open, runs, held, runs_ahead)| {
        Allowance {
            left_ns,
            open: open.map(|open| open.into_iter().map(TargetIndex).collect()),
            runs,
            held: held.map(TargetIndex),
            runs_ahead,
        }
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let limit = || prop::option::of(0.05_f64..10.0);
    (
        prop::sample::select(Workload::ALL.to_vec()),
        prop::sample::select(Goal::ALL.to_vec()),
        prop::sample::select(AccuracyClass::ALL.to_vec()),
        (limit(), prop::option::of(1_u64..900), limit(), prop::option::of(10.0_f64..1e4)),
        any::<bool>(),
    )
        .prop_map(
            |(workload, goal, accuracy, (deadline_ms, mebibytes, power_watts, least_per_second), ruled)| {
                Terms {
                    workload,
                    goal,
                    accuracy,
                    limits: Limits {
                        deadline_ns: deadline_ms.map(|ms| ms * 1e6),
                        least_per_second,
                        memory_bytes: mebibytes.map(|mebibytes| mebibytes << 20),
                        power_watts,
                    },
                    rules: if ruled { Rules::USUAL } else { Rules::NONE },
                }
            },
        )
}

proptest! {
    #[test]
    fn a_stored_record_gives_the_same_decision(
        targets in prop::collection::vec(of(), 0..20),
        terms in terms(),
        context in context(),
    ) {
        let (knowledge, case) = world(&targets, terms.workload);
        let Terms { workload, goal, accuracy, limits, ref rules } = terms;
        let query = Query { case: &case, workload, goal, accuracy, limits, rules };
        let decision = decide(&knowledge, &query, &context);
        let record = Record::of(&decision, &query, &context, &knowledge);
        let stored = serde_json::to_string(&record).unwrap();
        let read: Record = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(&read, &record);
        let again = read.replay();
        // Two decisions do not compare, since what excludes a target is borrowed from either source.
        prop_assert_eq!(format!("{again:?}"), format!("{decision:?}"));
        prop_assert_eq!(again.sentence(&read), decision.sentence(&knowledge));
        prop_assert!(read.repeats());
    }
}

fn recorded() -> Record {
    let world = World::new(&[("a", false, None), ("b", false, None), ("c", false, Some(f64::INFINITY))]);
    let (knowledge, case) = world.measured("a", 3.0, 0.1).measured("b", 2.0, 0.1).build();
    let (query, context) = (query(&case, AccuracyClass::Standard), Context::default());
    Record::of(&decide(&knowledge, &query, &context), &query, &context, &knowledge)
}

#[test]
fn an_answer_that_does_not_follow_from_the_record_is_noticed() {
    let record = recorded();
    assert!(record.repeats());
    assert_eq!(record.key(record.answer.chosen).map(|target| target.key.as_str()), Some("b"));
    let mut other = record.clone();
    other.answer.chosen = Some(TargetIndex(0));
    assert!(!other.repeats());
    let mut slower = record.clone();
    if let Outlook::Expected(prediction) = &mut slower.candidates[1].outlook {
        prediction.time_ns = 4e6;
    }
    assert!(!slower.repeats());
    // Names a target that it does not list.
    let mut torn = record;
    torn.candidates.truncate(1);
    assert!(!torn.is_whole() && !torn.repeats());
    assert_eq!(torn.key(torn.answer.chosen), None);
}

#[test]
fn an_error_without_bound_survives_storing() {
    let record = recorded();
    let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
    assert_eq!(read, record);
    let Outlook::Excluded(Exclusion::UnprovenOutputs { worst_seen, .. }) = &read.candidates[2].outlook else {
        panic!("{:?}", read.candidates[2]);
    };
    assert!(worst_seen.is_infinite());
}
