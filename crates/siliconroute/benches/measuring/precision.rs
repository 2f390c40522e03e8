//! What a known precision costs: sampling until ± 2 % against a fixed loop of 1,000 calls.
//!
//! Invariant: both sides are whole trials of one target in one warm worker, session creation included, in turns.

use std::error::Error;
use std::time::{Duration, Instant};

use siliconroute::campaign::{Sampling, Workers};
use siliconroute::catalogue::Catalogue;
use siliconroute::event::Silent;
use siliconroute_core::statistics;
use siliconroute_core::trial::{Measurement, Sample};

use crate::arguments::Arguments;
use crate::figures::{Ratios, load};
use crate::quiet::Quiet;
use crate::subject::{Subject, open, process_launcher};

const ITERATIONS: u32 = 1000;
const PRECISION: f64 = 0.02;

struct Side {
    wall_s: f64,
    half_width: f64,
    samples: usize,
}

pub(crate) fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let home = arguments.home.as_ref().ok_or("name a home with --home or SILICONROUTE_HOME")?;
    let router = open(home)?;
    let targets = router.targets(&mut Silent)?;
    let found = targets.resolve(&arguments.target)?;
    let catalogue: Vec<&str> =
        Catalogue::embedded().models().iter().map(|model| model.name.as_str()).collect();
    let (here, missing): (Vec<&str>, Vec<&str>) =
        catalogue.into_iter().partition(|name| router.models().is_here(name));
    let runs = arguments.runs.unwrap_or(5);
    // Without a budget that would end it early.
    let adaptive = Sampling {
        precision: PRECISION,
        budget: Duration::from_mins(1),
        hard_limit: Duration::from_mins(1),
        ..Sampling::default()
    };
    // The loop that everyone writes: a few calls to warm up, then all of them in one go.
    let fixed = Sampling {
        warmup_time: Duration::ZERO,
        rounds: 1,
        cool_down: Duration::ZERO,
        hard_limit: Duration::from_mins(5),
        fixed_iterations: Some(ITERATIONS),
        ..Sampling::default()
    };
    println!(
        "wall time of a trial at ± 2 % over that of {ITERATIONS} calls, on {}, {}",
        arguments.target,
        load()
    );
    println!("models of the catalogue that are not in this home: {}", missing.len());
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>8} {:>8}  ratio",
        "model", "adaptive", "fixed", "samples", "±", "± fixed"
    );
    let launcher = process_launcher()?;
    let mut quiet = Quiet::new(arguments.patience);
    let (mut ratios, mut all, mut precise) = (Vec::new(), 0, 0);
    for name in arguments.models_or(&here) {
        let subject = Subject::find(&router, &name)?;
        let mut workers = Workers::new(&launcher);
        workers.get(&found, adaptive.deadline)?;
        let mut turn = |sampling: &Sampling, seed: u64| {
            let start = Instant::now();
            let measured = subject.measure_alone(&mut workers, &found, sampling, seed)?;
            side(start.elapsed(), &measured)
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for run in 0..runs as u64 {
            quiet.wait();
            // The order alternates, so that drift hits both alike.
            if run % 2 == 0 {
                ours.push(turn(&adaptive, run)?);
                theirs.push(turn(&fixed, run)?);
            } else {
                theirs.push(turn(&fixed, run)?);
                ours.push(turn(&adaptive, run)?);
            }
        }
        let of: Vec<f64> =
            ours.iter().zip(&theirs).map(|(ours, theirs)| ours.wall_s / theirs.wall_s).collect();
        let median = |sides: &[Side], value: fn(&Side) -> f64| {
            statistics::median(&sides.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        println!(
            "{name:<16} {:>7.2} s {:>7.2} s {:>9} {:>6.2} % {:>6.2} %  {}",
            median(&ours, |side| side.wall_s),
            median(&theirs, |side| side.wall_s),
            median(&ours, |side| side.samples as f64),
            median(&ours, |side| side.half_width) * 100.0,
            median(&theirs, |side| side.half_width) * 100.0,
            Ratios(&of),
        );
        all += runs;
        precise += ours.iter().filter(|side| side.half_width <= PRECISION).count();
        ratios.push(statistics::median(&of).ok_or("no run")?);
    }
    println!(
        "median over models: {}; {precise} of {all} trials within ± 2 %; {}, {}",
        Ratios(&ratios),
        quiet.told(),
        load()
    );
    Ok(())
}

fn side(wall: Duration, measured: &Measurement) -> Result<Side, Box<dyn Error>> {
    let times: Vec<f64> = measured.samples.iter().map(Sample::per_call_ns).collect();
    let center = statistics::estimate_center(&times).ok_or("no sample")?;
    let half_width = center.interval.map_or(f64::INFINITY, |it| it.relative_half_width(center.median));
    Ok(Side { wall_s: wall.as_secs_f64(), half_width, samples: times.len() })
}
