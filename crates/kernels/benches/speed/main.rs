//! How near the kernels come to what the machine can do, and what it costs to hand over a job.
//!
//! Run with `cargo bench -p siliconroute-kernels --bench speed`; `-- bandwidth`, `-- policies` or `-- dispatch`
//! prints one part, and `l2=BYTES` tells the size of a core's second-level cache (default 1 MiB).
//! Invariant: what is compared is measured in turns within one run; ratios are taken within a turn.

#![expect(clippy::print_stdout, reason = "the tables are the result")]

mod bandwidth;
mod dispatch;
mod policies;
mod reference_pools;

use std::num::NonZeroUsize;

use siliconroute_kernels::{Kernels, Pool, Spin};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let wants = |part: &str| {
        let parts = ["bandwidth", "policies", "dispatch"];
        !arguments.iter().any(|argument| parts.contains(&argument.as_str()))
            || arguments.iter().any(|argument| argument == part)
    };
    let l2_bytes =
        arguments.iter().find_map(|argument| argument.strip_prefix("l2=")?.parse().ok()).unwrap_or(1 << 20);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    println!("instructions {}, {cores} cores\n", Kernels::detect().instructions());
    if wants("bandwidth") {
        bandwidth::print(l2_bytes)?;
    }
    if wants("policies") {
        policies::print(l2_bytes)?;
    }
    if wants("dispatch") {
        dispatch::print()?;
    }
    Ok(())
}

fn pool(threads: usize, spin: Spin) -> Result<Pool, Box<dyn std::error::Error>> {
    let threads = NonZeroUsize::new(threads).ok_or("a pool needs a thread")?;
    Ok(Pool::builder().threads(threads).spin(spin).build()?)
}

/// Median, and the range without the outer twentieths.
struct Spread {
    median: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        Self { median: at(0.5), low: at(0.05), high: at(0.95) }
    }
}
