//! The work that a tuning measures on a real machine: one matrix-vector product from memory, 4096 × 4096 in fp32.
//!
//! Invariant: all configurations read one and the same matrix. Where threads can be held, each is held on a CPU of its
//! own: a thread that the system has put beside another program's, or beside the caller, shows nothing of the machine.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Configuration, Machine, Place, Unmeasurable};
use crate::{APART, Buffer, HugePages, Kernels, Policy, Pool, Prefetch, multiply};

/// Rows and columns: those of a projection in a model of eight billion parameters (Llama 3 8B).
pub const SIDE: usize = 4096;

/// Holds the calling thread on some CPUs, or tells why it cannot.
pub type HoldThread = Arc<dyn Fn(&[u32]) -> Result<(), String> + Send + Sync>;

/// The matrix with its pools of threads.
pub struct MatrixWork {
    begin: Instant,
    pub(super) kernels: Kernels,
    crew: Crew,
    matrix: Buffer,
    vector: Buffer,
    result: Vec<f32>,
}

impl fmt::Debug for MatrixWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixWork").field("kernels", &self.kernels).finish_non_exhaustive()
    }
}

impl MatrixWork {
    /// Bytes that one product reads.
    pub const BYTES: usize = SIDE * SIDE * size_of::<f32>();

    /// Makes the matrix, written by as many threads as will read it, and measures nothing yet.
    ///
    /// `hold` holds threads on the CPUs of places that name an order of them. The calling thread is one of those and
    /// stays where it was held last, so the work is for a thread of its own.
    ///
    /// # Errors
    /// When there is no memory or no thread for it.
    pub fn prepare(places: &[Place], hold: HoldThread) -> Result<Self, Unmeasurable> {
        let begin = Instant::now();
        let mut crew = Crew { places: places.to_vec(), hold, held: None, pools: HashMap::new() };
        let widest = (0..places.len()).max_by_key(|index| places[*index].most_threads).unwrap_or(0);
        let threads = places.get(widest).and_then(|place| NonZeroUsize::new(place.most_threads));
        let pool = crew.pool(widest, threads.unwrap_or(NonZeroUsize::MIN))?;
        let matrix = Buffer::filled(pool, SIDE * SIDE, true, &value);
        let vector = Buffer::filled(pool, APART + SIDE, false, &value);
        let refused = |error: crate::BufferError| Unmeasurable { reason: error.to_string() };
        let (matrix, vector) = (matrix.map_err(refused)?, vector.map_err(refused)?);
        Ok(Self { begin, kernels: Kernels::detect(), crew, matrix, vector, result: vec![0.0; SIDE] })
    }

    /// What is known of the pages that the matrix lies on, in words.
    pub fn pages(&self) -> String {
        match self.matrix.huge_pages() {
            HugePages::AskedFor => "huge pages were asked for and not refused".to_owned(),
            HugePages::NotWanted => "huge pages were not wanted".to_owned(),
            HugePages::Unavailable(reason) => format!("no huge pages: {reason}"),
        }
    }

    /// The place of that number.
    pub(super) fn place(&self, index: usize) -> Option<&Place> {
        self.crew.places.get(index)
    }

    /// The pool of `threads` at a place, with the caller held there and the workers awake.
    pub(super) fn pool(&mut self, place: usize, threads: NonZeroUsize) -> Result<&Pool, Unmeasurable> {
        self.crew.pool(place, threads)
    }
}

/// Small numbers of both signs, none of them so small that a processor is slow with it.
pub(super) fn value(index: usize) -> f32 {
    (index & 15) as f32 * 0.125 - 1.0
}

impl Machine for MatrixWork {
    fn measure(&mut self, configuration: &Configuration) -> Result<f64, Unmeasurable> {
        let Self { kernels, crew, matrix, vector, result, .. } = self;
        let pool = crew.pool(configuration.place, configuration.threads)?;
        // In a series of calls the workers are awake; here other pools had the time before.
        pool.parallel_for(configuration.threads.get(), Policy::Static, &|_| ());
        let start = Instant::now();
        let done = multiply(
            pool,
            configuration.policy,
            *kernels,
            matrix.values(),
            &vector.values()[APART..],
            result,
            Prefetch::for_size(Self::BYTES, 0),
        );
        let seconds = start.elapsed().as_secs_f64();
        done.map_err(|error| Unmeasurable { reason: error.to_string() })?;
        std::hint::black_box(&*result);
        Ok(seconds)
    }

    fn spent(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// The pools, one for each place and number of threads that was asked for.
struct Crew {
    places: Vec<Place>,
    hold: HoldThread,
    /// The CPU that the caller is held on.
    held: Option<u32>,
    pools: HashMap<(usize, NonZeroUsize), Pool>,
}

impl Crew {
    fn pool(&mut self, place: usize, threads: NonZeroUsize) -> Result<&Pool, Unmeasurable> {
        if let Some(&cpu) = self.order(place).first()
            && self.held != Some(cpu)
        {
            (self.hold)(&[cpu]).map_err(|reason| Unmeasurable { reason })?;
            self.held = Some(cpu);
        }
        if !self.pools.contains_key(&(place, threads)) {
            let pool = self.start(place, threads)?;
            self.pools.insert((place, threads), pool);
        }
        Ok(&self.pools[&(place, threads)])
    }

    fn order(&self, place: usize) -> &[u32] {
        self.places.get(place).map_or(&[], |place| &place.order)
    }

    fn start(&self, place: usize, threads: NonZeroUsize) -> Result<Pool, Unmeasurable> {
        let mut builder = Pool::builder().threads(threads);
        let order = self.order(place).to_vec();
        let refused: Arc<Mutex<Option<String>>> = Arc::default();
        if !order.is_empty() {
            let (hold, told) = (Arc::clone(&self.hold), Arc::clone(&refused));
            builder = builder.on_start(Arc::new(move |index| {
                if let Err(reason) = hold(&order[index % order.len()..][..1]) {
                    told.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
                }
            }));
        }
        let pool = builder.build().map_err(|error| Unmeasurable { reason: error.to_string() })?;
        match refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(reason) => Err(Unmeasurable { reason }),
            None => Ok(pool),
        }
    }
}

#[cfg(test)]
mod tests;
