//! The matrix-vector product under each of the policies, beside rayon with as many threads.
//!
//! Invariant: all take turns in one run with the same kernel on the same data; a ratio is taken within a turn, and is
//! that of a policy's time to rayon's.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use siliconroute_kernels::{APART, Buffer, Kernels, Policy, Prefetch, Spin, multiply};

use crate::{Spread, pool};

const COLUMNS: usize = 4096;
/// Passes of one sample over what lies in a cache.
const PASSES: usize = 100;

/// Data that is multiplied.
struct Place {
    name: &'static str,
    bytes: usize,
    passes: usize,
    turns: usize,
}

pub(crate) fn print(l2_bytes: usize) -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism()?.get().min(2);
    println!(
        "matrix-vector product, {COLUMNS} columns, fp32, {threads} threads, held nowhere: median (p05–p95)\n"
    );
    println!("| data | policy | GB/s | ratio to rayon |");
    println!("| --- | --- | ---: | ---: |");
    let places = [
        Place { name: "64 MiB, huge pages", bytes: 64 << 20, passes: 1, turns: 150 },
        Place { name: "½ of L2", bytes: threads * l2_bytes / 2, passes: PASSES, turns: 150 },
    ];
    for place in places {
        print_rows(&place, threads, l2_bytes)?;
    }
    println!();
    Ok(())
}

fn print_rows(place: &Place, threads: usize, l2_bytes: usize) -> Result<(), Box<dyn Error>> {
    let pool = pool(threads, Spin::Auto)?;
    let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let kernels = Kernels::detect();
    let rows = place.bytes / (COLUMNS * size_of::<f32>());
    let value = |index: usize| (index % 251) as f32 / 251.0 - 0.5;
    let length = (rows * COLUMNS).max((2 << 20) / size_of::<f32>());
    let buffer = Buffer::filled(&pool, length, true, &value)?;
    let values = &buffer.values()[..rows * COLUMNS];
    let x = Buffer::filled(&pool, APART + COLUMNS, false, &value)?;
    let x = &x.values()[APART..];
    let mut y = Buffer::filled(&pool, rows, false, &|_| 0.0)?;
    let prefetch = Prefetch::for_size(place.bytes / threads, l2_bytes);
    let share = rows.div_ceil(threads);
    let mut times = vec![Vec::new(); Policy::ALL.len() + 2];
    for turn in 0..=place.turns {
        for offset in 0..times.len() {
            let which = (turn + offset) % times.len();
            let mut start = Instant::now();
            // The first ones read again what the turn before evicted, so that no thread starts asleep.
            for pass in 0..place.passes + place.passes / 4 {
                if pass == place.passes / 4 {
                    start = Instant::now();
                }
                if let Some(policy) = Policy::ALL.get(which) {
                    multiply(&pool, *policy, kernels, values, x, y.values_mut(), prefetch)?;
                    continue;
                }
                // As one part for each thread, and as rayon cuts by itself.
                let least = if which == Policy::ALL.len() { share } else { 4 };
                rayon.install(|| {
                    let parts = values.par_chunks(least * COLUMNS).zip(y.values_mut().par_chunks_mut(least));
                    parts.try_for_each(|(part, y)| kernels.multiply(part, x, y, prefetch))
                })?;
            }
            black_box(&mut y);
            // The first turn warms up.
            if turn != 0 {
                times[which].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let bytes = (size_of_val(values) * place.passes) as f64;
    let names = Policy::ALL.map(|policy| policy.name().to_owned()).into_iter();
    let names = names.chain(["rayon, one part a thread".to_owned(), "rayon, parts of 4 rows".to_owned()]);
    let own = &times[Policy::ALL.len()];
    for (name, times) in names.zip(&times) {
        let rate = Spread::of(times.iter().map(|seconds| bytes / seconds / 1e9).collect());
        let ratio = Spread::of(times.iter().zip(own).map(|(time, rayon)| time / rayon).collect());
        println!(
            "| {} | {name} | {:.1} ({:.1}–{:.1}) | {:.2} ({:.2}–{:.2}) |",
            place.name, rate.median, rate.low, rate.high, ratio.median, ratio.low, ratio.high
        );
    }
    Ok(())
}
