//! The worker side of this program: what the hidden subcommand runs.
//!
//! Invariant: nothing but messages goes to the parent's pipe; what a library prints to standard output
//! lands in the error output.

use std::io;
use std::sync::OnceLock;

use siliconroute_core::{Chip, ChipKind, Reading};
use siliconroute_engine::worker::serve::{Probes, serve};
use siliconroute_hardware::ChipSensors;

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
        restart_peak: siliconroute_hardware::restart_peak_resident_bytes,
        resident_bytes: || siliconroute_hardware::process_resident_bytes(std::process::id()),
        device_bytes: own_device_bytes,
        adapters: siliconroute_hardware::list_adapters,
    };
    serve(io::stdin(), writer, probes, parent_gone).map_err(io::Error::other)
}

/// Memory that this process holds on chips other than the processor, in bytes.
fn own_device_bytes() -> Reading<u64> {
    static CHIPS: OnceLock<Vec<Chip>> = OnceLock::new();
    let chips = CHIPS.get_or_init(|| {
        let found = siliconroute_hardware::detect_chips(&siliconroute_hardware::detect_host());
        let chips = found.into_iter().filter_map(|finding| finding.chip.available().cloned());
        chips.filter(|chip| chip.kind != ChipKind::Cpu).collect()
    });
    if chips.is_empty() {
        return Reading::unavailable("this machine has no chip with memory of its own");
    }
    let uses = ChipSensors::detect(chips).process(std::process::id());
    let mut total = 0;
    for used in uses {
        match used.device_bytes {
            Reading::Available(bytes) => total += bytes,
            Reading::Unavailable(reason) => return Reading::Unavailable(reason),
        }
    }
    Reading::Available(total)
}

/// Ends the process at once: an inference may be running that would go on for minutes.
fn parent_gone() {
    siliconroute_hardware::end_process_at_once();
}
