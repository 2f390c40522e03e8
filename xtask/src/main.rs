//! The project's own automation: `cargo xtask <command>`, the same on a developer's machine and in CI.
//!
//! Reading order: `ci` (what runs), `step` (how a step runs), `workspace` (what is looked at), `tidy`
//! (the project's rules), `licences` (what may be depended on), `foreign` (building for other operating systems),
//! `cross` (lints for them), `wine` (the tests and the program of Windows), `dist` (archives for users).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer's command talks on the terminal")]

mod ci;
mod cross;
mod dist;
mod foreign;
mod licences;
mod step;
mod tidy;
mod wine;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  ci          formatting, tidy, licences, lints, tests and docs; stops at the first failure
  tidy        the project's own rules: crate arrows, guarded dependencies, file headers, file lengths, names
  licences    the licence and the source of every dependency, and the licences' texts for the archives
  cross       lints for Windows (x64, ARM64) and macOS (ARM64); needs the standard library's source
  wine        builds for Windows, runs all tests and the program under Wine; needs Wine, MinGW and pip besides
  dist [NAME]... [--smoke]
              archives of the program with checksums, for linux-x64, windows-x64 and windows-arm64, or some of them;
              --smoke also runs that for Windows on x64, which needs what `wine` needs";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let outcome = match words.as_slice() {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["licences"] => licences::run(),
        ["cross"] => cross::run(),
        ["dist", names @ ..] => dist::run(names),
        ["wine"] => wine::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
