//! Days of use on machines that do not exist, in seconds: what the router's own deciding, learning and exploring come to.
//!
//! Invariant: a figure of a simulation is labelled as one; everything follows from the scenario and the seed, but for the
//! speed of this machine.
//!
//! Reading order: `scenario` (what happens), `machine` (how long it takes), `drive` (the router's part), `informed`
//! (what can be reached without foresight), `tally`.

mod drive;
mod informed;
mod machine;
mod scenario;
mod tally;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::event::{Event, Listener, Stage};

pub use self::drive::simulate;
pub use self::scenario::{Plan, Scenario};
pub use self::tally::{Figures, Parts, Phase, Reaction};

/// What simulations gave.
#[derive(Debug, Clone, Serialize)]
pub struct Simulation {
    /// The shape of this document.
    pub schema: &'static str,
    /// No figure is of a machine that exists.
    pub simulated: bool,
    /// The seed of everything that is left to chance.
    pub seed: u64,
    /// Figures, one after the other.
    pub scenarios: Vec<Figures>,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
}

impl Simulation {
    /// Goes through `scenarios` with one seed until `stop` says so; the one that is under way then has no figures.
    pub fn of(
        scenarios: &[Scenario],
        seed: u64,
        stop: &dyn Fn() -> bool,
        listener: &mut dyn Listener,
    ) -> Self {
        let plans: Vec<_> = scenarios.iter().map(|scenario| (*scenario, scenario.plan())).collect();
        Self::of_plans(&plans, seed, stop, listener)
    }

    fn of_plans(
        plans: &[(Scenario, Plan)],
        seed: u64,
        stop: &dyn Fn() -> bool,
        listener: &mut dyn Listener,
    ) -> Self {
        listener.event(Event::Begin { stage: Stage::Evaluating, steps: Some(plans.len() as u64) });
        let figures = plans.iter().map_while(|(scenario, plan)| {
            listener.event(Event::Step(scenario.name().to_owned()));
            let figures = simulate(*scenario, plan, seed, stop)?;
            listener.event(Event::StepDone);
            Some(figures)
        });
        let scenarios: Vec<Figures> = figures.collect();
        listener.event(Event::End(String::new()));
        let interrupted = scenarios.len() < plans.len();
        Self { schema: "siliconroute.simulation/1", simulated: true, seed, scenarios, interrupted }
    }
}
