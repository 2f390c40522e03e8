//! Describing and starting a pool.
//!
//! Invariant: a pool exists only when all of its workers have started; otherwise those that had are ended.

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use super::handover::MOST_WORKERS;
use super::patience::LearnedPatience;
use super::{Pool, Shared};

/// How long a waiting thread looks for what it waits for before it sleeps.
///
/// Looking costs a core but answers within a few hundred nanoseconds; waking a sleeper takes microseconds. Whatever is
/// set is the most: a thread whose looks are in vain, since other programs use the cores, hardly looks any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spin {
    /// [`Spin::USUAL`] looks, or none where the pool has more threads than the process has cores.
    #[default]
    Auto,
    /// Sleeps at once.
    Never,
    /// This many looks, each with a pause of the processor.
    Looks(u32),
}

impl Spin {
    /// Looks of a pool that has a core for each thread: some tens of microseconds.
    pub const USUAL: u32 = 2000;

    fn looks(self, threads: usize) -> u32 {
        match self {
            Self::Never => 0,
            Self::Looks(looks) => looks,
            Self::Auto => {
                let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
                if threads <= cores { Self::USUAL } else { 0 }
            }
        }
    }
}

type OnStart = Arc<dyn Fn(usize) + Send + Sync>;

/// What a pool is to be like.
#[derive(Clone)]
pub struct PoolBuilder {
    threads: NonZeroUsize,
    on_start: Option<OnStart>,
    spin: Spin,
    serial_below: usize,
}

impl fmt::Debug for PoolBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PoolBuilder")
            .field("threads", &self.threads)
            .field("spin", &self.spin)
            .field("serial_below", &self.serial_below)
            .finish_non_exhaustive()
    }
}

impl Default for PoolBuilder {
    /// Describes a pool of one thread.
    fn default() -> Self {
        Self { threads: NonZeroUsize::MIN, on_start: None, spin: Spin::Auto, serial_below: 0 }
    }
}

impl PoolBuilder {
    /// Sets the number of threads, the caller included.
    #[must_use]
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets what each worker calls with its index, from 1 on, before it takes its first job.
    ///
    /// This is where a thread is bound to a core. The caller, thread 0, is not bound by the pool.
    #[must_use]
    pub fn on_start(mut self, on_start: Arc<dyn Fn(usize) + Send + Sync>) -> Self {
        self.on_start = Some(on_start);
        self
    }

    /// Sets how waiting threads wait.
    #[must_use]
    pub fn spin(mut self, spin: Spin) -> Self {
        self.spin = spin;
        self
    }

    /// Sets the number of rows below which a call runs on the calling thread alone; 0 is never.
    #[must_use]
    pub fn serial_below(mut self, rows: usize) -> Self {
        self.serial_below = rows;
        self
    }

    /// Starts the workers and waits until each has called its start function.
    ///
    /// # Errors
    /// When there are too many threads, when the system refuses one, or when a start function panics.
    pub fn build(self) -> Result<Pool, PoolError> {
        let threads = self.threads.get();
        if threads - 1 > MOST_WORKERS {
            return Err(PoolError::TooManyThreads { threads });
        }
        let patience = LearnedPatience::new(self.spin.looks(threads));
        let shared = Arc::new(Shared::new(threads, patience.clone()));
        // Dropped on the way out of an error, it ends the workers that have started.
        let mut pool = Pool { shared, workers: Vec::new(), serial_below: self.serial_below };
        let (report, reports) = mpsc::channel();
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let report = report.clone();
            let (on_start, patience) = (self.on_start.clone(), patience.clone());
            let worker = thread::Builder::new()
                .name(format!("siliconroute-pool-{index}"))
                .spawn(move || {
                    let started = catch_unwind(AssertUnwindSafe(|| {
                        if let Some(on_start) = on_start {
                            on_start(index);
                        }
                    }));
                    // A failed send means that the pool was given up; the hand-over then says stop.
                    report.send((index, started.is_ok())).ok();
                    drop(report);
                    shared.work(index, threads, patience);
                })
                .map_err(|source| PoolError::Start { worker: index, threads, source })?;
            pool.workers.push(worker);
        }
        drop(report);
        for (worker, started) in reports {
            if !started {
                return Err(PoolError::StartFunction { worker });
            }
        }
        Ok(pool)
    }
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// More threads than a pool can have.
    #[error("a pool of {threads} threads is too large; the most is {}", MOST_WORKERS + 1)]
    TooManyThreads {
        /// What was asked for.
        threads: usize,
    },
    /// The system refused a thread.
    #[error("cannot start worker {worker} of a pool of {threads} threads; use fewer threads")]
    Start {
        /// Its index.
        worker: usize,
        /// What was asked for.
        threads: usize,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A start function panicked.
    #[error("the start function of worker {worker} panicked; its message is on standard error")]
    StartFunction {
        /// Its index.
        worker: usize,
    },
}
