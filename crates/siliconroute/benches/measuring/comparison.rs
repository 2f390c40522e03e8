//! How often a comparison of measured targets is right: a target with itself, and with one made 5 % slower.
//!
//! Invariant: every verdict comes from real sessions that the campaign sampled in interleaved rounds.

use std::error::Error;
use std::time::Instant;

use siliconroute::campaign::{Sampling, Workers};
use siliconroute::compare::compare_targets;
use siliconroute::discovery::Found;
use siliconroute_core::Workload;
use siliconroute_core::statistics::{Comparison, Replication, Verdict};
use siliconroute_core::trial::Preparation;

use crate::arguments::Arguments;
use crate::figures::{Ratios, load};
use crate::in_process::InProcess;
use crate::quiet::Quiet;
use crate::subject::{Subject, open};

const SELF: &str = "cpu/rten";
const AGAIN: &str = "cpu/rten-again";
const SLOWED: &str = "cpu/rten-slowed";
const SLOWED_BY: f64 = 0.05;

pub(crate) fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let router = open(folder.path())?;
    let runs = arguments.runs.unwrap_or(20);
    let launcher = InProcess::new(&[(SELF, 0.0), (AGAIN, 0.0), (SLOWED, SLOWED_BY)]);
    let mut quiet = Quiet::new(arguments.patience);
    let mut sampling = Sampling::default().for_comparison();
    if let Some((rounds, samples)) = arguments.design {
        (sampling.rounds, sampling.min_samples) = (rounds, rounds * samples);
    }
    let replication = Replication::default();
    println!(
        "{runs} comparisons of {} to {} sessions of {} rounds with {} samples in all, {}",
        replication.least,
        replication.most,
        sampling.rounds,
        sampling.min_samples,
        load(),
    );
    for name in arguments.models_or(&["mlp-256w-4l"]) {
        let subject = Subject::find(&router, &name)?;
        let (mut same, mut slowed) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for run in 0..runs as u64 {
            quiet.wait();
            for (other, found) in [(AGAIN, &mut same), (SLOWED, &mut slowed)] {
                let pair = [InProcess::found(SELF), InProcess::found(other)];
                found.push(compare(&subject, &launcher, &pair, &sampling, run)?);
            }
        }
        let each_s = start.elapsed().as_secs_f64() / (2 * runs) as f64;
        let count = |found: &[Comparison], is: fn(&Verdict) -> bool| {
            found.iter().filter(|comparison| is(&comparison.verdict)).count()
        };
        println!(
            "{name}: with itself not separable in {} of {runs}, ratio {}; spread between sessions {}",
            count(&same, |verdict| matches!(verdict, Verdict::NotSeparable)),
            Ratios(&same.iter().map(|it| it.ratio).collect::<Vec<_>>()),
            Ratios(&same.iter().filter_map(|it| it.session_spread).collect::<Vec<_>>()),
        );
        println!(
            "{name}: against 5 % slower faster in {} of {runs}, slower in {}, ratio {}; spread between sessions {}",
            count(&slowed, |verdict| matches!(verdict, Verdict::Faster { .. })),
            count(&slowed, |verdict| matches!(verdict, Verdict::Slower { .. })),
            Ratios(&slowed.iter().map(|it| it.ratio).collect::<Vec<_>>()),
            Ratios(&slowed.iter().filter_map(|it| it.session_spread).collect::<Vec<_>>()),
        );
        let sessions: Vec<f64> = same.iter().chain(&slowed).map(|it| it.sessions as f64).collect();
        println!(
            "{name}: a comparison took {each_s:.1} s and {} sessions; {}, {}",
            Ratios(&sessions),
            quiet.told(),
            load()
        );
    }
    Ok(())
}

fn compare(
    subject: &Subject,
    launcher: &InProcess,
    pair: &[Found; 2],
    sampling: &Sampling,
    run: u64,
) -> Result<Comparison, Box<dyn Error>> {
    let [first, second] = pair;
    let (mut trials, mut sessions) = (Vec::new(), 0);
    let mut more = Replication::default().least;
    loop {
        for _ in 0..more {
            let mut workers = Workers::new(launcher);
            trials.extend(subject.measure(&mut workers, &[first, second], sampling, run << 8 | sessions));
            sessions += 1;
        }
        let how = (Workload::Sustained, Preparation::Running);
        let found = compare_targets(&trials, subject.case.id, how, &first.target.key, &second.target.key);
        let found = found.ok_or("the two were never measured side by side")?;
        more = Replication::default().more(&found);
        if more == 0 {
            return Ok(found);
        }
    }
}
