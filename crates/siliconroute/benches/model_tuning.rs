//! How near the search for a model's thread settings comes to an exhaustive sweep, and in which part of its time:
//! `cargo bench -p siliconroute --bench model_tuning -- HOME MODEL…`, on ONNX Runtime's CPU provider.
//!
//! Invariant: what the search found is compared with the sweep's best in fresh sessions, since the best of many noisy
//! times looks better than it is; figures are ratios within one run, printed and never asserted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use siliconroute::compare::compare_targets;
use siliconroute::event::Silent;
use siliconroute::measure::{Job, Order};
use siliconroute::model_tuning::TuneModel;
use siliconroute::models::Given;
use siliconroute::settings::Settings;
use siliconroute::{Options, Router};
use siliconroute_core::statistics::Replication;
use siliconroute_core::target::SessionSettings;
use siliconroute_core::trial::{Preparation, Purpose};
use siliconroute_core::{TargetKey, Workload};

/// Rounds of every combination in the sweep: as many as the search takes of those that it does not give up.
const ROUNDS: u32 = 10;
/// Sessions in which the search's result and the sweep's best are compared.
const SESSIONS: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench").peekable();
    // Workers are this very program, so it must be able to be one.
    if words.peek().map(String::as_str) == Some(siliconroute::router::WORKER_ARGUMENT) {
        return Ok(siliconroute::worker::run_worker()?);
    }
    let Some(home) = words.next() else {
        println!("give a home with ONNX Runtime, and models: `-- HOME MODEL…`");
        return Ok(());
    };
    let flags = BTreeMap::from([("offline", "true".to_owned())]);
    let settings = Settings::resolve(Path::new(&home), Vec::new(), &flags)?;
    let router = Router::open(Options::new(home.into(), settings))?;
    for model in words {
        report(&router, &model)?;
    }
    Ok(())
}

fn report(router: &Router, name: &str) -> Result<(), Box<dyn Error>> {
    let model = router.find_model(name, &mut Silent)?;
    let case = router.models().case(&model, &Given::default())?;
    let targets = router.targets(&mut Silent)?;
    let target = TargetKey("cpu/ort".to_owned());
    // The least comparison with the defaults, which is no part of what is timed.
    let replication = Some(Replication { difference: 0.5, least: 2, most: 2 });
    let order = TuneModel { targets: vec![target.clone()], replication, ..TuneModel::default() };
    let tuning = router.tune_model(&model, &case, &targets, &order, &mut Silent)?;
    let Some(tuned) = tuning.targets.first() else {
        return Err(format!("{name} cannot be tuned: {:?}", tuning.refused).into());
    };
    let sweep = router.sweep_model(&model, &case, &targets, (&target, ROUNDS), &mut Silent)?;
    let best = sweep
        .tried
        .iter()
        .filter_map(|tried| Some((tried, tried.ratio?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .ok_or("the sweep measured nothing")?;
    let plain = targets.get(target.as_str())?.target.clone();
    let best_key = SessionSettings::of_cpu(best.0.settings.clone()).apply(plain).key;
    let sweep_s = sweep.took.as_secs_f64();
    println!(
        "{}: search {:.1} s for {} of {} combinations, sweep {sweep_s:.1} s: {:.0} % of its time",
        case.label(),
        tuned.search_s,
        tuned.tried.len(),
        sweep.tried.len(),
        100.0 * tuned.search_s / sweep_s
    );
    println!("  found {}; best of the sweep {best_key} at {:.3} of the defaults", tuned.found, best.1);
    if tuned.found == best_key {
        println!("  they are the same");
        return Ok(());
    }
    let job = Job {
        model: model.clone(),
        case: case.clone(),
        workload: Workload::Sustained,
        targets: vec![best_key.clone(), tuned.found.clone()],
    };
    let sampling = router.sampling().for_comparison();
    let order = Order::new(Purpose::Bench, &sampling);
    let measured = router.measure(&vec![job; SESSIONS], &targets, &order, &mut Silent)?;
    let how = (Workload::Sustained, Preparation::Running);
    let comparison = compare_targets(&measured.trials, case.id, how, &tuned.found, &best_key)
        .ok_or("one of the two has no measurement")?;
    println!(
        "  the found one takes {:.3} times the time of the sweep's best in {SESSIONS} fresh sessions, interval {:?}",
        comparison.ratio, comparison.interval
    );
    Ok(())
}
