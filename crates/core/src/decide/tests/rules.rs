//! Goals, limits and rules: what each changes, and that it says so.

use super::*;
use crate::energy::EnergyScope;
use crate::knowledge::{EnergyFacts, MemoryFacts, MemoryTaken};
use crate::reading::Reading;

/// A target of the world: name, chip, time and half of the interval in ms, energy in mJ, memory in MiB, spread.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    gpu: bool,
    time: (f64, f64),
    millijoules: Option<f64>,
    scope: EnergyScope,
    mebibytes: Option<u64>,
    spread: Option<f64>,
}

/// What every meter of the world reads at rest.
const REST_WATTS: f64 = 3.0;

const fn row(name: &'static str, gpu: bool, time_ms: f64, millijoules: Option<f64>) -> Row {
    let scope = EnergyScope::Machine;
    Row { name, gpu, time: (time_ms, 0.01), millijoules, scope, mebibytes: None, spread: None }
}

const GPU: &str = "gpu:1";

fn world(rows: &[Row], workload: Workload) -> (Knowledge, Case) {
    let case = case(MODEL, 5e6);
    let mut builder = KnowledgeBuilder::default();
    for row in rows {
        let mut target = target(row.name);
        if row.gpu {
            (target.chip, target.chip_kind) = (ChipKey(GPU.to_owned()), ChipKind::Gpu);
        }
        let index = builder.target(target, [None, None, None], None);
        if let Some(spread) = row.spread {
            builder.spread(index, workload, spread);
        }
    }
    for row in rows {
        let (target, case, model) = (TargetKey(row.name.to_owned()), case.id, MODEL);
        let outcome = Ok((summary(row.time.0, row.time.1), OutputCheck::Reference));
        builder.trial(TrialFacts { target: target.clone(), case, model, workload, outcome });
        if let Some(joules) = row.millijoules.map(|millijoules| millijoules * 1e-3) {
            let interval = Interval { low: joules * 0.99, high: joules * 1.01 };
            let net_watts = joules / (row.time.0 * 1e-3);
            builder.energy(EnergyFacts {
                target: target.clone(),
                case,
                workload,
                scope: row.scope,
                joules,
                interval,
                net_watts,
                load_watts: net_watts + REST_WATTS,
            });
        }
        if let Some(bytes) = row.mebibytes.map(|mebibytes| mebibytes << 20) {
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

/// What is asked of a world, and of which machine.
struct Ask {
    goal: Goal,
    workload: Workload,
    limits: Limits,
    rules: Rules,
    context: Context,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            goal: Goal::Fastest,
            workload: Workload::Sustained,
            limits: Limits::default(),
            rules: Rules::USUAL,
            context: Context::default(),
        }
    }
}

/// Decides, and checks what was chosen, the rules that fired, the bars, and a part of the sentence.
#[track_caller]
fn check(rows: &[Row], ask: &Ask, chosen: &str, fired: &[&str], barred: &[(&str, &str)], said: &str) {
    let (knowledge, case) = world(rows, ask.workload);
    let query = Query {
        case: &case,
        workload: ask.workload,
        goal: ask.goal,
        accuracy: AccuracyClass::Standard,
        limits: ask.limits,
        rules: &ask.rules,
    };
    let decision = decide(&knowledge, &query, &ask.context);
    assert_eq!(name(&knowledge, decision.chosen), Some(chosen));
    let names: Vec<&str> = decision.fired.iter().map(Fired::name).collect();
    assert_eq!(names, fired);
    let bars: Vec<(&str, &str)> = decision
        .candidates
        .iter()
        .filter_map(|one| Some((knowledge.target(one.target).key.as_str(), one.barred?.name())))
        .collect();
    assert_eq!(bars, barred);
    let sentence = decision.sentence(&knowledge);
    assert!(sentence.contains(said), "`{said}` is not in: {sentence}");
    let order = decision.order();
    assert_eq!(order.first().copied(), decision.chosen);
    let out = decision.candidates.iter().filter(|one| one.barred.is_some()).count();
    assert_eq!(order.len(), rows.len() - out);
    assert_eq!(decide(&knowledge, &query, &ask.context).sentence(&knowledge), sentence);
}

/// The CPU is slower and takes less energy.
const UNLIKE: [Row; 2] = [row("cpu", false, 2.0, Some(4.0)), row("gpu", true, 1.0, Some(10.0))];

#[test]
fn each_goal_chooses_by_its_own_figure() {
    for (goal, chosen, said) in [
        (Goal::Fastest, "gpu", "gpu needs 1.00 ms"),
        (Goal::Battery, "cpu", "cpu takes 4.00 mJ in 2.00 ms (measured"),
        // ½ · 2 + ½ · 1 for the CPU, ½ · 1 + ½ · 2.5 for the GPU.
        (Goal::Balanced, "cpu", "the next, gpu, takes 10.0 mJ in 1.00 ms"),
        (Goal::Cool, "gpu", "gpu needs 1.00 ms"),
    ] {
        check(&UNLIKE, &Ask { goal, ..Ask::default() }, chosen, &[], &[], said);
    }
}

#[test]
fn without_energy_of_two_targets_time_decides_and_says_so() {
    let rows = [row("cpu", false, 2.0, Some(4.0)), row("gpu", true, 1.0, None)];
    for goal in [Goal::Battery, Goal::Balanced] {
        let ask = Ask { goal, ..Ask::default() };
        check(&rows, &ask, "gpu", &["energy_unknown"], &[], "energy is known of one target alone");
    }
    let rows = [rows[0], rows[1], row("third", true, 3.0, Some(1.0))];
    let ask = Ask { goal: Goal::Battery, ..Ask::default() };
    let said = "energy is known of 2 of 3 targets, and the others come after them";
    check(&rows, &ask, "third", &["energy_partly_known"], &[], said);
    check(&rows, &ask, "third", &["energy_partly_known"], &[], "the next, cpu, takes 4.00 mJ");
}

#[test]
fn energies_of_different_scopes_are_not_compared() {
    let mut rows = [row("cpu", false, 2.0, Some(4.0)), row("gpu", true, 1.0, Some(1.0))];
    (rows[0].scope, rows[1].scope) = (EnergyScope::Package, EnergyScope::Board);
    for goal in [Goal::Battery, Goal::Balanced] {
        let ask = Ask { goal, ..Ask::default() };
        let said = "is of different scopes, which cannot be compared, so time decides";
        check(&rows, &ask, "gpu", &["energy_unknown"], &[], said);
    }
    // Where two can be compared they are, and the third, whose figure is of another scope, comes after them.
    let third = Row { scope: EnergyScope::Package, ..row("third", false, 3.0, Some(2.0)) };
    let rows = [rows[0], rows[1], third];
    let ask = Ask { goal: Goal::Battery, ..Ask::default() };
    check(&rows, &ask, "third", &["energy_partly_known"], &[], "of the processor's package, rest subtracted");
}

#[test]
fn energy_of_an_unmeasured_case_comes_from_the_power_of_the_others() {
    let (knowledge, measured) = world(&UNLIKE, Workload::Sustained);
    let prediction = Prediction {
        time_ns: 4e6,
        interval: Interval { low: 2e6, high: 6e6 },
        source: Source::Measured { sessions: 1 },
    };
    let cpu = TargetIndex(0);
    let in_workload =
        |case: CaseId, workload| knowledge.energy(case, cpu, workload, EnergyScope::Machine, prediction);
    let energy = |case: CaseId| in_workload(case, Workload::Sustained);
    assert!(energy(measured.id).unwrap().measured);
    // 4 mJ in 2 ms are 2 W.
    let other = energy(case(ModelId([9; 32]), 1e6).id).unwrap();
    assert!((other.joules - 8e-3).abs() < 1e-12 && !other.measured, "{other:?}");
    assert!((other.interval.low - 4e-3).abs() < 1e-12 && (other.interval.high - 12e-3).abs() < 1e-12);
    assert_eq!(in_workload(measured.id, Workload::ColdStart), None);
}

#[test]
fn a_low_battery_makes_energy_the_goal() {
    let at = |percent| Context { charge_on_battery_percent: Some(percent), ..Context::default() };
    let low = Ask { context: at(20.0), ..Ask::default() };
    check(&UNLIKE, &low, "cpu", &["low_battery"], &[], "the battery is at 20 %, under 30 %");
    check(&UNLIKE, &Ask { context: at(30.0), ..Ask::default() }, "gpu", &[], &[], "gpu needs");
    let off = Rules { low_battery_percent: None, ..Rules::USUAL };
    check(&UNLIKE, &Ask { rules: off, context: at(20.0), ..Ask::default() }, "gpu", &[], &[], "gpu needs");
}

fn gpu_now(busy_percent: Option<f64>, celsius: Option<f64>) -> Context {
    let chips = [ChipNow { chip: ChipKey(GPU.to_owned()), busy_percent, celsius }].into_iter().collect();
    Context { chips, ..Context::default() }
}

#[test]
fn a_chip_that_others_load_counts_as_slower() {
    let rows = [row("cpu", false, 1.2, None), row("gpu", true, 1.0, None)];
    let ask = Ask { context: gpu_now(Some(95.0), None), ..Ask::default() };
    check(
        &rows,
        &ask,
        "cpu",
        &["busy_chip"],
        &[],
        "others load gpu:1 with 95 %, so gpu counts as 1.30 times",
    );
    check(&rows, &Ask { context: gpu_now(Some(80.0), None), ..Ask::default() }, "gpu", &[], &[], "gpu needs");
    check(&UNLIKE, &ask, "gpu", &["busy_chip"], &[], "gpu needs 1.00 ms");
}

#[test]
fn a_hot_chip_counts_as_slower_and_a_very_hot_one_as_none_where_coolness_is_the_goal() {
    let rows = [row("cpu", false, 1.2, None), row("gpu", true, 1.0, None)];
    let cool = |celsius| Ask { goal: Goal::Cool, context: gpu_now(None, Some(celsius)), ..Ask::default() };
    check(&rows, &cool(70.0), "gpu", &[], &[], "gpu needs");
    check(&rows, &cool(81.0), "cpu", &["hot_chip"], &[], "gpu:1 is at 81 °C, so gpu counts as 1.50 times");
    check(&rows, &cool(88.0), "cpu", &[], &[("gpu", "too_hot")], "cpu needs");
    let fastest = Ask { context: gpu_now(None, Some(95.0)), ..Ask::default() };
    check(&rows, &fastest, "gpu", &[], &[], "gpu needs");
}

#[test]
fn budgets_of_memory_and_power_forbid_what_is_known_to_exceed_them() {
    let mut rows = UNLIKE;
    (rows[0].mebibytes, rows[1].mebibytes) = (Some(50), Some(600));
    let memory = |mebibytes: u64| Limits { memory_bytes: Some(mebibytes << 20), ..Limits::default() };
    let ask = |limits| Ask { limits, ..Ask::default() };
    check(&rows, &ask(memory(500)), "cpu", &[], &[("gpu", "memory")], "cpu needs");
    check(&rows, &ask(memory(600)), "gpu", &[], &[], "gpu needs");
    let free = Context { free_memory_bytes: Some(500 << 20), ..Context::default() };
    check(
        &rows,
        &Ask { context: free.clone(), ..Ask::default() },
        "cpu",
        &[],
        &[("gpu", "free_memory")],
        "cpu needs",
    );
    let rules = Rules { free_memory: false, ..Rules::USUAL };
    check(&rows, &Ask { context: free, rules, ..Ask::default() }, "gpu", &[], &[], "gpu needs");
    // 10 mJ in 1 ms are 10 W, 4 mJ in 2 ms are 2 W, and the rest takes 3 W.
    let power = |watts: f64| Limits { power_watts: Some(watts), ..Limits::default() };
    check(&rows, &ask(power(12.9)), "cpu", &[], &[("gpu", "power")], "cpu needs");
    check(&rows, &ask(power(13.1)), "gpu", &[], &[], "gpu needs");
}

#[test]
fn a_budget_that_cannot_be_checked_says_so() {
    let ask = |limits| Ask { limits, ..Ask::default() };
    let power = ask(Limits { power_watts: Some(5.0), ..Limits::default() });
    let rows = [row("cpu", false, 2.0, None), row("gpu", true, 1.0, None)];
    let said =
        "the power budget could not be checked for any of the 2 targets, whose power was never measured";
    check(&rows, &power, "gpu", &["power_unchecked"], &[], said);
    let said = "the power budget could not be checked for one of 2 targets";
    check(&[UNLIKE[0], rows[1]], &power, "gpu", &["power_unchecked"], &[], said);
    let memory = ask(Limits { memory_bytes: Some(1 << 30), ..Limits::default() });
    let said = "the memory budget could not be checked for any of the 2 targets, whose need was never seen";
    check(&rows, &memory, "gpu", &["memory_unchecked"], &[], said);
}

#[test]
fn a_deadline_takes_the_cheapest_of_those_that_meet_it() {
    let rows = [
        row("slow", false, 9.0, Some(1.0)),
        row("cpu", false, 2.0, Some(4.0)),
        row("gpu", true, 1.0, Some(10.0)),
    ];
    let by = |ms: f64| Ask {
        limits: Limits { deadline_ns: Some(ms * 1e6), ..Limits::default() },
        ..Ask::default()
    };
    check(&rows, &by(20.0), "slow", &[], &[], "slow takes 1.00 mJ");
    check(&rows, &by(3.0), "cpu", &[], &[("slow", "deadline")], "cpu takes 4.00 mJ");
    check(&rows, &by(1.5), "gpu", &[], &[("slow", "deadline"), ("cpu", "deadline")], "gpu takes 10.0 mJ");
    check(&rows, &by(0.5), "gpu", &["deadline_unreachable"], &[], "no target is known to meet the deadline");
    let mut unknown = rows;
    unknown[0].millijoules = None;
    let said = "energy is known of 2 of 3 targets alone, so time decides";
    check(&unknown, &by(20.0), "gpu", &["energy_unknown"], &[], said);
    let unreachable = Ask { goal: Goal::Battery, ..by(0.5) };
    check(&rows, &unreachable, "gpu", &["deadline_unreachable"], &[], "so the fastest is taken");
    // The certainty is that of the interval's upper end.
    unknown[2].time = (1.0, 0.9);
    check(&unknown, &by(1.5), "gpu", &["deadline_unreachable"], &[], "so the fastest is taken");
}

#[test]
fn a_rate_takes_the_cheapest_of_those_that_reach_it() {
    let rows = [
        row("slow", false, 9.0, Some(1.0)),
        row("cpu", false, 2.0, Some(4.0)),
        row("gpu", true, 1.0, Some(10.0)),
    ];
    let at = |per_second: f64| Ask {
        limits: Limits { least_per_second: Some(per_second), ..Limits::default() },
        ..Ask::default()
    };
    check(&rows, &at(100.0), "slow", &[], &[], "slow takes 1.00 mJ");
    check(&rows, &at(400.0), "cpu", &[], &[("slow", "throughput")], "cpu takes 4.00 mJ");
    let late = [("slow", "throughput"), ("cpu", "throughput")];
    check(&rows, &at(900.0), "gpu", &[], &late, "gpu takes 10.0 mJ");
    let said = "no target is known to reach so many inferences a second, so the fastest is taken";
    check(&rows, &at(2_000.0), "gpu", &["throughput_unreachable"], &[], said);
    // Both limits: the deadline is met by two, and of them one is quick enough.
    let mut both = at(900.0);
    both.limits.deadline_ns = Some(3e6);
    check(&rows, &both, "gpu", &[], &[("slow", "deadline"), ("cpu", "throughput")], "gpu takes");
}

#[test]
fn a_deadline_is_kept_by_the_slow_calls_too() {
    let case = case(MODEL, 5e6);
    let mut builder = KnowledgeBuilder::default();
    for name in ["quick", "steady"] {
        builder.target(target(name), [None, None, None], None);
    }
    let mut add = |name: &str, median_ms: f64, p95_ms: f64| {
        let session = Summary { p95_ns: Some(p95_ms * 1e6), ..summary(median_ms, 0.01) };
        builder.trial(TrialFacts {
            target: TargetKey(name.to_owned()),
            case: case.id,
            model: MODEL,
            workload: Workload::Sustained,
            outcome: Ok((session, OutputCheck::Reference)),
        });
    };
    add("quick", 1.0, 5.0);
    add("steady", 1.5, 1.6);
    let knowledge = builder.build();
    let limits = Limits { deadline_ns: Some(2e6), ..Limits::default() };
    let decision =
        decide(&knowledge, &Query { limits, ..query(&case, AccuracyClass::Standard) }, &Context::default());
    assert_eq!(name(&knowledge, decision.chosen), Some("steady"));
    assert_eq!(decision.candidates[0].barred, Some(Bar::Deadline { may_take_ns: 5e6 }));
    // A predicted time is taken to have slow calls like the target's measured ones.
    let usual = Prediction {
        time_ns: 1e6,
        interval: Interval { low: 0.9e6, high: 1.2e6 },
        source: Source::Imported { machines: 1, assumed: true },
    };
    let within = knowledge.within_ns(case.id, TargetIndex(0), Workload::Sustained, usual);
    assert!((within - 6e6).abs() < 1.0, "{within}");
}

#[test]
fn a_cold_start_goes_to_the_cpu_unless_another_is_faster_by_the_margin() {
    let cold = || Ask { workload: Workload::ColdStart, ..Ask::default() };
    let near = [row("cpu", false, 10.0, None), row("gpu", true, 8.0, None)];
    check(&near, &cold(), "cpu", &["cold_start"], &[], "a cold start goes to the CPU, since gpu");
    let far = [row("cpu", false, 10.0, None), row("gpu", true, 6.0, None)];
    check(&far, &cold(), "gpu", &[], &[], "gpu needs");
    // Nor does another one take it from the CPU by being steadier.
    let mut unsteady = [row("cpu", false, 10.0, None), row("gpu", true, 10.4, None)];
    (unsteady[0].time.1, unsteady[0].spread, unsteady[1].spread) = (3.0, Some(0.2), Some(0.02));
    check(&unsteady, &cold(), "cpu", &[], &[], "cpu needs");
    let rules = Rules { cold_start_margin: None, ..Rules::USUAL };
    check(&unsteady, &Ask { rules, ..cold() }, "gpu", &["volatility"], &[], "cpu may be as fast");
    check(&near, &Ask { rules, ..cold() }, "gpu", &[], &[], "gpu needs");
    check(&near, &Ask::default(), "gpu", &[], &[], "gpu needs");
}

#[test]
fn of_two_that_cannot_be_told_apart_the_steadier_is_taken() {
    let mut rows = [row("cpu", false, 1.0, None), row("gpu", true, 1.04, None)];
    (rows[0].time.1, rows[0].spread, rows[1].spread) = (0.2, Some(0.2), Some(0.02));
    check(
        &rows,
        &Ask::default(),
        "gpu",
        &["volatility"],
        &[],
        "cpu may be as fast, and its sessions differ more",
    );
    let mut costly = rows;
    costly[1].time.0 = 1.06;
    check(&costly, &Ask::default(), "cpu", &[], &[], "cpu needs");
    let mut separable = rows;
    separable[0].time.1 = 0.01;
    check(&separable, &Ask::default(), "cpu", &[], &[], "cpu needs");
    let mut steady = rows;
    steady[1].spread = Some(0.3);
    check(&steady, &Ask::default(), "cpu", &[], &[], "cpu needs");
    let mut unknown = rows;
    unknown[1].spread = None;
    check(&unknown, &Ask::default(), "cpu", &[], &[], "cpu needs");
}

#[test]
fn a_target_that_failed_lately_is_left_out() {
    let context = Context { quarantined: [TargetIndex(1)].into_iter().collect(), ..Context::default() };
    let ask = Ask { context, ..Ask::default() };
    check(&UNLIKE, &ask, "cpu", &[], &[("gpu", "quarantined")], "no other target is suitable");
    let (knowledge, case) = world(&UNLIKE, Workload::Sustained);
    let decision = decide(&knowledge, &query(&case, AccuracyClass::Standard), &ask.context);
    assert_eq!(decision.last_resorts()[..], [TargetIndex(1)]);
    let all =
        Context { quarantined: [TargetIndex(0), TargetIndex(1)].into_iter().collect(), ..Context::default() };
    let ask = Ask { context: all, ..Ask::default() };
    let said = "no other target is left, so what failed lately may try again";
    check(&UNLIKE, &ask, "gpu", &["quarantine_lifted"], &[], said);
    // What another limit forbids stays out.
    let limits = Limits { power_watts: Some(6.0), ..Limits::default() };
    check(&UNLIKE, &Ask { limits, ..ask }, "cpu", &["quarantine_lifted"], &[("gpu", "power")], said);
}

proptest! {
    /// Whatever the machine is like, a target that is barred or excluded is never chosen, and without any rule the
    /// least time is.
    #[test]
    fn no_state_of_the_machine_makes_a_barred_target_the_choice(
        times in prop::collection::vec(0.1_f64..100.0, 1..6),
        joules in prop::collection::vec(prop::option::of(0.1_f64..100.0), 6),
        charge in prop::option::of(0.0_f64..100.0),
        busy in prop::option::of(0.0_f64..100.0),
        celsius in prop::option::of(20.0_f64..110.0),
        deadline_ms in prop::option::of(0.1_f64..100.0),
        goal in prop::sample::select(Goal::ALL.to_vec()),
        quarantined in prop::collection::vec(0_u16..6, 0..3),
    ) {
        const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        let rows: Vec<Row> = times
            .iter()
            .enumerate()
            .map(|(index, &time)| row(NAMES[index], index % 2 == 1, time, joules[index]))
            .collect();
        let (knowledge, case) = world(&rows, Workload::Sustained);
        let mut context = gpu_now(busy, celsius);
        context.charge_on_battery_percent = charge;
        context.quarantined = quarantined.into_iter().map(TargetIndex).collect();
        let limits = Limits { deadline_ns: deadline_ms.map(|ms| ms * 1e6), ..Limits::default() };
        let mut ask = Query { goal, limits, ..query(&case, AccuracyClass::Standard) };
        let decision = decide(&knowledge, &ask, &context);
        match decision.chosen.and_then(|target| decision.candidate(target)) {
            Some(chosen) => prop_assert!(chosen.barred.is_none() && chosen.outlook.is_ok()),
            None => prop_assert!(decision.candidates.iter().all(|one| one.barred.is_some())),
        }
        prop_assert_eq!(decision.order().first().copied(), decision.chosen);
        prop_assert!(!decision.sentence(&knowledge).contains("NaN"));
        (ask.rules, ask.limits, ask.goal) = (&Rules::NONE, Limits::default(), Goal::Fastest);
        let least = times.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
        let chosen = decide(&knowledge, &ask, &context).chosen;
        prop_assert_eq!(chosen, Some(TargetIndex(least as u16)));
    }
}
