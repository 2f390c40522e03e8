//! Writes docs/error-rates.md: how often each statistic is right on noise whose truth is known.
//!
//! Run with `cargo bench -p siliconroute-core --bench error_rates`; a number behind `--` sets the replicates.

#![expect(clippy::print_stdout, reason = "the tables are the result")]
#![expect(clippy::unwrap_used, reason = "simulated series have all the statistics that are asked for")]

#[path = "../tests/it/experiments.rs"]
mod experiments;
#[path = "../tests/it/noise.rs"]
mod noise;

use experiments::{ESTIMATORS, Plan};
use noise::Noise;
use siliconroute_core::statistics::{Replication, StoppingRule};

const SEED: u64 = 1;
const SIGMA: f64 = 0.05;

fn main() {
    let replicates = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(4000);
    println!("# Error rates of the statistics\n");
    println!(
        "What the methods of [methodology.md](methodology.md) do on simulated noise whose truth is known:"
    );
    println!("{replicates} replicates (half of them for resampling, stopping and many pairs), seed {SEED}.");
    println!("Written by `cargo bench -q -p siliconroute-core --bench error_rates > docs/error-rates.md`.\n");
    coverage(replicates);
    bootstrap(replicates);
    flags(replicates);
    unstable(replicates);
    stopping(replicates);
    verdicts(replicates);
    sessions(replicates);
}

fn stationary() -> [Noise; 8] {
    [
        Noise::Lognormal { sigma: SIGMA },
        Noise::Bimodal,
        Noise::Spikes { sigma: SIGMA },
        Noise::HeavyTail,
        Noise::Autoregressive { phi: 0.2, sigma: SIGMA },
        Noise::Autoregressive { phi: 0.5, sigma: SIGMA },
        Noise::Autoregressive { phi: 0.9, sigma: SIGMA },
        Noise::States { dwell: 20.0 },
    ]
}

fn heading(title: &str, columns: &[String]) {
    println!("## {title}\n\n| | {} |", columns.join(" | "));
    println!("| --- |{}", " ---: |".repeat(columns.len()));
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn row(name: &str, cells: impl Iterator<Item = String>) {
    println!("| {name} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn columns(sizes: &[usize]) -> Vec<String> {
    sizes.iter().map(|n| format!("n = {n}")).collect()
}

fn coverage(replicates: usize) {
    const SIZES: [usize; 7] = [16, 30, 60, 100, 300, 1000, 3000];
    let drifts = [Noise::Drift { rise: 0.05, sigma: SIGMA }, Noise::Drift { rise: 0.15, sigma: SIGMA }];
    heading("Coverage of the 95 % interval of the median, % (assuming independence)", &columns(&SIZES));
    let mut notes = Vec::new();
    for noise in stationary().into_iter().chain(drifts) {
        let found = SIZES.map(|n| experiments::coverage(noise, n, replicates, SEED));
        row(
            &noise.name(),
            found.iter().map(|it| format!("{} ({})", percent(it.corrected), percent(it.independent))),
        );
        notes.push((noise.name(), found));
    }
    println!();
    heading(
        "Trials that call themselves too short for their dependence, % (without any interval)",
        &columns(&SIZES),
    );
    for (name, found) in notes {
        row(&name, found.iter().map(|it| format!("{} ({})", percent(it.unresolved), percent(it.absent))));
    }
    println!();
}

fn bootstrap(replicates: usize) {
    const SIZES: [usize; 4] = [30, 60, 100, 300];
    heading(
        "For comparison: coverage of the stationary bootstrap with the best block length, %",
        &columns(&SIZES),
    );
    for phi in [0.0, 0.5, 0.9] {
        let noise = Noise::Autoregressive { phi, sigma: SIGMA };
        let replicates = replicates / 2;
        let cells = SIZES.map(|n| percent(experiments::bootstrap_coverage(noise, phi, n, replicates, SEED)));
        row(&noise.name(), cells.into_iter());
    }
    println!();
}

fn flags(replicates: usize) {
    const SIZES: [usize; 5] = [30, 60, 100, 300, 1000];
    let moving = [
        Noise::Drift { rise: 0.03, sigma: SIGMA },
        Noise::Drift { rise: 0.05, sigma: SIGMA },
        Noise::Drift { rise: 0.10, sigma: SIGMA },
        Noise::Drift { rise: 0.05, sigma: 0.01 },
        Noise::Step { rise: 0.03, sigma: 0.01 },
        Noise::Step { rise: 0.05, sigma: SIGMA },
        Noise::Step { rise: 0.10, sigma: SIGMA },
        Noise::Bump { rise: 0.03, sigma: 0.01 },
        Noise::Bump { rise: 0.10, sigma: SIGMA },
    ];
    let all: Vec<_> = stationary()
        .into_iter()
        .chain(moving)
        .map(|noise| (noise, SIZES.map(|n| experiments::flags(noise, n, replicates, SEED))))
        .collect();
    heading("Trials flagged as drifting, %", &columns(&SIZES));
    for (noise, found) in &all {
        row(&noise.name(), found.iter().map(|it| percent(it.drifting)));
    }
    println!();
    heading("Coverage of the 99 % interval of the drift, %", &columns(&SIZES));
    for (noise, found) in all.iter().filter(|(noise, _)| noise.true_step().is_none()) {
        row(&noise.name(), found.iter().map(|it| percent(it.drift_covered)));
    }
    println!();
    heading("Trials with a reported step, % (within 5 % of the true place)", &columns(&SIZES));
    for (noise, found) in &all {
        let cell = |it: &experiments::Flags| match noise.true_step() {
            Some(_) => format!("{} ({})", percent(it.changed), percent(it.found)),
            None => percent(it.changed),
        };
        row(&noise.name(), found.iter().map(cell));
    }
    println!();
}

fn unstable(replicates: usize) {
    const SIZES: [usize; 4] = [10, 30, 100, 300];
    heading("Trials flagged as unstable, by the true (p90 − p10) ÷ median, %", &columns(&SIZES));
    for spread in [0.10, 0.20, 0.25, 0.30, 0.35, 0.40, 0.60] {
        let noise = Noise::lognormal_of_spread(spread);
        let cells = SIZES.map(|n| percent(experiments::unstable(noise, n, replicates, SEED)));
        row(&format!("spread {:.0} %", spread * 100.0), cells.into_iter());
    }
    println!();
}

fn stopping(replicates: usize) {
    let titles = ["precision", "coverage, %", "precise, %", "mean samples"].map(str::to_owned);
    heading("Trials that stop themselves", &titles);
    for (precision, least) in [(0.02, 64), (0.01, 64), (0.005, 64), (0.02, 30)] {
        let rule = StoppingRule { precision, least, most: 3000 };
        for noise in stationary() {
            let it = experiments::stopping(noise, rule, replicates / 2, SEED);
            let cells = [
                format!("± {:.1} % from {least}", precision * 100.0),
                percent(it.covered),
                percent(it.precise),
                format!("{:.0}", it.mean_samples),
            ];
            row(&noise.name(), cells.into_iter());
        }
    }
    println!();
}

fn verdicts(replicates: usize) {
    let titles = [
        "equal: wrong verdict, %",
        "5 % slower: found, %",
        "called faster, %",
        "coverage, %",
        "half-width, %",
    ];
    let titles = titles.map(str::to_owned);
    for (kind, verdicts) in [
        ("Paired comparison", experiments::verdicts as fn(Plan, f64, usize, u64) -> experiments::Verdicts),
        ("Comparison of campaigns made apart", experiments::unpaired_verdicts),
    ] {
        heading(&format!("{kind}, by sessions × rounds × samples"), &titles);
        for (sessions, rounds, block) in [(1, 12, 5), (2, 6, 5), (3, 6, 5), (5, 6, 5), (5, 6, 10), (8, 6, 5)]
        {
            for session_spread in [0.0, 0.01, 0.03] {
                let plan = Plan { sessions, rounds, block, session_spread, slow_sessions: 0.0 };
                let equal = verdicts(plan, 1.0, replicates, SEED);
                let slower = verdicts(plan, 1.05, replicates, SEED + 1);
                let cells = [
                    percent(equal.slower + equal.faster),
                    percent(slower.slower),
                    percent(slower.faster),
                    if slower.half_width.is_finite() { percent(slower.covered) } else { "–".to_owned() },
                    if slower.half_width.is_finite() { percent(slower.half_width) } else { "–".to_owned() },
                ];
                let spread = session_spread * 100.0;
                row(&format!("{sessions} × {rounds} × {block}, sessions ± {spread:.0} %"), cells.into_iter());
            }
        }
        println!();
    }
    replicated(replicates);
    heading(
        "Any wrong verdict among equal targets, %",
        &["pair by pair", "together (Holm)"].map(str::to_owned),
    );
    for targets in [2, 3, 4, 6, 8] {
        let plan = Plan { sessions: 5, rounds: 6, block: 5, session_spread: 0.01, slow_sessions: 0.0 };
        let wrong = experiments::wrong_among_many(plan, targets, replicates / 2, SEED);
        row(
            &format!("{targets} targets, {} pairs", targets * (targets - 1) / 2),
            wrong.map(percent).into_iter(),
        );
    }
    println!();
}

fn replicated(replicates: usize) {
    let plan = Replication::default();
    let titles = [
        "equal: wrong verdict, %",
        "5 % slower: found, %",
        "called faster, %",
        "coverage, %",
        "mean sessions",
    ];
    let title = format!(
        "Paired comparison that takes {} to {} sessions of 6 rounds of 5 samples, as their spread asks",
        plan.least, plan.most
    );
    heading(&title, &titles.map(str::to_owned));
    let cases = [(0.0, 0.0), (0.01, 0.0), (0.02, 0.0), (0.03, 0.0), (0.04, 0.0), (0.05, 0.0), (0.01, 0.1)];
    for (session_spread, slow_sessions) in cases {
        let campaign = Plan { sessions: 0, rounds: 6, block: 5, session_spread, slow_sessions };
        let (equal, sessions) = experiments::replicated_verdicts(campaign, plan, 1.0, replicates, SEED);
        let (slower, _) = experiments::replicated_verdicts(campaign, plan, 1.05, replicates, SEED + 1);
        let cells = [
            percent(equal.slower + equal.faster),
            percent(slower.slower),
            percent(slower.faster),
            percent(slower.covered),
            format!("{sessions:.1}"),
        ];
        let states = if slow_sessions > 0.0 { ", a tenth of them 30 % slower" } else { "" };
        row(&format!("sessions ± {:.0} %{states}", session_spread * 100.0), cells.into_iter());
    }
    println!();
}

fn sessions(replicates: usize) {
    let models = [
        ("steady", Noise::Spikes { sigma: SIGMA }, 0.0),
        ("30 % slow sessions", Noise::Spikes { sigma: SIGMA }, 0.3),
        ("states of 20 samples", Noise::States { dwell: 20.0 }, 0.0),
        ("both", Noise::States { dwell: 20.0 }, 0.3),
    ];
    let titles = models.map(|(name, _, _)| format!("{name}: mean ± CV, %"));
    heading("Estimators over 5 sessions of 6 rounds of 5 samples; fast is 100", &titles);
    let found = models.map(|(_, noise, slow)| experiments::estimators(noise, slow, 5, replicates, SEED));
    for (index, name) in ESTIMATORS.iter().enumerate() {
        let cell = |it: &[(f64, f64); 5]| format!("{:.1} ± {:.1}", it[index].0 * 100.0, it[index].1 * 100.0);
        row(name, found.iter().map(cell));
    }
    println!();
    heading("Coverage of the interval over sessions, %", &["named", "found"].map(str::to_owned));
    for sessions in [2, 3, 4, 5, 6, 8, 12] {
        let (found, named) = experiments::session_coverage(sessions, replicates, SEED);
        row(&format!("{sessions} sessions"), [percent(named), percent(found)].into_iter());
    }
}
