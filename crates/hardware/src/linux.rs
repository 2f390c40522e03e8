//! Readers of a Linux machine's trees.
//!
//! Invariant: they touch nothing but files below the roots given, so they run on any system.

pub(crate) mod amd_metrics;
pub(crate) mod chip_readers;
pub(crate) mod cores;
pub(crate) mod devices;
pub(crate) mod driver_files;
pub(crate) mod drivers;
pub(crate) mod fdinfo;
pub(crate) mod limits;
pub(crate) mod machine;
#[cfg(any(target_os = "linux", test))]
pub(crate) mod memory;
pub(crate) mod sensors;
pub(crate) mod temperatures;
pub(crate) mod throttling;
