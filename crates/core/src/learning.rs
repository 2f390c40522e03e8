//! Learning from real runs: what is believed of a time, when it has changed, and which target is worth another visit.
//!
//! Invariant: everything follows from the observations, their times and a seed, so a day of use can be replayed.
//!
//! Reading order: `belief`, `wander`, `over_cases`, `live`, `exploration`. What each holds in simulation: docs/learning.md.

mod belief;
mod exploration;
mod live;
mod over_cases;
mod wander;

pub use belief::{Belief, Change};
pub use exploration::{Account, Allowance, Explored, Explorer, explore};
pub use live::{Live, Noticed, Run, TOGETHER_NS};
