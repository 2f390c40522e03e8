//! How long a tuning takes and how good its choice is, on a quiet machine and beside a process that keeps one core busy.
//!
//! Invariant: a choice is judged by an exhaustive sweep of the same run, which measures every configuration in every
//! round, in a new order each time, after a run that does not count; medians and ranges are printed, nothing is asserted.
//!
//! `cargo bench -p siliconroute-kernels --bench tuning [-- --runs 20]`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its result and may stop anywhere"
)]

use std::collections::{BTreeMap, HashMap};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use siliconroute_core::statistics::{median, quantile};
use siliconroute_kernels::Policy;
use siliconroute_kernels::tuner::{
    Bounds, Configuration, HoldThread, Machine as _, MatrixWork, Place, Room, search,
};

const SWEEP_ROUNDS: usize = 300;
const LOAD: &str = "keep-one-core-busy";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == LOAD) {
        loop {
            std::hint::spin_loop();
        }
    }
    let given = arguments.iter().position(|argument| argument == "--runs");
    let runs = given.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(20);
    let places = places();
    // A choice is used by threads that the system places.
    let free: Vec<Place> = places.iter().map(|place| Place { order: Vec::new(), ..place.clone() }).collect();
    let quiet = apart(|| sweep(&free));
    show_sweep("exhaustive sweep, quiet", &quiet);
    report("quiet", &repeat(&places, runs), &quiet, None);
    let load = Load::start();
    let busy = apart(|| sweep(&free));
    show_sweep("exhaustive sweep, one core busy", &busy);
    let found = repeat(&places, runs);
    drop(load);
    report("one core busy", &found, &quiet, Some(&busy));
}

/// A process that spins until it is dropped.
struct Load(Child);

impl Load {
    fn start() -> Self {
        let process = Command::new(std::env::current_exe().unwrap()).arg(LOAD).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        Self(process)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// All cores as equal ones, on which threads can be held where there is a program for it.
fn places() -> Vec<Place> {
    let room = Room::uniform(std::thread::available_parallelism().map_or(1, Into::into));
    let holds_threads = std::thread::spawn(|| hold(&[0]).is_ok()).join().unwrap();
    println!("threads are {}held on CPUs while they are measured", if holds_threads { "" } else { "not " });
    Room { holds_threads, ..room }.places(16)
}

/// Holds the calling thread; this crate has no system code, so a program does it.
fn hold(cpus: &[u32]) -> Result<(), String> {
    let thread = std::fs::read_link("/proc/thread-self").map_err(|error| error.to_string())?;
    let thread = thread.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let ran = Command::new("taskset").args(["-pc", &list.join(","), &thread]).output();
    match ran {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs `job` in a thread of its own, which ends wherever it was held.
fn apart<T: Send>(job: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(job).join().unwrap())
}

fn prepare(places: &[Place]) -> MatrixWork {
    let hold: HoldThread = Arc::new(hold);
    MatrixWork::prepare(places, hold).unwrap()
}

type Sweep = BTreeMap<Configuration, Vec<f64>>;

/// Seconds of every configuration, in rounds that begin elsewhere each time.
fn sweep(places: &[Place]) -> Sweep {
    let mut work = prepare(places);
    let mut all: Vec<Configuration> = Vec::new();
    for (place, at) in places.iter().enumerate() {
        for threads in at.least_threads..=at.most_threads {
            let threads = threads.try_into().unwrap();
            all.extend(Policy::ALL.map(|policy| Configuration { place, threads, policy }));
        }
    }
    let mut times = Sweep::new();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..SWEEP_ROUNDS {
        for left in (1..all.len()).rev() {
            // Marsaglia, "Xorshift RNGs" (2003), and the shuffle of Fisher and Yates.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            all.swap(left, (random % (left as u64 + 1)) as usize);
        }
        for configuration in &all {
            // The run before was another configuration's; what counts is the second of two.
            work.measure(configuration).unwrap();
            times.entry(*configuration).or_default().push(work.measure(configuration).unwrap());
        }
    }
    times
}

fn show_sweep(title: &str, sweep: &Sweep) {
    println!("{title}: {SWEEP_ROUNDS} rounds, ms");
    for (configuration, times) in sweep {
        let (low, middle, high) = spread(times);
        println!(
            "  {:2} {:14} p10 {:7.3}  median {:7.3}  p90 {:7.3}",
            configuration.threads,
            configuration.policy.name(),
            low * 1e3,
            middle * 1e3,
            high * 1e3
        );
    }
}

fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |p| quantile(&sorted, p).unwrap();
    (at(0.1), at(0.5), at(0.9))
}

struct Run {
    elapsed: Duration,
    prepared: Duration,
    chosen: Configuration,
    tied: Vec<Configuration>,
    rounds: u32,
    settled: bool,
}

fn repeat(places: &[Place], runs: usize) -> Vec<Run> {
    (0..runs)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            apart(|| tune(places))
        })
        .collect()
}

fn tune(places: &[Place]) -> Run {
    let begin = Instant::now();
    let mut work = prepare(places);
    let prepared = begin.elapsed();
    let found = search(&mut work, places, &Bounds::default()).unwrap();
    Run {
        elapsed: begin.elapsed(),
        prepared,
        chosen: found.chosen,
        tied: found.tied,
        rounds: found.rounds,
        settled: found.settled,
    }
}

fn report(title: &str, runs: &[Run], quiet: &Sweep, busy: Option<&Sweep>) {
    let milliseconds: Vec<f64> = runs.iter().map(|run| run.elapsed.as_secs_f64() * 1e3).collect();
    let (low, middle, high) = spread(&milliseconds);
    println!("{title}: {} tunings", runs.len());
    println!("  time                         {middle:6.1} ms (p10 {low:.1}, p90 {high:.1})");
    let prepared: Vec<f64> = runs.iter().map(|run| run.prepared.as_secs_f64() * 1e3).collect();
    println!("  of that, preparing           {:6.1} ms", median(&prepared).unwrap());
    let rounds: Vec<f64> = runs.iter().map(|run| f64::from(run.rounds)).collect();
    let settled = runs.iter().filter(|run| run.settled).count();
    println!(
        "  rounds                       {:6.1}, settled before the time was up in {settled}",
        median(&rounds).unwrap()
    );
    let regret = |name: &str, truth: &BTreeMap<Configuration, f64>| {
        let least = truth.values().copied().fold(f64::INFINITY, f64::min);
        let mut regrets: Vec<f64> =
            runs.iter().map(|run| (truth[&run.chosen] / least - 1.0) * 100.0).collect();
        regrets.sort_by(f64::total_cmp);
        println!(
            "  regret by {name:18} {:6.2} % median, {:.2} % p95, {:.2} % largest",
            quantile(&regrets, 0.5).unwrap(),
            quantile(&regrets, 0.95).unwrap(),
            quantile(&regrets, 1.0).unwrap()
        );
    };
    let medians = |sweep: &Sweep| sweep.iter().map(|(c, times)| (*c, median(times).unwrap())).collect();
    regret("the quiet sweep", &medians(quiet));
    if let Some(busy) = busy {
        regret("the busy sweep", &medians(busy));
    }
    let mut counts: HashMap<Configuration, usize> = HashMap::new();
    for run in runs {
        *counts.entry(run.chosen).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(configuration, count)| (std::cmp::Reverse(*count), *configuration));
    for (configuration, count) in &counts {
        println!(
            "  chosen {count:2} times: {} threads, {}",
            configuration.threads,
            configuration.policy.name()
        );
    }
    let usual = counts[0].0;
    let same = runs.iter().filter(|run| run.tied.contains(&usual)).count();
    println!("  the usual choice, or a tie with it declared: {same} of {}", runs.len());
}
