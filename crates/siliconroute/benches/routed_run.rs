//! What a routed run adds to a bare session run, both on the same model in interleaved blocks of one run.
//!
//! Run with `cargo bench -p siliconroute --bench routed_run`; prints medians and their difference.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::collections::BTreeMap;
use std::time::Instant;

use siliconroute::event::Silent;
use siliconroute::models::Given;
use siliconroute::run::Routing;
use siliconroute::settings::Settings;
use siliconroute::{Options, Router, inputs};
use siliconroute_core::TargetKey;
use siliconroute_engine::ThreadOptions;
use siliconroute_engine::rten::RtenEngine;
use siliconroute_engine::session::{Engine as _, SessionRequest};

const BLOCKS: usize = 400;
const CALLS: u32 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let home = folder.path().to_owned();
    let settings = Settings::resolve(&home, Vec::new(), &BTreeMap::from([("offline", "true".to_owned())]))?;
    // Targets are found in workers of this very program, so it must be able to be one.
    if std::env::args().nth(1).as_deref() == Some(siliconroute::router::WORKER_ARGUMENT) {
        return Ok(siliconroute::worker::run_worker()?);
    }
    let router = Router::open(Options::new(home, settings))?;
    let targets = router.targets(&mut Silent)?;
    let learned = router.learn(&targets)?;
    let routing = Routing { target: Some(TargetKey("cpu/rten".to_owned())), ..Routing::default() };
    println!("{:<14} {:>12} {:>12} {:>12}", "model", "bare", "routed", "added");
    for name in ["mlp-16w-1l", "mlp-128w-4l"] {
        let model = router.find_model(name, &mut Silent)?;
        let case = router.models().case(&model, &Given::default())?;
        let values = inputs::generate(&case.facts.inputs, &model.recipes, 1)?;
        let mut routed = router.open_session(&model, &case, &targets, &learned, &routing)?;
        routed.set_inputs(values.clone())?;
        let mut bare = RtenEngine.create_session(
            &TargetKey("cpu/rten".to_owned()),
            &SessionRequest {
                model: &model.path,
                inputs: &model.facts.inputs,
                outputs: &model.facts.outputs,
                bindings: &case.bindings,
                threads: &ThreadOptions::default(),
                compile_cache: None,
            },
        )?;
        bare.set_inputs(&values)?;
        let (mut bare_ns, mut routed_ns) = (Vec::new(), Vec::new());
        for block in 0..BLOCKS {
            // The order alternates, so that drift hits both alike.
            for turn in 0..2 {
                let start = Instant::now();
                let of_bare = (block + turn) % 2 == 0;
                for _ in 0..CALLS {
                    if of_bare { bare.run()? } else { routed.run()? }
                }
                let per_call = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
                if of_bare { bare_ns.push(per_call) } else { routed_ns.push(per_call) }
            }
        }
        let (bare, routed) = (median(&mut bare_ns), median(&mut routed_ns));
        let mut added: Vec<f64> =
            bare_ns.iter().zip(&routed_ns).map(|(bare, routed)| routed - bare).collect();
        println!("{name:<14} {bare:>9.0} ns {routed:>9.0} ns {:>9.0} ns", median(&mut added));
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
