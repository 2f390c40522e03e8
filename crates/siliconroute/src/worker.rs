//! The worker side of this program: what the hidden subcommand runs.
//!
//! Invariant: nothing but messages goes to the parent's pipe; what a library prints to standard output
//! lands in the error output.

use std::io;

use siliconroute_core::Reading;
use siliconroute_engine::worker::serve::{Probes, serve};

/// Serves the parent on standard input and output until it goes away.
///
/// An application that embeds this library calls it first thing in `main` when its only argument is
/// [`WORKER_ARGUMENT`](crate::router::WORKER_ARGUMENT).
///
/// # Errors
/// When the pipes cannot be set up or fail.
pub fn run_worker() -> io::Result<()> {
    siliconroute_hardware::prepare_worker_process();
    let writer = siliconroute_hardware::take_standard_output()?;
    let probes = Probes {
        cpu_time_ns: siliconroute_hardware::process_cpu_time_ns,
        peak_resident_bytes: || siliconroute_hardware::process_peak_resident_bytes(std::process::id()),
        resident_bytes: || siliconroute_hardware::process_resident_bytes(std::process::id()),
        device_bytes: || Reading::unavailable("this version reads no chip's memory"),
    };
    serve(io::stdin(), writer, probes, parent_gone).map_err(io::Error::other)
}

/// Ends the process at once: an inference may be running that would go on for minutes.
fn parent_gone() {
    siliconroute_hardware::end_process_at_once();
}
