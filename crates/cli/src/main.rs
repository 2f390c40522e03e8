//! The `siliconroute` command: reads arguments, calls the library, prints.
//!
//! Invariant: results go to standard output and everything else to standard error; the exit code
//! follows from the kind of error and nothing else.

mod arguments;
mod commands;
mod output;
mod progress;
mod usage;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::error::ErrorKind as Misuse;
use siliconroute::Error;
use siliconroute::machine::describe_error;
use siliconroute::router::WORKER_ARGUMENT;

use output::{Output, VisibleErrors};

/// Interrupts so close to the first one are the same wish: `timeout` sends one to the program and one to its group.
const SAME_WISH: Duration = Duration::from_millis(300);

/// What is said where a command is missing.
const NO_COMMAND: &str = "'siliconroute' requires a subcommand but one was not provided";

fn main() -> ExitCode {
    siliconroute::space::let_large_writes_fail();
    if std::env::args_os().skip(1).eq([WORKER_ARGUMENT]) {
        return match siliconroute::worker::run_worker() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                Output::new(false, false).message(format!("worker: {}", describe_error(&error)));
                ExitCode::FAILURE
            }
        };
    }
    let arguments = match arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage::refuse(error),
    };
    if let Some(contradiction) = arguments.contradiction() {
        return usage::refuse(arguments.misuse(Misuse::ArgumentConflict, &contradiction));
    }
    if arguments.command.is_none() && !arguments.global.profile_info {
        return usage::refuse(arguments.misuse(Misuse::MissingSubcommand, NO_COMMAND));
    }
    start_logging(arguments.global.verbose);
    let cancelled = Arc::new(AtomicBool::new(false));
    listen_for_interrupts(&cancelled);
    let output = Output::new(arguments.wants_document(), arguments.global.quiet);
    match commands::run(&arguments, &output, &cancelled) {
        Ok(code) => match output.lost() {
            None => code,
            Some(error) => {
                output.message(format!("error: cannot write the result to standard output: {error}"));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            output.error(&error);
            ExitCode::from(error.kind().exit_code())
        }
    }
}

fn start_logging(verbosity: u8) {
    let level = match verbosity {
        0 => "warn",
        1 => "info,worker=debug",
        _ => "debug",
    };
    let filter = tracing_subscriber::EnvFilter::new(level);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| VisibleErrors).without_time().init();
}

/// The first interrupt asks for an orderly stop, a later one ends the program at once.
fn listen_for_interrupts(cancelled: &Arc<AtomicBool>) {
    let cancelled = Arc::clone(cancelled);
    let mut first = None;
    let handler = move || {
        cancelled.store(true, Ordering::Relaxed);
        let first = *first.get_or_insert_with(Instant::now);
        if first.elapsed() > SAME_WISH {
            end_now();
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("interrupts end the program at once: {error}");
    }
}

#[expect(clippy::disallowed_methods, clippy::exit, reason = "the user asked twice; what is stored is whole")]
fn end_now() {
    std::process::exit(i32::from(Error::Interrupted.kind().exit_code()));
}
