//! What the CPU is capable of, as far as the tuning's kernels show it: bandwidth by memory level, peak, dispatch.
//!
//! Invariant: a figure is measured with the working set that its level is named for, or it is left out.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Instant;

use siliconroute_core::chip_figure::{ChipFigure, ChipQuantity, MemoryLevel};
use siliconroute_core::statistics::quantile;

use super::Configuration;
use super::matrix_work::{MatrixWork, value};
use crate::{Buffer, Policy, Pool, Prefetch};

/// The version of the method, which kept figures carry.
pub const FIGURES_METHOD: u32 = 3;

/// Samples of each figure, after one that warms up.
const SAMPLES: usize = 5;
/// What one sample takes at least, so that handing over and the clock do not count.
const LEAST_SAMPLE_S: f64 = 0.5e-3;
/// Repetitions in one sample at the most, and how many more are tried at once while too few take too little.
const MOST_TIMES: u32 = 1_000_000;
const LARGEST_STEP: f64 = 16.0;
/// The quantile of the times that gives the figure; see the scores of the search.
const TIME_QUANTILE: f64 = 0.2;
/// Memory is measured beyond the caches by this factor, and beyond no cache at all by [`UNCACHED_BYTES`].
const BEYOND_CACHES: u64 = 4;
const UNCACHED_BYTES: u64 = 256 << 20;
/// The largest working set; where it is less than twice the last cache, memory is left out.
const LARGEST_BYTES: u64 = 1 << 30;
/// Dispatches of one sample, and rounds of multiply-adds.
const DISPATCHES: u32 = 1000;
const ROUNDS: u32 = 20_000;

/// The caches of a machine and what may be used beyond them, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemorySizes {
    /// The first-level data cache of a core.
    pub l1: Option<u64>,
    /// The second-level cache of a core.
    pub l2: Option<u64>,
    /// The largest cache that cores share.
    pub l3: Option<u64>,
    /// The most memory that a measurement may take.
    pub limit: u64,
}

/// One working set, split evenly among the threads.
struct WorkingSet {
    level: MemoryLevel,
    bytes: u64,
    prefetch: Prefetch,
}

impl MemorySizes {
    /// The working sets of so many threads that lie in one level and in no nearer one.
    fn working_sets(&self, threads: usize) -> Vec<WorkingSet> {
        let threads = threads as u64;
        let of_all = |size: Option<u64>| size.map(|size| size.saturating_mul(threads));
        let mut sets = Vec::new();
        if let Some(l1) = of_all(self.l1) {
            sets.push(WorkingSet { level: MemoryLevel::L1, bytes: l1 / 2, prefetch: Prefetch::Near });
        }
        if let Some(l2) =
            of_all(self.l2).filter(|l2| *l2 / 2 >= of_all(self.l1).unwrap_or(0).saturating_mul(2))
        {
            sets.push(WorkingSet { level: MemoryLevel::L2, bytes: l2 / 2, prefetch: Prefetch::Near });
        }
        let nearer = of_all(self.l2).or(of_all(self.l1)).unwrap_or(0);
        if let Some(l3) = self.l3.filter(|l3| *l3 / 2 >= nearer.saturating_mul(2)) {
            sets.push(WorkingSet {
                level: MemoryLevel::L3,
                bytes: l3 / 2,
                prefetch: Prefetch::for_size(usize::MAX, 0),
            });
        }
        if let Some(bytes) = self.memory_bytes() {
            sets.push(WorkingSet {
                level: MemoryLevel::Memory,
                bytes,
                prefetch: Prefetch::for_size(usize::MAX, 0),
            });
        }
        sets
    }

    /// A working set that lies in memory alone; none where that takes too much.
    fn memory_bytes(&self) -> Option<u64> {
        let last = self.l3.or(self.l2);
        let wanted = last.map_or(UNCACHED_BYTES, |last| last.saturating_mul(BEYOND_CACHES));
        let bytes = wanted.max(MatrixWork::BYTES as u64).min(LARGEST_BYTES).min(self.limit);
        (bytes >= last.map_or(UNCACHED_BYTES, |last| last.saturating_mul(2))).then_some(bytes)
    }
}

impl MatrixWork {
    /// Measures the figures at the place of `chosen`, with one thread, with its threads, and with all that fit there.
    ///
    /// What cannot be measured, for want of memory, threads or known caches, is left out.
    pub fn measure_figures(&mut self, sizes: &MemorySizes, chosen: &Configuration) -> Vec<ChipFigure> {
        let place = chosen.place;
        let most = self.place(place).and_then(|place| NonZeroUsize::new(place.most_threads));
        let mut counts = vec![NonZeroUsize::MIN, chosen.threads, most.unwrap_or(chosen.threads)];
        counts.sort_unstable();
        counts.dedup();
        let largest =
            counts.iter().flat_map(|count| sizes.working_sets(count.get())).map(|set| set.bytes).max();
        let buffer = largest.and_then(|bytes| {
            let pool = self.pool(place, chosen.threads).ok()?;
            Buffer::filled(pool, bytes as usize / size_of::<f32>(), true, &value).ok()
        });
        let kernels = self.kernels;
        let mut figures = Vec::new();
        for threads in counts {
            let Ok(pool) = self.pool(place, threads) else { continue };
            let figure = Figure { pool, threads };
            for set in buffer.iter().flat_map(|_| sizes.working_sets(threads.get())) {
                let values = buffer.as_ref().map(Buffer::values).unwrap_or_default();
                let share = set.bytes as usize / size_of::<f32>() / threads.get();
                if share == 0 || share.saturating_mul(threads.get()) > values.len() {
                    continue;
                }
                let bytes = (share * size_of::<f32>() * threads.get()) as f64;
                let seconds = figure.repeat(&|thread| {
                    std::hint::black_box(kernels.sum(&values[thread * share..][..share], set.prefetch));
                });
                let quantity = ChipQuantity::ReadBandwidth;
                figures.push(figure.of_rate(quantity, Some((set.level, bytes as u64)), bytes, &seconds));
            }
            let flops = kernels.multiply_add(ROUNDS).flops as f64 * threads.get() as f64;
            let seconds = figure.repeat(&|_| {
                std::hint::black_box(kernels.multiply_add(ROUNDS));
            });
            figures.push(figure.of_rate(ChipQuantity::PeakThroughput, None, flops, &seconds));
            if threads.get() > 1 {
                figures.push(figure.dispatch());
            }
        }
        figures.retain(|figure| figure.value.is_finite() && figure.value > 0.0);
        figures
    }
}

/// A pool that is measured.
struct Figure<'a> {
    pool: &'a Pool,
    threads: NonZeroUsize,
}

impl Figure<'_> {
    /// Seconds of one call of `body` on each thread at once, for each sample.
    fn repeat(&self, body: &(impl Fn(usize) + Sync)) -> Vec<f64> {
        let run = |times: u32| {
            let start = Instant::now();
            self.pool.parallel_for(self.threads.get(), Policy::Static, &|threads: Range<usize>| {
                for thread in threads {
                    for _ in 0..times {
                        body(thread);
                    }
                }
            });
            start.elapsed().as_secs_f64()
        };
        let times = times_of_a_sample(run);
        let run = |times: u32| run(times) / f64::from(times);
        (0..=SAMPLES).map(|_| run(times)).skip(1).collect()
    }

    fn dispatch(&self) -> ChipFigure {
        let run = || {
            let start = Instant::now();
            for _ in 0..DISPATCHES {
                self.pool.parallel_for(self.threads.get(), Policy::Static, &|_| ());
            }
            start.elapsed().as_secs_f64() / f64::from(DISPATCHES)
        };
        let samples: Vec<f64> = (0..=SAMPLES).map(|_| run()).skip(1).collect();
        let value = low(&samples);
        self.figure(ChipQuantity::DispatchOverhead, None, value, samples)
    }

    fn of_rate(
        &self,
        quantity: ChipQuantity,
        level: Option<(MemoryLevel, u64)>,
        amount: f64,
        seconds: &[f64],
    ) -> ChipFigure {
        let samples = seconds.iter().map(|seconds| amount / seconds).collect();
        self.figure(quantity, level, amount / low(seconds), samples)
    }

    fn figure(
        &self,
        quantity: ChipQuantity,
        level: Option<(MemoryLevel, u64)>,
        value: f64,
        samples: Vec<f64>,
    ) -> ChipFigure {
        ChipFigure {
            quantity,
            level: level.map(|(level, _)| level),
            working_set_bytes: level.map(|(_, bytes)| bytes),
            threads: u32::try_from(self.threads.get()).unwrap_or(u32::MAX),
            value,
            samples,
            method: FIGURES_METHOD,
        }
    }
}

/// How often one sample repeats its body, where `run` tells the seconds of so many repetitions.
///
/// A single repetition tells nothing of that: threads that have to be woken take a thousand times as long as a small body.
fn times_of_a_sample(run: impl Fn(u32) -> f64) -> u32 {
    let mut times = 1;
    while times < MOST_TIMES {
        let seconds = run(times).min(run(times));
        if seconds >= LEAST_SAMPLE_S {
            break;
        }
        let factor = (LEAST_SAMPLE_S / seconds).clamp(2.0, LARGEST_STEP);
        times = (f64::from(times) * factor).ceil().min(f64::from(MOST_TIMES)) as u32;
    }
    times
}

fn low(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, TIME_QUANTILE).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(sizes: MemorySizes, threads: usize) -> Vec<(MemoryLevel, u64)> {
        sizes.working_sets(threads).iter().map(|set| (set.level, set.bytes)).collect()
    }

    #[test]
    fn a_sample_is_long_enough_however_long_handing_over_takes() {
        for (hand_over, body) in
            [(0.0, 1e-9), (3e-7, 3e-8), (50e-6, 3e-8), (50e-6, 1e-5), (0.1, 1e-6), (0.0, 0.1)]
        {
            let seconds = |times: u32| hand_over + f64::from(times) * body;
            let times = times_of_a_sample(seconds);
            let sample = seconds(times);
            assert!(sample >= LEAST_SAMPLE_S, "{hand_over} {body}: {times}");
            assert!(sample <= 17.0 * LEAST_SAMPLE_S + hand_over + body, "{hand_over} {body}: {times}");
        }
        assert_eq!(times_of_a_sample(|_| 0.0), MOST_TIMES);
    }

    #[test]
    fn a_working_set_lies_in_its_level_and_in_no_nearer_one() {
        let sizes = MemorySizes { l1: Some(32 << 10), l2: Some(1 << 20), l3: Some(32 << 20), limit: 4 << 30 };
        assert_eq!(
            shape(sizes, 2),
            [
                (MemoryLevel::L1, 32 << 10),
                (MemoryLevel::L2, 1 << 20),
                (MemoryLevel::L3, 16 << 20),
                (MemoryLevel::Memory, 128 << 20)
            ]
        );
        // Sixteen second-level caches hold what half of the third one does.
        assert!(shape(sizes, 16).iter().all(|(level, _)| *level != MemoryLevel::L3));
    }

    #[test]
    fn unknown_caches_and_too_little_memory_leave_levels_out() {
        assert_eq!(
            shape(MemorySizes { limit: u64::MAX, ..MemorySizes::default() }, 1),
            [(MemoryLevel::Memory, 256 << 20)]
        );
        let small = MemorySizes { l3: Some(32 << 20), limit: 63 << 20, ..MemorySizes::default() };
        assert!(shape(small, 1).iter().all(|(level, _)| *level != MemoryLevel::Memory));
        let huge = MemorySizes { l3: Some(1 << 30), limit: u64::MAX, ..MemorySizes::default() };
        assert!(shape(huge, 1).iter().all(|(level, _)| *level != MemoryLevel::Memory));
        let absurd =
            MemorySizes { l1: Some(u64::MAX), l2: Some(u64::MAX), l3: Some(u64::MAX), limit: u64::MAX };
        shape(absurd, usize::MAX);
    }
}
