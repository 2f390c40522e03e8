//! Work for the CPU's own cores: a pool of threads, kernels of known cost, and the tuner that measures with them.
//!
//! Invariant: no operating-system code. What a thread does to its place on the cores comes in as a function, and
//! facts of the machine come in as plain data, so that the tuner can be tested on machines that are not there.
//!
//! Reading order: `policy`, `pool`, `instruction_set`, `kernel`, `matrix` (a kernel on a pool), `buffer`, [`tuner`].

mod buffer;
mod instruction_set;
mod kernel;
mod matrix;
mod policy;
mod pool;
pub mod tuner;

pub use buffer::{Buffer, BufferError, HugePages};
pub use instruction_set::InstructionSet;
pub use kernel::{APART, Kernels, MultiplyAdds, Prefetch, ShapeError};
pub use matrix::multiply;
pub use policy::{Chunking, Policy};
pub use pool::{Dispatch, Mode, Pool, PoolBuilder, PoolError, SerialReason, Spin, ThreadTime, Timing};
