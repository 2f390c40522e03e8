//! How often a comparison of measured targets is right: a target with itself, and with one made 5 % slower.
//!
//! Invariant: every verdict comes from real sessions that the campaign sampled in interleaved rounds.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use siliconroute::campaign::{Sampling, Workers};
use siliconroute::discovery::Found;
use siliconroute_core::statistics::{Comparison, PairedRound, Verdict, compare_paired};
use siliconroute_core::trial::Measurement;

use crate::arguments::Arguments;
use crate::figures::{Ratios, load};
use crate::in_process::InProcess;
use crate::subject::{Subject, open};

/// Sessions of either target: both loaded anew.
const SESSIONS: u32 = 8;
/// Rounds in a session, each with a block of either target.
const ROUNDS: u32 = 6;
/// Samples in a block.
const SAMPLES: u32 = 5;

const SELF: &str = "cpu/rten";
const AGAIN: &str = "cpu/rten-again";
const SLOWED: &str = "cpu/rten-slowed";
const SLOWED_BY: f64 = 0.05;

/// Sampling of one session: exactly the rounds and samples of the design.
fn sampling() -> Sampling {
    Sampling {
        min_samples: ROUNDS * SAMPLES,
        rounds: ROUNDS,
        budget: Duration::ZERO,
        warmup_time: Duration::from_millis(100),
        ..Sampling::default()
    }
}

pub(crate) fn report(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let router = open(folder.path())?;
    let runs = arguments.runs.unwrap_or(20);
    let launcher = InProcess::new(&[(SELF, 0.0), (AGAIN, 0.0), (SLOWED, SLOWED_BY)]);
    println!("{runs} comparisons of {SESSIONS} sessions × {ROUNDS} rounds × {SAMPLES} samples, {}", load());
    for name in arguments.models_or(&["mlp-256w-4l"]) {
        let subject = Subject::find(&router, &name)?;
        let (mut same, mut slowed) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for run in 0..runs as u64 {
            for (other, found) in [(AGAIN, &mut same), (SLOWED, &mut slowed)] {
                let pair = [InProcess::found(SELF), InProcess::found(other)];
                found.push(compare(&subject, &launcher, &pair, run)?);
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
        println!("{name}: a comparison took {each_s:.1} s; {}", load());
    }
    Ok(())
}

fn compare(
    subject: &Subject,
    launcher: &InProcess,
    pair: &[Found; 2],
    run: u64,
) -> Result<Comparison, Box<dyn Error>> {
    let mut sessions = Vec::new();
    for session in 0..SESSIONS {
        let mut workers = Workers::new(launcher);
        let seed = run << 8 | u64::from(session);
        sessions.push(subject.measure(&mut workers, &[&pair[0], &pair[1]], &sampling(), seed)?);
    }
    let mut blocks: Vec<(u32, Vec<f64>, Vec<f64>)> = Vec::new();
    for (session, measured) in (0..).zip(&sessions) {
        let [first, second] = measured.as_slice() else { return Err("a target gave no measurement".into()) };
        let mut second = by_round(second);
        for (round, first) in by_round(first) {
            blocks.push((session, first, second.remove(&round).unwrap_or_default()));
        }
    }
    let rounds: Vec<PairedRound<'_>> = blocks
        .iter()
        .map(|(session, first, second)| PairedRound { session: *session, first, second })
        .collect();
    Ok(compare_paired(&rounds).ok_or("no round can be compared")?)
}

fn by_round(measured: &Measurement) -> BTreeMap<u32, Vec<f64>> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in &measured.samples {
        rounds.entry(sample.round).or_default().push(sample.per_call_ns());
    }
    rounds
}
