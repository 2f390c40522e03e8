//! What simple rules choose for a model that was left out.
//!
//! Invariant: a baseline sees what the zero-shot task sees and no more.

use siliconroute_core::nnls::nnls;
use siliconroute_core::transfer::Kind;

use super::{Board, Corpus};

/// A model of a board that was left out.
pub(super) struct LeftOut<'a> {
    pub(super) corpus: &'a Corpus,
    pub(super) board: &'a Board,
    pub(super) position: usize,
}

/// The least positive time, in milliseconds, that a baseline predicts.
const LEAST_MS: f64 = 1e-6;

/// Each baseline's choice, as a position among the candidates.
pub(super) fn choices(left_out: &LeftOut<'_>) -> [(&'static str, Option<usize>); 5] {
    let all = |_: usize| true;
    let kinds = &left_out.board.all.kinds;
    [
        ("always-cpu", left_out.least(|candidate| kinds[candidate] == Kind::Cpu, LeftOut::mean_ln)),
        ("always-gpu", left_out.least(|candidate| kinds[candidate] == Kind::Accelerator, LeftOut::mean_ln)),
        ("best-fixed", left_out.least(all, LeftOut::mean_ln)),
        ("F1", left_out.least(all, LeftOut::roofline_ln)),
        ("log-linear", left_out.least(all, LeftOut::log_linear_ln)),
    ]
}

impl LeftOut<'_> {
    fn least(&self, allowed: impl Fn(usize) -> bool, predict: impl Fn(&Self, usize) -> f64) -> Option<usize> {
        let candidates = (0..self.board.candidates.len()).filter(|&candidate| allowed(candidate));
        let times = candidates.map(|candidate| (candidate, predict(self, candidate)));
        times.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(candidate, _)| candidate)
    }

    /// Facts and logarithm of the time of every other model: multiply-adds, parameters, `ln` of milliseconds.
    fn others(&self, candidate: usize) -> impl Iterator<Item = ([f64; 2], f64)> {
        let times = self.board.times_ms[candidate].iter().enumerate();
        let others = times.filter(|(position, _)| *position != self.position);
        others.map(|(position, time)| (self.facts(position), time.ln()))
    }

    fn facts(&self, position: usize) -> [f64; 2] {
        let traits = &self.corpus.models[self.board.models[position]].traits;
        [traits.multiply_adds / 1e9, traits.parameters / 1e6]
    }

    fn mean_ln(&self, candidate: usize) -> f64 {
        let count = self.board.models.len() - 1;
        self.others(candidate).map(|(_, ln)| ln).sum::<f64>() / count as f64
    }

    /// `t = t0 + a·W + b·P` with no negative coefficient, each row weighted by `1/t`.
    fn roofline_ln(&self, candidate: usize) -> f64 {
        let rows: Vec<[f64; 3]> = self
            .others(candidate)
            .map(|([work, parameters], ln)| [1.0, work, parameters].map(|value| value / ln.exp()))
            .collect();
        // Facts that fit no law leave the mean.
        let Ok(solution) = nnls(&rows, &vec![1.0; rows.len()]) else { return self.mean_ln(candidate) };
        let [work, parameters] = self.facts(self.position);
        let time: f64 = solution.x.iter().zip([1.0, work, parameters]).map(|(x, value)| x * value).sum();
        time.max(LEAST_MS).ln()
    }

    /// `ln t = c0 + c1·ln W + c2·ln P` by least squares.
    fn log_linear_ln(&self, candidate: usize) -> f64 {
        let ln = |[work, parameters]: [f64; 2]| (work.max(1e-9).ln(), parameters.max(1e-9).ln());
        let rows: Vec<[f64; 3]> = self
            .others(candidate)
            .map(|(facts, time)| {
                let (work, parameters) = ln(facts);
                [work, parameters, time]
            })
            .collect();
        let mean = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
        let means = [mean(0), mean(1), mean(2)];
        let product = |a: usize, b: usize| {
            rows.iter().map(|row| (row[a] - means[a]) * (row[b] - means[b])).sum::<f64>()
        };
        let (work, parameters) = ln(self.facts(self.position));
        let (work, parameters) = (work - means[0], parameters - means[1]);
        let (ww, pp, wp) = (product(0, 0), product(1, 1), product(0, 1));
        let (wt, pt) = (product(0, 2), product(1, 2));
        let determinant = ww * pp - wp * wp;
        if determinant <= 1e-9 * ww * pp {
            // All models alike, or one fact following from the other: the work alone tells.
            return if ww > 0.0 { means[2] + wt / ww * work } else { means[2] };
        }
        let of_work = (wt * pp - pt * wp) / determinant;
        let of_parameters = (pt * ww - wt * wp) / determinant;
        means[2] + of_work * work + of_parameters * parameters
    }
}
