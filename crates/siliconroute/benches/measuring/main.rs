//! How well this program measures: what precision costs, how far sessions vary, what recording adds, and how often a
//! comparison is right. `cargo bench -p siliconroute --bench measuring -- precision|sessions|overhead|compare`.
//!
//! Invariant: every figure is a ratio of two sides that took turns within one run; it is printed, never asserted.
//!
//! Reading order: `arguments`, `figures`, `quiet`, `subject` and `in_process` (what is measured), then the four questions
//! `precision`, `sessions` (with `estimators`, `python_loop`), `overhead`, `comparison`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

mod arguments;
mod comparison;
mod estimators;
mod figures;
mod in_process;
mod overhead;
mod precision;
mod python_loop;
mod quiet;
mod sessions;
mod subject;

use std::error::Error;

use arguments::Arguments;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1).peekable();
    // Workers are this very program, so it must be able to be one.
    if words.peek().map(String::as_str) == Some(siliconroute::router::WORKER_ARGUMENT) {
        return Ok(siliconroute::worker::run_worker()?);
    }
    let arguments = Arguments::parse(words)?;
    match arguments.question.as_str() {
        "precision" => precision::report(&arguments),
        "sessions" => sessions::report(&arguments),
        "overhead" => overhead::report(&arguments),
        "compare" => comparison::report(&arguments),
        other => Err(format!("unknown question `{other}`; there are {}", arguments::QUESTIONS).into()),
    }
}
