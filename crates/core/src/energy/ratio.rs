//! Ratios of sums over blocks, with their errors.
//!
//! Invariant: every block weighs by what it holds, so that holes and uneven blocks bend no ratio.

use super::pieces::Piece;

/// Blocks of a window: enough for Student's t to be narrow, few enough that neighbours have little in common.
const MOST_BLOCKS: usize = 10;
const FEWEST_BLOCKS: usize = 3;

/// Correlation of neighbouring blocks that is reckoned with at most.
const STRONGEST: f64 = 0.8;

/// A window cut into blocks.
#[derive(Debug)]
pub(super) struct Blocks(Vec<Block>);

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    begin_s: f64,
    end_s: f64,
    seconds: f64,
    joules: f64,
    calls: f64,
}

/// A ratio with its standard error and the degrees of freedom behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratio {
    pub(super) value: f64,
    pub(super) error: f64,
    pub(super) degrees: usize,
}

impl Blocks {
    /// Joins neighbouring pieces: two or more to a block where there are enough.
    pub(super) fn of(pieces: &[Piece]) -> Self {
        let count = (pieces.len() / 2).clamp(FEWEST_BLOCKS, MOST_BLOCKS).min(pieces.len()).max(1);
        let block = |index: usize| {
            let part = &pieces[index * pieces.len() / count..(index + 1) * pieces.len() / count];
            Block {
                begin_s: part.first().map_or(0.0, |piece| piece.begin_s),
                end_s: part.last().map_or(0.0, |piece| piece.end_s),
                seconds: part.iter().map(|piece| piece.end_s - piece.begin_s).sum(),
                joules: part.iter().map(|piece| piece.joules).sum(),
                calls: 0.0,
            }
        };
        Self((0..count).map(block).collect())
    }

    /// Gives each block its calls, from how many were done by a moment.
    pub(super) fn with_calls(mut self, done_by: impl Fn(f64) -> f64) -> Self {
        for block in &mut self.0 {
            block.calls = done_by(block.end_s) - done_by(block.begin_s);
        }
        self
    }

    pub(super) fn calls(&self) -> f64 {
        self.0.iter().map(|block| block.calls).sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.0.iter().map(|block| block.seconds).sum()
    }

    /// Watts, of a sensor whose readings come in steps of `resolution` watts.
    pub(super) fn power(&self, resolution: f64) -> Ratio {
        ratio(self.0.iter().map(|block| (block.joules, block.seconds)), resolution)
    }

    /// Joules of a call beyond what `idle_watts` take meanwhile.
    pub(super) fn per_call(&self, idle_watts: f64, resolution: f64) -> Ratio {
        let beyond = |block: &Block| (block.joules - idle_watts * block.seconds, block.calls);
        let seconds_per_call = self.seconds() / self.calls();
        ratio(self.0.iter().map(beyond), resolution * seconds_per_call)
    }

    /// By how many percent the joules of a call differ between the halves, if by more than `share` and by more than
    /// three standard errors.
    ///
    /// The noise is that from one block to the next (von Neumann 1941), in which a slow change hardly counts.
    pub(super) fn unsettled(&self, idle_watts: f64, share: f64) -> Option<f64> {
        let per_call: Vec<f64> =
            self.0.iter().map(|block| (block.joules - idle_watts * block.seconds) / block.calls).collect();
        let (early, late) = per_call.split_at(per_call.len() / 2);
        if early.len() < 2 {
            return None;
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let steps = per_call.iter().zip(per_call.iter().skip(1)).map(|(one, next)| (next - one).powi(2));
        let variance = steps.sum::<f64>() / (2.0 * (per_call.len() - 1) as f64);
        let error = (variance / early.len() as f64 + variance / late.len() as f64).sqrt();
        let (whole, apart) = (mean(&per_call).abs(), (mean(late) - mean(early)).abs());
        (apart > 3.0 * error && apart > share * whole).then_some(apart / whole * 100.0)
    }
}

/// `Σy ÷ Σx`, with the delta method's error: the residuals `y − r·x` over the blocks. Residuals that resemble their
/// neighbours count for less, by the factor of an autoregression of the first order (its estimate from few blocks
/// lies low by `(1 + 3ρ) ÷ n`: Marriott and Pope, 1954). A value that may lie anywhere within a step adds `step² ÷ 12`.
fn ratio(blocks: impl Iterator<Item = (f64, f64)> + Clone, step: f64) -> Ratio {
    let (count, sum_y, sum_x) =
        blocks.clone().fold((0_usize, 0.0, 0.0), |(n, y, x), block| (n + 1, y + block.0, x + block.1));
    let (value, n) = (sum_y / sum_x, count as f64);
    let residuals: Vec<f64> = blocks.map(|(y, x)| y - value * x).collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let products: f64 = residuals.iter().zip(residuals.iter().skip(1)).map(|(a, b)| a * b).sum();
    let found = if squares > 0.0 { products / squares } else { 0.0 };
    let alike = if found > 0.0 { (found + (1.0 + 3.0 * found) / n).clamp(0.0, STRONGEST) } else { 0.0 };
    let variance = squares * n / (n - 1.0).max(1.0) / (sum_x * sum_x) * (1.0 + alike) / (1.0 - alike);
    Ratio { value, error: (variance + step * step / 12.0).sqrt(), degrees: count.saturating_sub(1).max(1) }
}

/// Degrees of freedom of a sum of independent errors (Welch 1947, Satterthwaite 1946), rounded down.
pub(super) fn joint_degrees(errors: &[(f64, usize)]) -> usize {
    let variance: f64 = errors.iter().map(|(error, _)| error * error).sum();
    let fourth: f64 = errors.iter().map(|(error, degrees)| error.powi(4) / *degrees as f64).sum();
    let most = errors.iter().map(|(_, degrees)| *degrees).sum();
    if fourth > 0.0 { ((variance * variance / fourth) as usize).clamp(1, most) } else { most }
}
