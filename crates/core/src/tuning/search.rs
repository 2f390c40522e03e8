//! The search: threads first, then one change after another, for as long as something is gained.
//!
//! Invariant: the result is never one that lost a contest, and it is the defaults where nothing gains on them.
//!
//! Coordinates are searched one after the other instead of all combinations; within a step, losers are given up early
//! (successive halving: Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter
//! Optimization", AISTATS 2016).

use serde::{Deserialize, Serialize};

use super::contest::{self, Entry, Fate, MOST_ROUNDS, Percent, Rule};
use super::{Arena, Space, TuningGoal};
use crate::target::CpuSettings;

/// By how many percent the settings for the battery may be slower than the fastest.
pub const BATTERY_MARGIN: u32 = 5;

/// Rounds in which settings for the battery are compared.
const BATTERY_ROUNDS: u32 = 6;

/// Series of single changes before the search ends in any case.
const MOST_SERIES: usize = 4;

/// Settings that were tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The settings.
    pub settings: CpuSettings,
    /// The median time of a call, in nanoseconds; absent without a round.
    pub call_ns: Option<f64>,
    /// Their time over that of the defaults; over several contests where they never met.
    pub ratio: Option<f64>,
    /// Processor time of a call, in nanoseconds; absent where the system does not tell.
    pub cpu_ns: Option<f64>,
    /// Processor time that waiting threads use after a call, in nanoseconds; absent where it was not measured.
    pub idle_cpu_ns: Option<f64>,
    /// Rounds in which they were measured.
    pub rounds: usize,
    /// How it went.
    #[serde(flatten)]
    pub fate: Fate,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The settings to be taken.
    pub best: CpuSettings,
    /// All that was tried, the defaults first.
    pub tried: Vec<Tried>,
}

impl Found {
    /// What is known of `settings`.
    pub fn tried(&self, settings: &CpuSettings) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.settings == *settings)
    }
}

/// Finds the settings of `space` that suit `goal` best.
///
/// All sessions are closed at the end. The inner error says why not even the defaults run.
///
/// # Errors
/// Whatever ends the arena's work.
pub fn search<A: Arena>(
    arena: &mut A,
    space: &Space,
    goal: TuningGoal,
) -> Result<Result<Found, String>, A::Error> {
    let defaults = CpuSettings::default();
    if let Err(reason) = arena.open(&defaults)? {
        return Ok(Err(reason));
    }
    let mut search = Search {
        space,
        tried: vec![Tried {
            settings: defaults.clone(),
            call_ns: None,
            ratio: Some(1.0),
            cpu_ns: None,
            idle_cpu_ns: arena.idle_cpu_ns(&defaults)?,
            rounds: 0,
            fate: Fate::Measured,
        }],
        best: defaults,
    };
    search.run(arena, goal)?;
    arena.close(&search.best);
    if let Fate::Refused(reason) = &search.tried[0].fate {
        return Ok(Err(reason.clone()));
    }
    Ok(Ok(Found { best: search.best, tried: search.tried }))
}

struct Search<'s> {
    space: &'s Space,
    best: CpuSettings,
    tried: Vec<Tried>,
}

impl Search<'_> {
    fn run<A: Arena>(&mut self, arena: &mut A, goal: TuningGoal) -> Result<(), A::Error> {
        self.improve(arena, self.space.starts())?;
        self.narrow(arena)?;
        let mut changed = false;
        for _ in 0..MOST_SERIES {
            if !self.improve(arena, self.space.single_changes(&self.best))? {
                break;
            }
            changed = true;
        }
        // Other settings may suit other numbers of threads.
        while changed && self.improve(arena, self.space.neighbours(&self.best))? {}
        if goal == TuningGoal::Battery {
            self.save_battery(arena)?;
        }
        if self.known(&self.best).is_some_and(|tried| tried.idle_cpu_ns.is_none()) {
            let idle = arena.idle_cpu_ns(&self.best)?;
            self.note_idle(&self.best.clone(), idle);
        }
        Ok(())
    }

    /// Halves the distance to the nearest numbers of threads that were tried, until that gains nothing more.
    fn narrow<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        loop {
            let like_best = |tried: &&Tried| tried.settings.cores == self.best.cores;
            let counts: Vec<u32> = self
                .tried
                .iter()
                .filter(like_best)
                .map(|tried| self.space.threads_of(&tried.settings))
                .collect();
            let between = self.space.between(&self.best, &counts);
            if between.is_empty() || !self.improve(arena, between)? {
                return Ok(());
            }
        }
    }

    /// Holds contests of the best so far against those of `challengers` that were not tried yet; whether one won.
    fn improve<A: Arena>(&mut self, arena: &mut A, challengers: Vec<CpuSettings>) -> Result<bool, A::Error> {
        let fresh: Vec<CpuSettings> =
            challengers.into_iter().filter(|settings| self.known(settings).is_none()).collect();
        let mut improved = false;
        for group in fresh.chunks(arena.room().max(2) - 1) {
            let entries = contest::hold(arena, &self.best, group, Rule::Gain, MOST_ROUNDS)?;
            let winner = contest::winner(&entries, self.space);
            self.note(&entries);
            self.keep(arena, &entries, winner);
            improved |= winner != 0;
        }
        Ok(improved)
    }

    /// Takes the settings that use the least of the processor among those that are hardly slower than the best.
    fn save_battery<A: Arena>(&mut self, arena: &mut A) -> Result<(), A::Error> {
        let thrifty = self.space.thriftier(&self.best);
        let group = &thrifty[..thrifty.len().min(arena.room().max(2) - 1)];
        let rule = Rule::Within(Percent(BATTERY_MARGIN));
        let entries = contest::hold(arena, &self.best, group, rule, BATTERY_ROUNDS)?;
        let mut cheapest: Option<(usize, f64)> = None;
        let mut idles = Vec::new();
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_in()) {
            let idle = arena.idle_cpu_ns(&entry.settings)?;
            idles.push((&entry.settings, idle));
            let most = 1.0 + f64::from(BATTERY_MARGIN) / 100.0;
            let within = entry.ratio(&entries[0]).is_some_and(|ratio| ratio <= most);
            let cost = entry.cpu_ns().zip(idle).map(|(call, idle)| call + idle);
            if let Some(cost) = cost.filter(|_| within)
                && cheapest.is_none_or(|(_, least)| cost < least)
            {
                cheapest = Some((index, cost));
            }
        }
        self.note(&entries);
        for (settings, idle) in idles {
            self.note_idle(settings, idle);
        }
        self.keep(arena, &entries, cheapest.map_or(0, |(index, _)| index));
        Ok(())
    }

    /// Makes the winner the best and closes the sessions of all others.
    fn keep<A: Arena>(&mut self, arena: &mut A, entries: &[Entry], winner: usize) {
        for (index, entry) in entries.iter().enumerate() {
            if index != winner && entry.is_in() {
                arena.close(&entry.settings);
            }
        }
        self.best = entries[winner].settings.clone();
    }

    fn known(&self, settings: &CpuSettings) -> Option<&Tried> {
        self.tried.iter().find(|tried| tried.settings == *settings)
    }

    fn note_idle(&mut self, settings: &CpuSettings, idle: Option<f64>) {
        if let Some(tried) = self.tried.iter_mut().find(|tried| tried.settings == *settings) {
            tried.idle_cpu_ns = idle.or(tried.idle_cpu_ns);
        }
    }

    /// Keeps what a contest told of its entries; settings that were in several keep the one with the most rounds.
    fn note(&mut self, entries: &[Entry]) {
        let of_first = self.known(&entries[0].settings).and_then(|tried| tried.ratio);
        for (index, entry) in entries.iter().enumerate() {
            let ratio = if index == 0 {
                of_first
            } else {
                entry.ratio(&entries[0]).zip(of_first).map(|(a, b)| a * b)
            };
            let new = Tried {
                settings: entry.settings.clone(),
                call_ns: entry.call_ns(),
                ratio,
                cpu_ns: entry.cpu_ns(),
                idle_cpu_ns: None,
                rounds: entry.calls_ns.len(),
                fate: entry.fate.clone(),
            };
            match self.tried.iter_mut().find(|tried| tried.settings == entry.settings) {
                Some(known) if known.rounds <= new.rounds => {
                    // The ratio to the defaults is that of the contest that they came in with.
                    *known = Tried { idle_cpu_ns: known.idle_cpu_ns, ratio: known.ratio, ..new };
                }
                Some(known) => known.fate = new.fate,
                None => self.tried.push(new),
            }
        }
    }
}

/// Measures every combination of `space` in `rounds` rounds, in groups as large as there is room for, each with the
/// defaults: the exhaustive sweep that a search is held against.
///
/// # Errors
/// Whatever ends the arena's work.
pub fn sweep<A: Arena>(arena: &mut A, space: &Space, rounds: u32) -> Result<Vec<Tried>, A::Error> {
    let defaults = CpuSettings::default();
    let mut search = Search { space, best: defaults.clone(), tried: Vec::new() };
    if arena.open(&defaults)?.is_err() {
        return Ok(Vec::new());
    }
    search.tried.push(Tried {
        settings: defaults.clone(),
        call_ns: None,
        ratio: Some(1.0),
        cpu_ns: None,
        idle_cpu_ns: None,
        rounds: 0,
        fate: Fate::Measured,
    });
    let others: Vec<CpuSettings> = space.every().into_iter().filter(|it| *it != defaults).collect();
    for group in others.chunks(arena.room().max(2) - 1) {
        // Nothing is slower by so much that it would be given up.
        let entries = contest::hold(arena, &defaults, group, Rule::Within(Percent(u32::MAX)), rounds)?;
        search.note(&entries);
        search.keep(arena, &entries, 0);
    }
    arena.close(&defaults);
    Ok(search.tried)
}
