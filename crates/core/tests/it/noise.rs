//! Timing noise of known distributions, with the true median of each.
//!
//! Invariant: one seed gives one series on every machine.

pub(crate) use siliconroute_core::statistics::Draws;

/// A kind of timing noise around a time of 1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noise {
    /// exp(σ·z), independent.
    Lognormal { sigma: f64 },
    /// 65 % around 1 and 35 % around 1.5, each 0.02 wide, independent.
    Bimodal,
    /// exp(σ·a) with a an autoregression of the first order and unit variance.
    Autoregressive { phi: f64, sigma: f64 },
    /// Lognormal noise around a level that rises by `rise` over the series.
    Drift { rise: f64, sigma: f64 },
    /// Lognormal noise around a level that jumps by `rise` after 60 % of the series.
    Step { rise: f64, sigma: f64 },
    /// Lognormal noise around a level that is higher by `rise` between 40 % and 60 % of the series.
    Bump { rise: f64, sigma: f64 },
    /// Lognormal noise of which 5 % take five times as long.
    Spikes { sigma: f64 },
    /// Pareto with tail index 1.5, scaled to the median 1: its variance is infinite.
    HeavyTail,
    /// A fast and a slow state, 30 % apart, that last about `dwell` samples; 65 % of the time is fast.
    States { dwell: f64 },
}

impl Noise {
    /// Lognormal noise whose (p90 − p10) ÷ median is `spread`.
    pub(crate) fn lognormal_of_spread(spread: f64) -> Self {
        // sinh(1.2816·σ) = spread ÷ 2.
        Self::Lognormal { sigma: (spread / 2.0).asinh() / 1.281_551_565_544_600_4 }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Lognormal { sigma } => format!("lognormal, {:.0} %", sigma * 100.0),
            Self::Bimodal => "bimodal, 65 : 35, 50 % apart".to_owned(),
            Self::Autoregressive { phi, .. } => format!("autoregressive, φ = {phi}"),
            Self::Drift { rise, sigma } => {
                format!("drift of {:.0} % under {:.0} % noise", rise * 100.0, sigma * 100.0)
            }
            Self::Step { rise, sigma } => {
                format!("step of {:.0} % under {:.0} % noise", rise * 100.0, sigma * 100.0)
            }
            Self::Bump { rise, sigma } => {
                format!("stretch {:.0} % higher under {:.0} % noise", rise * 100.0, sigma * 100.0)
            }
            Self::Spikes { .. } => "spikes, 5 % at × 5".to_owned(),
            Self::HeavyTail => "heavy tail, Pareto 1.5".to_owned(),
            Self::States { dwell } => format!("two states of {dwell:.0} samples, 30 % apart"),
        }
    }

    /// One series of `n` samples.
    pub(crate) fn series(self, n: usize, draws: &mut Draws) -> Vec<f64> {
        match self {
            Self::Lognormal { sigma } => (0..n).map(|_| (sigma * draws.normal()).exp()).collect(),
            Self::Bimodal => (0..n)
                .map(|_| {
                    let center = if draws.uniform() < 0.65 { 1.0 } else { 1.5 };
                    center + 0.02 * draws.normal()
                })
                .collect(),
            Self::Autoregressive { phi, sigma } => {
                let mut state = draws.normal();
                (0..n)
                    .map(|_| {
                        state = phi * state + (1.0 - phi * phi).sqrt() * draws.normal();
                        (sigma * state).exp()
                    })
                    .collect()
            }
            Self::Drift { rise, sigma } => (0..n)
                .map(|i| (rise * ((i as f64 + 0.5) / n as f64 - 0.5) + sigma * draws.normal()).exp())
                .collect(),
            Self::Step { rise, sigma } => (0..n)
                .map(|i| {
                    let level = if i * 5 >= n * 3 { rise } else { 0.0 };
                    (level + sigma * draws.normal()).exp()
                })
                .collect(),
            Self::Bump { rise, sigma } => (0..n)
                .map(|i| {
                    let level = if (n * 2..n * 3).contains(&(i * 5)) { rise } else { 0.0 };
                    (level + sigma * draws.normal()).exp()
                })
                .collect(),
            Self::Spikes { sigma } => (0..n)
                .map(|_| {
                    let spike = if draws.uniform() < 0.05 { 5.0 } else { 1.0 };
                    spike * (sigma * draws.normal()).exp()
                })
                .collect(),
            Self::HeavyTail => {
                let scale = 2.0_f64.powf(-1.0 / 1.5);
                (0..n).map(|_| scale * draws.uniform().powf(-1.0 / 1.5)).collect()
            }
            Self::States { dwell } => {
                let mut slow = draws.uniform() < 0.35;
                (0..n)
                    .map(|_| {
                        // Leaving rates that keep 65 % of the time fast and the mean dwell time as asked.
                        let leave = if slow { 0.65 } else { 0.35 } * 2.0 / dwell;
                        if draws.uniform() < leave {
                            slow = !slow;
                        }
                        (if slow { 1.3 } else { 1.0 }) * (0.02 * draws.normal()).exp()
                    })
                    .collect()
            }
        }
    }

    /// The median that the series have in the long run.
    pub(crate) fn true_median(self) -> f64 {
        match self {
            Self::Lognormal { .. }
            | Self::Autoregressive { .. }
            | Self::Drift { .. }
            | Self::HeavyTail
            | Self::Step { .. }
            | Self::Bump { .. } => 1.0,
            // Φ(z) = 0.5 ÷ 0.65.
            Self::Bimodal => 1.014_726_330_563_2,
            // 0.95·Φ(ln m ÷ σ) = 0.5, so that ln m = σ·0.066 012.
            Self::Spikes { sigma } => (sigma * 0.066_011_812_375_841_2).exp(),
            Self::States { .. } => (0.02 * 0.736_315_917_376_129_6_f64).exp(),
        }
    }

    /// The change of level over a series, as far as it is a drift.
    pub(crate) fn true_drift(self) -> f64 {
        match self {
            Self::Drift { rise, .. } => rise,
            _ => 0.0,
        }
    }

    /// Where in a series the level jumps, as a share of its length.
    pub(crate) fn true_step(self) -> Option<f64> {
        matches!(self, Self::Step { .. } | Self::Bump { .. }).then_some(0.6)
    }
}
