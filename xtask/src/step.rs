//! One step of a longer run: a name, what it does, how long it took.
//!
//! Invariant: a step that fails ends the run, and the last line says which one and how to repeat it alone.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Runs `work` under `name`, prints its duration and gives what it made.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("==> {name}");
    let start = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("<== {name}: {verdict} in {}", duration_text(start.elapsed()));
    outcome.with_context(|| format!("step `{name}` failed"))
}

/// Returns a call of the cargo that started this program, to be run in `root`.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    // A toolchain named on the outer command line reaches the inner one only through this variable.
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

/// Runs a command to its end; an exit status other than zero is an error that quotes the command.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let text = command_text(command);
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns what it wrote to its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let text = command_text(command);
    let done = command.output().with_context(|| format!("cannot start `{text}`"))?;
    if !done.status.success() {
        bail!("`{text}` ended with {}: {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    String::from_utf8(done.stdout).with_context(|| format!("`{text}` did not write UTF-8"))
}

fn command_text(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_stem().unwrap_or_default();
    let mut text = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        assert_eq!(duration_text(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(duration_text(Duration::from_secs(125)), "2 min 05 s");
    }

    #[test]
    fn a_failing_step_is_named() {
        let error = step::<()>("lint", || bail!("broken")).unwrap_err();
        assert_eq!(format!("{error:#}"), "step `lint` failed: broken");
    }

    #[test]
    fn a_command_is_quoted_without_its_folder() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["fmt", "--check"]);
        assert_eq!(command_text(&command), "cargo fmt --check");
    }
}
