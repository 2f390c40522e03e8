//! How often the statistics are right, by simulation.
//!
//! Invariant: every test has its seed, so it passes always or never.

#![expect(clippy::unwrap_used, reason = "simulated series have all the statistics that are asked for")]

mod error_rates;
mod experiments;
mod noise;
