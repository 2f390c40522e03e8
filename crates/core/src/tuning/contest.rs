//! One contest: the settings held so far against some others, in interleaved rounds, until it is clear who stays.
//!
//! Invariant: settings are judged by their ratios within rounds, never by times of different rounds, so that what the
//! machine does to all of them alike cancels. The ones held so far are replaced only for a gain of [`LEAST_GAIN`].

use serde::{Deserialize, Serialize};

use super::{Arena, Space};
use crate::statistics::median;
use crate::target::CpuSettings;

/// The share of time that settings must save to replace those held so far.
pub const LEAST_GAIN: f64 = 0.02;

/// Rounds after which a contest ends in any case.
pub(super) const MOST_ROUNDS: u32 = 10;

/// Rounds before settings that gain in none of them are given up, and before those that gain in few.
const ROUNDS_TO_GAIN: [usize; 2] = [3, 4];

/// Wall time of a session's turns before the CPUs that it kept busy disprove its number of threads: some systems count
/// processor time in steps of 16 ms.
const PROOF_NS: f64 = 100e6;

/// How it went for settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "fate", content = "reason")]
pub enum Fate {
    /// They were measured to the end of their contest.
    Measured,
    /// They were given up early, since they were clearly slower than the best.
    Slower,
    /// They were given up early, since they were not clearly faster than those held so far.
    NoGain,
    /// The engine refused them, the session failed, or they had no effect.
    Refused(String),
}

/// One of the settings in a contest.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) settings: CpuSettings,
    pub(super) fate: Fate,
    /// The median time of a call, by round.
    pub(super) calls_ns: Vec<f64>,
    busy_ns: f64,
    wall_ns: f64,
    tells_cpu: bool,
}

/// How entries are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// To find the fastest: what gains nothing is given up.
    Gain,
    /// To know how all of them stand to the fastest: only what is slower by more than the margin is given up.
    Within(Percent),
}

/// A whole number of percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Percent(pub(super) u32);

impl Entry {
    fn new(settings: CpuSettings) -> Self {
        Self {
            settings,
            fate: Fate::Measured,
            calls_ns: Vec::new(),
            busy_ns: 0.0,
            wall_ns: 0.0,
            tells_cpu: true,
        }
    }

    pub(super) fn is_in(&self) -> bool {
        self.fate == Fate::Measured
    }

    /// The median time of a call, in nanoseconds.
    pub(super) fn call_ns(&self) -> Option<f64> {
        median(&self.calls_ns)
    }

    /// Processor time of a call, in nanoseconds; `None` where the system does not tell.
    pub(super) fn cpu_ns(&self) -> Option<f64> {
        Some(self.call_ns()? * self.busy_cores()?)
    }

    /// CPUs that it kept busy on average.
    fn busy_cores(&self) -> Option<f64> {
        (self.tells_cpu && self.wall_ns > 0.0).then(|| self.busy_ns / self.wall_ns)
    }

    /// Logarithms of its time over that of `other`, by common round.
    fn log_ratios(&self, other: &Self) -> Vec<f64> {
        self.calls_ns.iter().zip(&other.calls_ns).map(|(own, other)| (own / other).ln()).collect()
    }

    /// Its time over that of `other`; `None` without a common round.
    pub(super) fn ratio(&self, other: &Self) -> Option<f64> {
        median(&self.log_ratios(other)).map(f64::exp)
    }

    /// Why its number of threads is not what was asked for.
    fn disproof(&self) -> Option<String> {
        let threads = self.settings.threads?;
        let busy = self.busy_cores().filter(|_| self.wall_ns >= PROOF_NS)?;
        (busy > f64::from(threads) * 1.1 + 0.2)
            .then(|| format!("threads={threads} has no effect: {busy:.1} CPUs were busy"))
    }
}

/// Holds a contest among `entries`, of which the first is the one held so far, and gives them with their rounds.
///
/// The sessions of all but the winner are closed; the first entry's must be open.
pub(super) fn hold<A: Arena>(
    arena: &mut A,
    incumbent: &CpuSettings,
    challengers: &[CpuSettings],
    rule: Rule,
    most_rounds: u32,
) -> Result<Vec<Entry>, A::Error> {
    let mut entries = vec![Entry::new(incumbent.clone())];
    for settings in challengers {
        let mut entry = Entry::new(settings.clone());
        if let Err(reason) = arena.open(settings)? {
            entry.fate = Fate::Refused(reason);
        }
        entries.push(entry);
    }
    for round in 0..most_rounds {
        if entries.iter().filter(|entry| entry.is_in()).count() < 2 {
            break;
        }
        // There and back, so that no one always follows the same one.
        let mut order: Vec<usize> = (0..entries.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let entry = &mut entries[index];
            if !entry.is_in() {
                continue;
            }
            match arena.turn(&entry.settings, round)? {
                Ok(turn) if turn.call_ns.is_finite() && turn.call_ns > 0.0 => {
                    entry.calls_ns.push(turn.call_ns);
                    entry.wall_ns += turn.wall_ns;
                    match turn.busy_cores {
                        Some(busy) => entry.busy_ns += busy * turn.wall_ns,
                        None => entry.tells_cpu = false,
                    }
                    if let Some(reason) = entry.disproof() {
                        entry.fate = Fate::Refused(reason);
                    }
                }
                Ok(_) => entry.fate = Fate::Refused("a call took no time that can be measured".to_owned()),
                Err(reason) => entry.fate = Fate::Refused(reason),
            }
        }
        give_up(&mut entries, rule);
        for entry in entries.iter().filter(|entry| !entry.is_in()) {
            arena.close(&entry.settings);
        }
    }
    Ok(entries)
}

/// Gives up the entries that cannot win any more.
fn give_up(entries: &mut [Entry], rule: Rule) {
    let Some(leader) = leader(entries) else { return };
    for index in (0..entries.len()).filter(|index| *index != leader) {
        if !entries[index].is_in() {
            continue;
        }
        let behind = entries[index].log_ratios(&entries[leader]);
        let margin = match rule {
            Rule::Gain => 0.0,
            Rule::Within(Percent(percent)) => (f64::from(percent) / 100.0).ln_1p(),
        };
        // Those held so far go only when the leader would win over them.
        if is_clearly_slower(&behind, margin) && (index != 0 || is_beaten(&behind)) {
            entries[index].fate = Fate::Slower;
        }
    }
    if rule != Rule::Gain {
        return;
    }
    let reference = if entries[0].is_in() { 0 } else { leader };
    for index in (1..entries.len()).filter(|index| *index != reference) {
        if entries[index].is_in() && gains_nothing(&entries[index].log_ratios(&entries[reference])) {
            entries[index].fate = Fate::NoGain;
        }
    }
}

/// The entry with the least time among those still in, by its ratios to the first of them.
fn leader(entries: &[Entry]) -> Option<usize> {
    let base = entries.iter().position(Entry::is_in)?;
    let of = |index: usize| Some((index, entries[index].ratio(&entries[base])?));
    let all = (0..entries.len()).filter(|index| entries[*index].is_in()).filter_map(of);
    all.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

/// Whether log ratios to the leader leave little doubt: the fewer rounds, the larger the difference must be, and from
/// five on one round may disagree.
fn is_clearly_slower(behind: &[f64], margin: f64) -> bool {
    let over = |share: f64| {
        let least = margin + share.ln_1p();
        behind.iter().filter(|ratio| **ratio > least).count()
    };
    match behind.len() {
        0 | 1 => false,
        2 => over(0.25) == 2,
        3 | 4 => over(0.08) == behind.len(),
        rounds => over(0.02) >= rounds - rounds / 5 && median(behind).is_some_and(|it| it > margin + 0.03),
    }
}

/// Whether log ratios to the leader leave no doubt that it wins over the settings held so far: some rounds that agree on
/// a large difference, or many on any.
fn is_beaten(behind: &[f64]) -> bool {
    let ahead: Vec<f64> = behind.iter().map(|ratio| -ratio).collect();
    let large = behind.iter().all(|ratio| *ratio > 0.25_f64.ln_1p());
    (behind.len() >= 3 && large) || (behind.len() >= 8 && gains(&ahead))
}

/// Whether log ratios to the settings held so far show a gain worth having in no round of three, or in at most a quarter
/// of more.
fn gains_nothing(ratios: &[f64]) -> bool {
    let least = -LEAST_GAIN.ln_1p();
    let gains = ratios.iter().filter(|ratio| **ratio < least).count();
    let [for_none, for_few] = ROUNDS_TO_GAIN;
    (gains == 0 && ratios.len() >= for_none) || (ratios.len() >= for_few && gains * 4 <= ratios.len())
}

/// Whether log ratios to the settings held so far show a gain that is worth having and lies so far beyond their spread
/// that the luckiest of several equal challengers would hardly show it.
fn gains(ratios: &[f64]) -> bool {
    let Some(center) = median(ratios) else { return false };
    let distances: Vec<f64> = ratios.iter().map(|ratio| (ratio - center).abs()).collect();
    // The standard error of a median, from the median absolute deviation, as for normal values.
    let error = median(&distances).map(|mad| 1.4826 * 1.2533 * mad / (ratios.len() as f64).sqrt());
    center < -LEAST_GAIN.ln_1p().max(2.5 * error.unwrap_or(0.0))
}

/// The position of the winner: the first entry, unless another one gains enough on it. Of others that are as fast, the
/// one with the fewest threads and the fewest settings wins.
pub(super) fn winner(entries: &[Entry], space: &Space) -> usize {
    let Some(leader) = leader(entries) else { return 0 };
    if leader == 0 || (entries[0].is_in() && !gains(&entries[leader].log_ratios(&entries[0]))) {
        return 0;
    }
    let as_fast = |entry: &Entry| entry.ratio(&entries[leader]).is_some_and(|ratio| ratio <= 1.01);
    let weight = |settings: &CpuSettings| (space.threads_of(settings), settings.count());
    (1..entries.len())
        .filter(|index| entries[*index].is_in() && as_fast(&entries[*index]))
        .min_by_key(|index| weight(&entries[*index].settings))
        .unwrap_or(leader)
}
