//! Learning from real runs: what is believed of a time, when it has changed, and which target is worth another visit.
//!
//! Invariant: everything follows from the observations, their times and a seed, so a day of use can be replayed.
//!
//! Reading order: `belief`, `live`, `exploration`. What each holds in simulation: docs/learning.md.

mod belief;
mod exploration;
mod live;

pub use belief::{Belief, Change};
pub use exploration::{Account, Allowance, Explored, Explorer, explore};
pub use live::{Live, Noticed, Run, Wanting};
