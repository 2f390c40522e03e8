//! The matrix-vector product against the limit of reading, for data in memory and in the caches.
//!
//! Invariant: a turn times both on the same data. The limit is the better of reading with and without prefetch; its
//! passes are one job, so that it has no hand-over in it, while each product is a call of its own.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use siliconroute_kernels::{Buffer, Kernels, Policy, Pool, Prefetch, Spin, multiply};

use crate::{Spread, pool};

const COLUMNS: usize = 4096;
const MIB: usize = 1 << 20;

struct Place {
    name: &'static str,
    bytes: usize,
    huge_pages: bool,
    passes: usize,
    turns: usize,
}

pub(crate) fn print(l2_bytes: usize) -> Result<(), Box<dyn Error>> {
    println!(
        "matrix-vector product, {COLUMNS} columns, fp32: percent of the read limit in the same turn, median"
    );
    println!("(p05–p95); * is what the size suggests\n");
    let names = Prefetch::ALL.map(Prefetch::name).join(" | ");
    println!("| data | threads | read limit GB/s | {names} |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for threads in [1, 2] {
        let places = [
            Place { name: "64 MiB, huge pages", bytes: 64 * MIB, huge_pages: true, passes: 1, turns: 150 },
            Place { name: "64 MiB", bytes: 64 * MIB, huge_pages: false, passes: 1, turns: 100 },
            Place { name: "1 GiB, huge pages", bytes: 1024 * MIB, huge_pages: true, passes: 1, turns: 15 },
            Place {
                name: "¾ of L2",
                bytes: threads * l2_bytes * 3 / 4,
                huge_pages: true,
                passes: 200,
                turns: 150,
            },
        ];
        let pool = pool(threads, Spin::Auto)?;
        for place in places {
            print_row(&place, &pool, l2_bytes)?;
        }
    }
    println!();
    Ok(())
}

fn print_row(place: &Place, pool: &Pool, l2_bytes: usize) -> Result<(), Box<dyn Error>> {
    let kernels = Kernels::detect();
    let rows = place.bytes / (COLUMNS * size_of::<f32>());
    let value = |index: usize| (index % 251) as f32 / 251.0 - 0.5;
    let buffer = Buffer::filled(pool, rows * COLUMNS, place.huge_pages, &value)?;
    let x: Vec<f32> = (0..COLUMNS).map(value).collect();
    let mut y = vec![0.0; rows];
    // Two ways to read, then three to multiply.
    let mut times: [Vec<f64>; 5] = Default::default();
    for turn in 0..=place.turns {
        for offset in 0..times.len() {
            let which = (turn + offset) % times.len();
            let start = Instant::now();
            match which {
                0 => read(pool, kernels, buffer.values(), place.passes, Prefetch::Off),
                1 => read(pool, kernels, buffer.values(), place.passes, Prefetch::Ahead),
                _ => {
                    let prefetch = Prefetch::ALL[which - 2];
                    for _ in 0..place.passes {
                        multiply(pool, Policy::Static, kernels, buffer.values(), &x, &mut y, prefetch)?;
                    }
                    black_box(&mut y);
                }
            }
            // The first turn warms up.
            if turn != 0 {
                times[which].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let chosen = Prefetch::for_size(place.bytes / pool.threads(), l2_bytes);
    let medians = times.each_ref().map(|times| Spread::of(times.clone()).median);
    let limit = usize::from(medians[1] < medians[0]);
    let bytes = (size_of_val(buffer.values()) * place.passes) as f64;
    print!("| {} | {} | {:.1} |", place.name, pool.threads(), bytes / medians[limit] / 1e9);
    for (prefetch, product) in Prefetch::ALL.iter().zip(&times[2..]) {
        let shares = times[limit].iter().zip(product).map(|(limit, product)| 100.0 * limit / product);
        let share = Spread::of(shares.collect());
        let mark = if *prefetch == chosen { "*" } else { "" };
        print!(" {:.1}{mark} ({:.1}–{:.1}) |", share.median, share.low, share.high);
    }
    println!();
    Ok(())
}

fn read(pool: &Pool, kernels: Kernels, values: &[f32], passes: usize, prefetch: Prefetch) {
    pool.parallel_for(values.len() / COLUMNS, Policy::Static, &|rows: Range<usize>| {
        let part = &values[rows.start * COLUMNS..rows.end * COLUMNS];
        for _ in 0..passes {
            black_box(kernels.sum(black_box(part), prefetch));
        }
    });
}
