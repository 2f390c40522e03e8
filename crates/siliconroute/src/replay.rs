//! Published cases decided again, in their order.
//!
//! Invariant: a decision knows the reference table and what earlier decisions verified, nothing of its own or later.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use siliconroute_core::decide::{
    Answer, Context, Fired, Limits, Methods, Outlook, Prediction, Record, Rules, Seen, Source, Terms,
};
use siliconroute_core::regret::{Outcome, TrueTime, judge};
use siliconroute_core::statistics::Interval;
use siliconroute_core::{
    AccuracyClass, ChipKey, ChipKind, Goal, ProviderName, Target, TargetKey, Workload, statistics,
};

use crate::evaluation::{CheckedDecision, Evaluation};
use crate::table_file::{Table, TableError, TableRow};

/// The files of published cases.
const WORKLOADS: &str = "v1_workloads.csv";
const DECISIONS: &str = "v1_decisions.csv";

/// Session variability of the three devices as published with the cases; the files do not hold it.
const VARIABILITY: [(&str, f64); 3] = [("cpu", 0.173), ("dml:0", 0.154), ("dml:1", 0.066)];

/// Within which share of each other the published rules took the steadier of the best two.
const PUBLISHED_VOLATILITY_BAND: f64 = 0.15;

/// The decision from which on the published rules knew the one for cold starts.
const FIRST_WITH_COLD_START_RULE: u64 = 141;

/// By which rules published cases are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// The rules that the cases were published with: the latest measurement predicts.
    Published,
    /// This program's own: the median of all measurements predicts, and all rules hold from the start.
    Default,
}

/// What came of replaying.
#[derive(Debug)]
pub struct Replay {
    /// The decisions and scores.
    pub evaluation: Evaluation,
    /// Decisions in which the choice was the published one.
    pub as_published: usize,
    /// Published decisions that hold no times of the alternatives, so nothing can be replayed.
    pub without_times: usize,
}

/// One published decision.
struct Case {
    id: u64,
    model: String,
    batch: u64,
    workload: Workload,
    published: String,
}

/// What a measurement is of: device, model, batch, workload.
type Key = (String, String, u64, usize);

/// Decides the published cases in the folder `directory` again.
///
/// # Errors
/// When a file is missing, lacks a column or has a cell that is wrong; the error says where.
pub fn replay(directory: &Path, preset: Preset) -> Result<Replay, TableError> {
    let columns = ["decision_id", "device", "model", "batch", "workload", "latency_ms"];
    let workloads = Table::load(&directory.join(WORKLOADS), &columns)?;
    let columns = ["id", "model", "batch", "workload", "chosen"];
    let decisions = Table::load(&directory.join(DECISIONS), &columns)?;
    replay_tables(&workloads, &decisions, preset)
}

fn replay_tables(workloads: &Table, decisions: &Table, preset: Preset) -> Result<Replay, TableError> {
    let mut history: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    let mut verified: BTreeMap<u64, Vec<(Key, f64)>> = BTreeMap::new();
    for row in workloads.rows() {
        let (model, batch, workload) = case_of(&row)?;
        let key = (row.word("device")?.to_owned(), model, batch, workload.index());
        let time_ms = row.number("latency_ms", 1e-6..=1e9)?;
        if row.text("decision_id").is_empty() {
            history.entry(key).or_default().push(time_ms);
        } else {
            verified.entry(row.count("decision_id")?).or_default().push((key, time_ms));
        }
    }
    let mut cases = Vec::new();
    for row in decisions.rows() {
        let (model, batch, workload) = case_of(&row)?;
        let published = row.word("chosen")?.to_owned();
        cases.push(Case { id: row.count("id")?, model, batch, workload, published });
    }
    cases.sort_by_key(|case| case.id);
    let (mut checked, mut as_published, mut without_times) = (Vec::new(), 0, 0);
    for case in &cases {
        let Some(times) = verified.remove(&case.id) else {
            without_times += 1;
            continue;
        };
        let decision = decide(case, &times, &history, preset);
        as_published += usize::from(decision.chosen.as_ref().is_some_and(|it| it.as_str() == case.published));
        checked.push(decision);
        for (key, time_ms) in times {
            history.entry(key).or_default().push(time_ms);
        }
    }
    if checked.is_empty() {
        return Err(decisions.nothing(format!("names no decision whose times `{WORKLOADS}` holds")));
    }
    Ok(Replay { evaluation: Evaluation::of(checked), as_published, without_times })
}

fn case_of(row: &TableRow<'_>) -> Result<(String, u64, Workload), TableError> {
    let workload = row.word("workload")?;
    let workload = Workload::ALL
        .into_iter()
        .find(|known| known.name() == workload)
        .ok_or_else(|| row.wrong("workload", "is not sustained, idle_loaded or cold_start"))?;
    Ok((row.word("model")?.to_owned(), row.count("batch")?, workload))
}

fn decide(
    case: &Case,
    times: &[(Key, f64)],
    history: &BTreeMap<Key, Vec<f64>>,
    preset: Preset,
) -> CheckedDecision {
    // The order of devices is that of the measurements, which decides between equals.
    let predict = |key: &Key| {
        let known = history.get(key)?;
        match preset {
            Preset::Published => known.last().copied(),
            Preset::Default => statistics::median(known),
        }
    };
    let cold_start_known = preset == Preset::Default || case.id >= FIRST_WITH_COLD_START_RULE;
    let cold_start_margin = Rules::USUAL.cold_start_margin.filter(|_| cold_start_known);
    let volatility_band = match preset {
        Preset::Published => Some(PUBLISHED_VOLATILITY_BAND),
        Preset::Default => Rules::USUAL.volatility_band,
    };
    let rules = Rules { cold_start_margin, volatility_band, ..Rules::USUAL };
    let known: Vec<(usize, f64)> =
        times.iter().enumerate().filter_map(|(index, (key, _))| Some((index, predict(key)?))).collect();
    let seen: Vec<Seen> = known.iter().map(|&(index, ms)| seen(&times[index].0.0, ms)).collect();
    let answer = choose(case.workload, rules, seen);
    let chosen = answer.chosen.map(|chosen| known[usize::from(chosen.0)].0);
    let key = |index: usize| TargetKey(times[index].0.0.clone());
    let truth: Vec<Option<TrueTime>> = times.iter().map(|(_, ms)| Some(TrueTime::bare(ms * 1e6))).collect();
    let (best, regret_pct) = match chosen.map(|chosen| judge(&truth, chosen)) {
        Some(Outcome::Judged(judgement)) => (Some(key(judgement.best)), Some(judgement.regret_pct)),
        _ => (None, None),
    };
    let always = |name: &str| times.iter().position(|((device, ..), _)| device == name).map(key);
    let reason = match (chosen, answer.fired.last()) {
        (None, _) => "nothing was measured before".to_owned(),
        (_, None) => "the least predicted time".to_owned(),
        (_, Some(Fired::Volatility { .. })) => "the steadier of two that are near".to_owned(),
        (_, Some(_)) => "the CPU, since this is a cold start".to_owned(),
    };
    CheckedDecision {
        id: case.id.to_string(),
        model: case.model.clone(),
        batch: case.batch,
        bindings: format!("batch={}", case.batch),
        synthetic: true,
        candidates: times.len(),
        profiled: known.len() == times.len(),
        workload: case.workload,
        accuracy: AccuracyClass::Standard,
        chosen: chosen.map(key),
        best,
        regret_pct,
        tie: false,
        times_ms: times.iter().enumerate().map(|(index, (_, ms))| (key(index), *ms)).collect(),
        intervals_ms: BTreeMap::new(),
        halves_ms: BTreeMap::new(),
        predicted_ms: known.iter().map(|&(index, ms)| (key(index), ms)).collect(),
        predicted_intervals_ms: BTreeMap::new(),
        source: known.iter().map(|&(index, _)| (key(index), "measured".to_owned())).collect(),
        excluded: BTreeMap::new(),
        suspects: BTreeSet::new(),
        strategies: BTreeMap::from([
            ("always-cpu".to_owned(), always("cpu")),
            ("published".to_owned(), always(&case.published)),
        ]),
        others: BTreeMap::new(),
        unavailable: BTreeMap::new(),
        reason,
    }
}

/// A device as a decision sees it. The files hold one time for each and no interval, so that no two can be told apart.
fn seen(device: &str, ms: f64) -> Seen {
    let provider = ProviderName(device.to_owned());
    Seen {
        target: Target {
            key: TargetKey(device.to_owned()),
            provider,
            provider_version: String::new(),
            chip: ChipKey(device.to_owned()),
            chip_kind: if device == "cpu" { ChipKind::Cpu } else { ChipKind::Gpu },
            options: BTreeMap::new(),
        },
        outlook: Outlook::Expected(Prediction {
            time_ns: ms * 1e6,
            interval: Interval { low: 0.0, high: f64::MAX },
            source: Source::Measured { sessions: 1 },
        }),
        energy: None,
        memory_bytes: None,
        load_watts: None,
        within_ns: None,
        waking_ns: None,
        cold_start_ns: None,
        spread: VARIABILITY.iter().find(|(name, _)| *name == device).map(|(_, share)| *share),
    }
}

/// Decides among devices as the router does.
fn choose(workload: Workload, rules: Rules, candidates: Vec<Seen>) -> Answer {
    let (goal, accuracy, limits) = (Goal::Fastest, AccuracyClass::Standard, Limits::default());
    let record = Record {
        methods: Methods::CURRENT,
        terms: Terms { workload, goal, accuracy, limits, rules },
        context: Context::default(),
        answer: Answer {
            chosen: None,
            runner_up: None,
            goal,
            fired: Vec::new(),
            exploration: None,
            barred: Vec::new(),
            scores: Vec::new(),
        },
        candidates,
    };
    Answer::of(&record.replay())
}
