//! The matrix-vector product against the limit of reading, for data in memory and in the caches.
//!
//! Invariant: a turn times both on the same data. The limit is the fastest of the ways to read, one stream or four, with
//! and without prefetch; its passes are one job, so that it has no hand-over in it, while each product is a call of its
//! own.

use std::error::Error;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use siliconroute_kernels::{APART, Buffer, Kernels, Policy, Pool, Prefetch, Spin, multiply};

use crate::{Spread, pool};

const COLUMNS: usize = 4096;
const MIB: usize = 1 << 20;
const WAYS: usize = Prefetch::ALL.len();

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
    println!("(p05–p95); * is what the size suggests; a limit is by the way to read that is named\n");
    let names = Prefetch::ALL.map(Prefetch::name).join(" | ");
    println!("| data | MiB on huge pages | threads | read limit GB/s | {names} | limit with hand-overs |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for threads in [1, 2] {
        let places = [
            Place { name: "64 MiB, huge pages", bytes: 64 * MIB, huge_pages: true, passes: 1, turns: 150 },
            Place { name: "64 MiB", bytes: 64 * MIB, huge_pages: false, passes: 1, turns: 100 },
            Place { name: "1 GiB, huge pages", bytes: 1024 * MIB, huge_pages: true, passes: 1, turns: 15 },
            // Where pages lie decides which share of a cache they fit; half of it always does.
            Place {
                name: "½ of L2",
                bytes: threads * l2_bytes / 2,
                huge_pages: true,
                passes: 300,
                turns: 300,
            },
            Place {
                name: "¾ of L2",
                bytes: threads * l2_bytes * 3 / 4,
                huge_pages: true,
                passes: 200,
                turns: 300,
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
    // What is smaller than a huge page lies on a part of one.
    let length = (rows * COLUMNS).max(2 * MIB / size_of::<f32>());
    let buffer = Buffer::filled(pool, length, place.huge_pages, &value)?;
    let values = &buffer.values()[..rows * COLUMNS];
    let on_huge_pages = bytes_on_huge_pages();
    let x = Buffer::filled(pool, APART + COLUMNS, false, &value)?;
    let x = &x.values()[APART..];
    let mut y = Buffer::filled(pool, rows, false, &|_| 0.0)?;
    // The ways to read, then those to multiply, then calls that do nothing.
    let mut times: [Vec<f64>; 2 * WAYS + 1] = Default::default();
    for turn in 0..=place.turns {
        for offset in 0..times.len() {
            let which = (turn + offset) % times.len();
            let prefetch = Prefetch::ALL[which % WAYS];
            let mut run = |passes: usize| -> Result<(), Box<dyn Error>> {
                if which < WAYS {
                    read(pool, kernels, values, passes, prefetch);
                    return Ok(());
                }
                for _ in 0..passes {
                    if which == 2 * WAYS {
                        black_box(pool.parallel_for(rows, Policy::Static, &|rows: Range<usize>| {
                            black_box(rows.start);
                        }));
                    } else {
                        multiply(pool, Policy::Static, kernels, values, x, y.values_mut(), prefetch)?;
                    }
                }
                black_box(&mut y);
                Ok(())
            };
            // What the turn before evicted is read again, and no thread starts asleep.
            run(place.passes / 4)?;
            let start = Instant::now();
            run(place.passes)?;
            // The first turn warms up.
            if turn != 0 {
                times[which].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let chosen = Prefetch::for_size(place.bytes / pool.threads(), l2_bytes);
    let medians = times.each_ref().map(|times| Spread::of(times.clone()).median);
    let limit = (0..WAYS).min_by(|a, b| medians[*a].total_cmp(&medians[*b])).unwrap_or(0);
    let bytes = (size_of_val(values) * place.passes) as f64;
    let huge = on_huge_pages.map_or_else(|| "?".to_owned(), |bytes| format!("{:.0}", bytes / MIB as f64));
    let rate = bytes / medians[limit] / 1e9;
    let way = Prefetch::ALL[limit].name();
    print!("| {} | {huge} | {} | {rate:.1} {way} |", place.name, pool.threads());
    for (prefetch, product) in Prefetch::ALL.iter().zip(&times[WAYS..2 * WAYS]) {
        let shares = times[limit].iter().zip(product).map(|(limit, product)| 100.0 * limit / product);
        let share = Spread::of(shares.collect());
        let mark = if *prefetch == chosen { "*" } else { "" };
        print!(" {:.1}{mark} ({:.1}–{:.1}) |", share.median, share.low, share.high);
    }
    // What is left of the limit when each product is handed over as often as it is called.
    let handed_over =
        times[limit].iter().zip(&times[2 * WAYS]).map(|(limit, calls)| 100.0 * limit / (limit + calls));
    println!(" {:.1} |", Spread::of(handed_over.collect()).median);
    Ok(())
}

/// Bytes of this process that really lie on huge pages, where the system tells.
fn bytes_on_huge_pages() -> Option<f64> {
    let told = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? * 1024.0)
}

fn read(pool: &Pool, kernels: Kernels, values: &[f32], passes: usize, prefetch: Prefetch) {
    pool.parallel_for(values.len() / COLUMNS, Policy::Static, &|rows: Range<usize>| {
        let part = &values[rows.start * COLUMNS..rows.end * COLUMNS];
        for _ in 0..passes {
            black_box(kernels.sum(black_box(part), prefetch));
        }
    });
}
