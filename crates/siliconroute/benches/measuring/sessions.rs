//! How far sessions of one configuration vary, against ONNX Runtime's timing loop in Python.
//!
//! Invariant: sessions of both sides take turns, each in a process of its own, on the same file and values. An estimate of
//! ours joins one session or, with `--each`, the median of several.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use siliconroute::campaign::{Sampling, Workers};
use siliconroute::event::Silent;
use siliconroute::wording::counted;
use siliconroute_core::statistics;
use siliconroute_core::trial::Sample;

use crate::arguments::Arguments;
use crate::estimators::ESTIMATORS;
use crate::figures::{Ratios, Variation, load};
use crate::python_loop::PythonLoop;
use crate::quiet::Quiet;
use crate::subject::{Subject, open, process_launcher};

const MODELS: [&str; 8] = [
    "silero-vad",
    "ocr-cls",
    "orientation",
    "magika",
    "yolov8n-320",
    "mlp-512w-4l",
    "conv-32c-4l",
    "attn-128d-2l",
];

/// The ratios of an estimator's variation to that of the loop, a model each.
#[derive(Default, Clone)]
struct Column {
    by_range: Vec<f64>,
    by_coefficient: Vec<f64>,
}

pub(crate) fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let home = arguments.home.as_ref().ok_or("name a home with --home or SILICONROUTE_HOME")?;
    let router = open(home)?;
    let targets = router.targets(&mut Silent)?;
    let found = targets.resolve(&arguments.target)?;
    let sessions = arguments.runs.unwrap_or(10);
    let launcher = process_launcher()?;
    let mut quiet = Quiet::new(arguments.patience);
    let mut record = arguments.record.as_ref().map(File::create).transpose()?;
    let mut columns = vec![Column::default(); ESTIMATORS.len()];
    println!(
        "range and deviation over {sessions} estimates of {} from {} each, and of the loop in Python, in %",
        arguments.target,
        counted(arguments.each, "session"),
    );
    for name in arguments.models_or(&MODELS) {
        let subject = Subject::find(&router, &name)?;
        let python = PythonLoop::new(&arguments.python, &subject)?;
        let (mut ours, mut theirs): (Vec<Vec<Vec<Sample>>>, Vec<f64>) = (Vec::new(), Vec::new());
        let mut wall_s = 0.0;
        for session in 0..sessions as u64 {
            quiet.wait();
            let round = python.run()?;
            if round.version != found.target.provider_version {
                let (version, own) = (&round.version, &found.target.provider_version);
                return Err(format!("Python has ONNX Runtime {version}, the home {own}").into());
            }
            theirs.push(round.mean_ns());
            let start = Instant::now();
            let mut joined = Vec::new();
            for again in 0..arguments.each as u64 {
                let mut workers = Workers::new(&launcher);
                let seed = session << 8 | again;
                joined.push(subject.measure_alone(&mut workers, &found, &Sampling::default(), seed)?.samples);
            }
            wall_s += start.elapsed().as_secs_f64();
            if let Some(file) = &mut record {
                let line = serde_json::json!({
                    "model": name, "python_ns": round.times_ns, "sessions": joined,
                });
                writeln!(file, "{line}")?;
            }
            ours.push(joined);
        }
        let loops = Variation::of(&theirs).ok_or("too few sessions")?;
        println!(
            "\n{name}: loop {} µs, range {:.2}, deviation {:.2}; an estimate of ours took {:.1} s; {}",
            (statistics::median(&theirs).unwrap_or(f64::NAN) / 10.0).round() / 100.0,
            loops.range * 100.0,
            loops.coefficient * 100.0,
            wall_s / sessions as f64,
            load(),
        );
        for ((label, estimate), column) in ESTIMATORS.iter().zip(&mut columns) {
            let of = |joined: &Vec<Vec<Sample>>| {
                let each: Vec<f64> = joined.iter().filter_map(|samples| estimate(samples)).collect();
                statistics::median(&each)
            };
            let values: Vec<f64> = ours.iter().filter_map(of).collect();
            let own = Variation::of(&values).ok_or("too few sessions")?;
            column.by_range.push(own.range / loops.range);
            column.by_coefficient.push(own.coefficient / loops.coefficient);
            println!(
                "  {label:<24} range {:>6.2} ({:.2} of the loop's)  deviation {:>6.2} ({:.2})",
                own.range * 100.0,
                own.range / loops.range,
                own.coefficient * 100.0,
                own.coefficient / loops.coefficient,
            );
        }
    }
    println!("\nvariation over that of the loop, median over models (range); {}", quiet.told());
    for ((label, _), column) in ESTIMATORS.iter().zip(&columns) {
        let met = column.by_range.iter().filter(|ratio| **ratio <= 0.5).count();
        println!(
            "  {label:<24} by range {}, at most half on {met}; by deviation {}",
            Ratios(&column.by_range),
            Ratios(&column.by_coefficient),
        );
    }
    Ok(())
}
