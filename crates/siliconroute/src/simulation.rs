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
}

impl Simulation {
    /// Goes through `scenarios` with one seed.
    pub fn of(scenarios: &[Scenario], seed: u64) -> Self {
        let scenarios =
            scenarios.iter().map(|scenario| simulate(*scenario, &scenario.plan(), seed)).collect();
        Self { schema: "siliconroute.simulation/1", simulated: true, seed, scenarios }
    }
}
