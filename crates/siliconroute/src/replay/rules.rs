//! The rules of decisions on published cases, which hold one time for each device and no intervals.
//!
//! Invariant: the limits are those of the router's own rules; only the steadier of two is judged without intervals.

use siliconroute_core::Workload;
use siliconroute_core::decide::Rules as Usual;

#[cfg(test)]
mod tests;

/// The limits of the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rules {
    /// A runner-up predicted to take at most this share longer is preferred if it is the steadier one;
    /// `None` where steadiness does not count.
    pub(super) volatility_margin: Option<f64>,
    /// A cold start goes to the CPU unless another option is predicted to take more than this share less;
    /// `None` where a cold start is like any other.
    pub(super) cold_start_gain: Option<f64>,
}

impl Default for Rules {
    fn default() -> Self {
        let Usual { volatility_band, cold_start_margin, .. } = Usual::USUAL;
        Self { volatility_margin: volatility_band, cold_start_gain: cold_start_margin }
    }
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RuledOption {
    /// The predicted time, in nanoseconds.
    pub(super) time_ns: f64,
    /// How much its time varies from session to session, as a share of it; `None` where that is not known.
    pub(super) variability: Option<f64>,
    /// Whether it is a CPU.
    pub(super) is_cpu: bool,
}

/// A rule that changed a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// The steadier of two that are near.
    Volatility,
    /// The CPU for a cold start.
    ColdStart,
}

/// What was chosen, and the rule that decided where one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RuledChoice {
    /// Position of the chosen option.
    pub(super) chosen: usize,
    /// The rule that changed the choice.
    pub(super) rule: Option<Rule>,
}

impl Rules {
    /// Chooses among `options`: the least predicted time, unless a rule speaks for another.
    ///
    /// Equal times go to the option listed first. `None` when there are no options.
    pub(super) fn choose(&self, workload: Workload, options: &[RuledOption]) -> Option<RuledChoice> {
        let fastest = least(options, |_| true)?;
        if let Some(gain) = self.cold_start_gain.filter(|_| workload == Workload::ColdStart)
            && let Some(cpu) = least(options, |option| option.is_cpu)
        {
            let other = least(options, |option| !option.is_cpu);
            let faster = other.filter(|&other| options[other].time_ns < options[cpu].time_ns * (1.0 - gain));
            let chosen = faster.unwrap_or(cpu);
            return Some(RuledChoice { chosen, rule: (chosen != fastest).then_some(Rule::ColdStart) });
        }
        // Without a margin no runner-up is near enough.
        let limit = self.volatility_margin.map_or(0.0, |margin| options[fastest].time_ns * (1.0 + margin));
        let next = least_besides(options, fastest).filter(|&next| {
            let steadier = match (options[next].variability, options[fastest].variability) {
                (Some(next), Some(fastest)) => next < fastest,
                _ => false,
            };
            options[next].time_ns <= limit && steadier
        });
        Some(match next {
            Some(chosen) => RuledChoice { chosen, rule: Some(Rule::Volatility) },
            None => RuledChoice { chosen: fastest, rule: None },
        })
    }
}

fn least(options: &[RuledOption], allowed: impl Fn(&RuledOption) -> bool) -> Option<usize> {
    let allowed = options.iter().enumerate().filter(|(_, option)| allowed(option));
    allowed.min_by(|(_, a), (_, b)| a.time_ns.total_cmp(&b.time_ns)).map(|(index, _)| index)
}

fn least_besides(options: &[RuledOption], besides: usize) -> Option<usize> {
    let others = options.iter().enumerate().filter(|(index, _)| *index != besides);
    others.min_by(|(_, a), (_, b)| a.time_ns.total_cmp(&b.time_ns)).map(|(index, _)| index)
}
