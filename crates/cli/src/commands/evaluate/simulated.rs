//! `evaluate --simulate`: the router on machines that do not exist.
//!
//! Invariant: every table says that its figures are simulated.

use std::process::ExitCode;

use siliconroute::Error;
use siliconroute::simulation::{Figures, Phase, Reaction, Scenario, Simulation};

use super::Elsewhere;
use crate::output::{Output, optional, table};
use crate::progress::Progress;

pub(super) fn run(scenario: Option<&str>, elsewhere: &Elsewhere<'_>) -> Result<ExitCode, Error> {
    let scenarios = match scenario {
        None => Scenario::ALL.to_vec(),
        Some(name) => vec![named(name)?],
    };
    let output = elsewhere.output;
    let simulation = Simulation::of(&scenarios, elsewhere.seed, elsewhere.stop, &mut Progress::new(output));
    elsewhere.end(&simulation, simulation.interrupted, || print(output, &simulation))
}

fn named(name: &str) -> Result<Scenario, Error> {
    Scenario::named(name).ok_or_else(|| {
        let known = Scenario::ALL.map(Scenario::name).join(", ");
        Error::Usage(format!("there is no scenario `{name}`; there are {known}"))
    })
}

/// Prints the figures; nothing where no scenario was gone through.
fn print(output: &Output, simulation: &Simulation) {
    if simulation.scenarios.is_empty() {
        return;
    }
    output.line(format!(
        "simulated machines, seed {}: regret against an oracle that knows what every target needs",
        simulation.seed
    ));
    let mut regrets = table(&[
        "scenario",
        "#models",
        "#targets",
        "#decisions",
        "#hours",
        "#runs 1 to 10",
        "#to 50",
        "#after 50",
        "#knowing the law",
        "#not learning",
        "#one target",
    ]);
    let regret = |phase: &Phase| optional((phase.runs > 0).then_some(phase.mean_regret_pct), percent);
    for figures in &simulation.scenarios {
        let [first, second, later] = &figures.phases;
        regrets.add_row([
            figures.scenario.to_owned(),
            figures.models.to_string(),
            figures.targets.to_string(),
            figures.decisions.to_string(),
            format!("{:.1}", figures.simulated_hours),
            regret(first),
            regret(second),
            regret(later),
            regret(&figures.informed),
            optional(figures.without_learning.as_ref().map(|phase| phase.mean_regret_pct), percent),
            percent(figures.best_fixed_regret_pct),
        ]);
    }
    output.table(&regrets);
    output.line(
        "knowing the law: after 50 runs, by one that knows every model's times and how fast they wander, and is told of load, heat \
         and failures at once, but sees by its own runs alone where times have wandered to"
            .to_owned(),
    );
    output.line(
        "what learning took, simulated; decisions a second are this machine's, the simulation included"
            .to_owned(),
    );
    let mut costs = table(&[
        "scenario",
        "#explored",
        "#share",
        "#explorations",
        "#changes seen",
        "#in 10,000 runs",
        "#runs until a slow-down is seen",
        "#decisions a second",
    ]);
    for figures in &simulation.scenarios {
        costs.add_row(costs_row(figures));
    }
    output.table(&costs);
}

fn costs_row(figures: &Figures) -> [String; 8] {
    let reaction = optional(figures.reaction.as_ref(), |reaction| {
        let Reaction { median_runs, p90_runs, most_runs, .. } = reaction;
        format!("{median_runs:.0}, p90 {p90_runs:.0}, most {most_runs:.0}")
    });
    [
        figures.scenario.to_owned(),
        format!("{:.2} %", figures.exploration_pct),
        percent(figures.exploration_share_pct),
        figures.explorations.to_string(),
        figures.changes_noticed.to_string(),
        format!("{:.1}", figures.changes_per_10_000),
        reaction,
        format!("{:.0}", figures.decisions_per_second),
    ]
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}
