//! What choices would score if every true time were known: a simulation.
//!
//! Invariant: it rests on times that the table holds twice, and is absent where there are too few of them.

use std::collections::BTreeMap;

use serde::Serialize;
use siliconroute_core::Reading;
use siliconroute_core::statistics::{Draws, median};
use siliconroute_core::transfer::Kind;

use super::{Board, Corpus};

/// Pairs below which nothing is simulated.
const LEAST_PAIRS: usize = 20;
/// Simulated repetitions of each decision: the share within 2 % of a few hundred decisions is then known to 0.2 %.
const REPETITIONS: usize = 200;
const SEED: u64 = 1;

/// The score of choices by true times, judged by measurements that differ from them.
///
/// A time that the table holds is taken to be off from the true one as the times of one accelerator, measured beside two
/// numbers of CPU threads, are off from one another, less a factor of `√2` since both of a pair are measured. No
/// predictor can do better but by chance; where the number of threads changes a time of itself, one can.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reachable {
    /// Pairs that the differences are drawn from.
    pub pairs: usize,
    /// Median of the differences within pairs.
    pub median_difference_pct: f64,
    /// Share of choices at most 2 % slower than the best.
    pub within_2_pct: f64,
    /// Mean regret.
    pub mean_regret_pct: f64,
}

/// Simulates choices by true times for every decision of `corpus`.
pub(super) fn simulate(corpus: &Corpus) -> Reading<Reachable> {
    let differences: Vec<f64> = corpus.boards.iter().flat_map(differences).collect();
    let pairs = differences.len();
    let sizes: Vec<f64> = differences.iter().map(|it| 100.0 * it.abs().exp_m1()).collect();
    let Some(median_difference_pct) = median(&sizes).filter(|_| pairs >= LEAST_PAIRS) else {
        return Reading::unavailable(format!(
            "{pairs} times stand in the table twice, of one accelerator beside two numbers of CPU threads, and {LEAST_PAIRS} are needed",
        ));
    };
    let mut draws = Draws::new(SEED);
    let (mut within, mut regret, mut choices) = (0_usize, 0.0, 0_usize);
    for board in &corpus.boards {
        for position in 0..board.models.len() {
            let times: Vec<f64> = board.times_ms.iter().map(|times| times[position].ln()).collect();
            let best = times.iter().copied().fold(f64::INFINITY, f64::min);
            for _ in 0..REPETITIONS {
                let mut chosen = (f64::INFINITY, best);
                for &time in &times {
                    let sign = if draws.uniform() < 0.5 { -1.0 } else { 1.0 };
                    let off = differences[draws.index(pairs)] / std::f64::consts::SQRT_2;
                    let truth = time + sign * off;
                    if truth < chosen.0 {
                        chosen = (truth, time);
                    }
                }
                let lost = 100.0 * (chosen.1 - best).exp_m1();
                within += usize::from(lost <= 2.0);
                regret += lost;
                choices += 1;
            }
        }
    }
    Reading::Available(Reachable {
        pairs,
        median_difference_pct,
        within_2_pct: 100.0 * within as f64 / choices as f64,
        mean_regret_pct: regret / choices as f64,
    })
}

/// Logarithms of the ratios of the times of one accelerator beside one number of CPU threads and the next.
fn differences(board: &Board) -> Vec<f64> {
    let mut times: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); board.candidates.len()];
    for row in &board.all.rows {
        times[row.candidate].insert(row.model, row.time_ns.ln());
    }
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (candidate, name) in board.candidates.iter().enumerate() {
        if board.all.kinds[candidate] == Kind::Accelerator {
            alike.entry(without_threads(name)).or_default().push(candidate);
        }
    }
    let pairs = alike.values().flat_map(|candidates| candidates.windows(2));
    pairs
        .flat_map(|pair| {
            let (one, other) = (&times[pair[0]], &times[pair[1]]);
            one.iter().filter_map(move |(model, time)| Some(time - other.get(model)?))
        })
        .collect()
}

/// The name of a candidate without the part that says how many CPU threads it has, such as `t4`.
fn without_threads(name: &str) -> String {
    let is_threads = |part: &&str| {
        part.strip_prefix('t').is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
    };
    name.split('/').filter(|part| !is_threads(part)).collect::<Vec<_>>().join("/")
}
