//! The program as a user of Windows meets it: packages, targets, measurements, decisions, inferences, diagnosis.
//!
//! Invariant: the run fails unless both engines are there, have a measured time for each model, and compute what the
//! same program computes on the host. Times printed here are those of Wine, and say nothing about Windows.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::session::Session;
use super::suite::windows_path;
use crate::foreign::Foreign;
use crate::step::{check, output};

const TARGETS: &[&str] = &["cpu/ort", "cpu/rten"];

/// One of matrix products alone, one of convolutions.
const MODELS: &[&str] = &["mlp-128w-4l", "conv-8c-4l"];

/// No command takes longer, however slow the machine.
const LIMIT: Duration = Duration::from_mins(5);

/// How far outputs may lie apart, relative to the largest: the products sum in different orders.
const TOLERANCE: f64 = 1e-5;

/// The program's home on Wine's drive.
const HOME: &str = "C:\\home";

/// What one target was found to do with one model.
struct Row {
    model: &'static str,
    target: &'static str,
    median_ms: f64,
    outputs: String,
    difference: f64,
}

/// Runs the program through its commands, checks what they tell and prints what was found; its outputs are compared with
/// those of `on_host`, the same program on the host.
pub(super) fn run(program: &Path, on_host: &Path, session: &Session, foreign: &Foreign) -> Result<()> {
    let visit = Visit { program, session };
    let wheel = fetch_runtime(foreign)?;
    visit.show(&["packages", "install", "onnxruntime", "--wheel", &windows_path(&wheel)])?;
    visit.show(&["devices"])?;
    visit.check_targets()?;
    visit.show(&[&["models", "generate"], MODELS].concat())?;
    let models: Vec<&str> = MODELS.iter().flat_map(|model| ["-m", model]).collect();
    visit.show(&[&["bench", "--time", "0.2"], &models[..]].concat())?;
    let bench = visit.ask("bench", &[&["bench", "--time", "0.2"], &models[..]].concat())?;
    let mut rows = Vec::new();
    for model in MODELS {
        visit.show(&["route", "-m", model])?;
        visit.show(&["evaluate", "-m", model, "--workload", "sustained"])?;
        visit.show(&["run", "-m", model])?;
        visit.check_times("decision", &["route", "-m", model])?;
        visit.check_times("evaluation", &["evaluate", "--stored", "-m", model, "--workload", "sustained"])?;
        let host = host_outputs(on_host, model, session)?;
        for target in TARGETS {
            let outputs = visit.outputs(model, target)?;
            let difference =
                largest_difference(&outputs, &host).with_context(|| format!("{model} on {target}"))?;
            let (median_ms, outputs) = measured(&bench, model, target)?;
            rows.push(Row { model, target, median_ms, outputs, difference });
        }
    }
    visit.check_interrupt()?;
    visit.show(&["doctor"])?;
    visit.check_health()?;
    print_rows(&rows);
    let far = rows.iter().filter(|row| row.difference > TOLERANCE).count();
    ensure!(far == 0, "{far} of {} outputs differ from those of the host", rows.len());
    Ok(())
}

/// The document that a command with these `arguments` printed, which must be of this schema.
pub(crate) fn read_document(text: &str, schema: &str, arguments: &[&str]) -> Result<Value> {
    let document: Value = serde_json::from_str(text)
        .with_context(|| format!("`{}` printed no document: {text}", arguments.join(" ")))?;
    let expected = format!("siliconroute.{schema}/1");
    ensure!(document["schema"] == *expected, "{} is not of {expected}", document["schema"]);
    Ok(document)
}

/// The program in its home.
struct Visit<'a> {
    program: &'a Path,
    session: &'a Session,
}

impl Visit<'_> {
    /// Runs a command and prints it with its result, as a terminal would show them.
    fn show(&self, arguments: &[&str]) -> Result<()> {
        println!("> siliconroute {}", arguments.join(" "));
        print!("{}", self.call(arguments)?);
        Ok(())
    }

    /// Runs a command and returns its document, which must be of this schema.
    fn ask(&self, schema: &str, arguments: &[&str]) -> Result<Value> {
        read_document(&self.call(&[arguments, &["--json"]].concat())?, schema, arguments)
    }

    /// Sends an interrupt to a benchmark without end, which Wine turns into the event of a console's Ctrl-C.
    fn check_interrupt(&self) -> Result<()> {
        let arguments = ["bench", "-m", MODELS[0], "--json", "--iterations", "4000000000"];
        println!("> siliconroute {}, and Ctrl-C", arguments.join(" "));
        let mut command = self.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let messages = BufReader::new(child.stderr.take().context("the program has no messages")?);
        let (mut seen, mut sent) = (String::new(), false);
        for line in messages.lines() {
            let line = line?;
            if !sent && line.contains("measuring") {
                check(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
                sent = true;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        let done = child.wait_with_output()?;
        ensure!(sent, "the benchmark never began to measure: {seen}");
        print!("{seen}");
        let document: Value =
            serde_json::from_slice(&done.stdout).context("an interrupt left no document")?;
        ensure!(document["error"]["code"] == "interrupted", "an interrupt gave {}", document["error"]);
        ensure!(done.status.code() == Some(130), "an interrupt ended the program with {}", done.status);
        Ok(())
    }

    fn call(&self, arguments: &[&str]) -> Result<String> {
        output(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.session.command(self.program, LIMIT);
        command.args(["--home", HOME, "--offline"]).args(arguments).env("COLUMNS", "160");
        command
    }

    fn check_targets(&self) -> Result<()> {
        let document = self.ask("devices", &["devices"])?;
        for target in TARGETS {
            let found = rows_of(&document["targets"]).find(|row| row["key"] == *target);
            let found = found.with_context(|| format!("{target} is missing among the targets"))?;
            ensure!(found["available"] == true, "{target} is not available: {}", found["reason"]);
        }
        Ok(())
    }

    /// Makes sure that a decision, or the check of one, has a measured time for each target.
    fn check_times(&self, schema: &str, arguments: &[&str]) -> Result<()> {
        let document = self.ask(schema, arguments)?;
        for target in TARGETS {
            let time = if schema == "decision" {
                let mut candidates = rows_of(&document["candidates"]);
                let found = candidates.find(|row| row["target"] == *target && row["source"] == "measured");
                found.map(|row| &row["predicted_ms"])
            } else {
                Some(&document["decisions"][0]["times_ms"][*target])
            };
            let positive = time.and_then(Value::as_f64).is_some_and(|time| time > 0.0);
            ensure!(positive, "`{}` has no measured time of {target}", arguments.join(" "));
        }
        Ok(())
    }

    /// Runs one inference and returns the values of its outputs.
    fn outputs(&self, model: &str, target: &str) -> Result<Vec<f64>> {
        let name = "outputs.json";
        let place = format!("C:\\{name}");
        let document = self.ask("run", &["run", "-m", model, "-d", target, "--write", &place])?;
        ensure!(document["target"] == *target, "{model} ran on {} and not on {target}", document["target"]);
        read_values(&self.session.drive().join(name))
    }

    fn check_health(&self) -> Result<()> {
        let document = self.ask("doctor", &["doctor"])?;
        for subject in ["store", "package onnxruntime"].iter().chain(TARGETS) {
            let starts = |row: &&Value| row["subject"].as_str().is_some_and(|name| name.starts_with(subject));
            let found = rows_of(&document["checks"]).find(starts);
            let found = found.with_context(|| format!("the doctor says nothing of {subject}"))?;
            ensure!(found["health"] == "good", "{subject} is {}: {}", found["health"], found["finding"]);
        }
        Ok(())
    }
}

/// Fetches ONNX Runtime for Windows with the host's pip; there is none in Wine.
fn fetch_runtime(foreign: &Foreign) -> Result<PathBuf> {
    let mut command = Command::new("python3");
    command.arg(foreign.scripts().join("fetch-engine-wheel.py")).args(["onnxruntime", "windows-x86_64"]);
    Ok(output(command.arg(foreign.cache().join("wheels")))?.trim_end().into())
}

/// Runs the same inference on the host, on the engine that needs no package.
fn host_outputs(program: &Path, model: &str, session: &Session) -> Result<Vec<f64>> {
    let (home, file) = (session.drive().join("host"), session.drive().join("host.json"));
    let mut command = Command::new(program);
    command.args(["--offline", "--quiet", "--home"]).arg(home);
    command.args(["run", "-m", model, "-d", "cpu/rten", "--write"]).arg(&file);
    check(command.stdout(Stdio::null()))?;
    read_values(&file)
}

/// Reads the values of all outputs of an inference.
fn read_values(path: &Path) -> Result<Vec<f64>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let document: Value = serde_json::from_str(&text).context("the outputs are no JSON")?;
    let arrays = document.as_object().context("the outputs have no names")?;
    let values = arrays.values().flat_map(|array| rows_of(&array["data"]));
    values.map(|value| value.as_f64().context("an output holds no number")).collect()
}

/// The largest difference between two outputs, relative to the largest value of the second.
fn largest_difference(values: &[f64], reference: &[f64]) -> Result<f64> {
    if values.is_empty() || values.len() != reference.len() {
        bail!("there are {} values where the host has {}", values.len(), reference.len());
    }
    let largest = reference.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    ensure!(largest > 0.0, "the host's outputs are all zero");
    let apart = values.iter().zip(reference).map(|(value, other)| (value - other).abs() / largest);
    Ok(apart.fold(0.0, f64::max))
}

/// The median and what the comparison of outputs found for one target of a benchmark.
fn measured(bench: &Value, model: &str, target: &str) -> Result<(f64, String)> {
    let of =
        |row: &&Value| row["benchmark_info"]["model"] == model && row["benchmark_info"]["target"] == target;
    let row = rows_of(&bench["results"]).find(of);
    let row = row.with_context(|| format!("{model} was not measured on {target}"))?;
    let median = row["latency_ms"]["p50"].as_f64().filter(|median| *median > 0.0);
    let median = median.with_context(|| format!("{model} has no time on {target}"))?;
    let outputs = &row["outputs"];
    match (outputs["check"].as_str(), outputs["class"].as_str()) {
        (Some("reference"), _) => Ok((median, "reference".to_owned())),
        (Some("compared"), Some("exact")) => {
            Ok((median, format!("exact ({:.0e})", outputs["max_rel_err"].as_f64().unwrap_or(f64::NAN))))
        }
        _ => bail!("the outputs of {model} on {target} differ: {outputs}"),
    }
}

fn rows_of(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn print_rows(rows: &[Row]) {
    println!("{:<12} {:<9} {:>12}  {:<14} from the host's", "model", "target", "median", "outputs");
    for row in rows {
        let Row { model, target, median_ms, outputs, difference } = row;
        println!("{model:<12} {target:<9} {median_ms:>9.4} ms  {outputs:<14} {difference:.1e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_compared_relative_to_the_largest() {
        assert_eq!(largest_difference(&[1.0, 4.0], &[1.0, 4.0]).ok(), Some(0.0));
        assert_eq!(largest_difference(&[1.0, 3.0], &[1.0, 4.0]).ok(), Some(0.25));
        assert!(largest_difference(&[1.0], &[1.0, 4.0]).is_err());
        assert!(largest_difference(&[], &[]).is_err());
        assert!(largest_difference(&[0.0], &[0.0]).is_err());
    }

    #[test]
    fn a_measurement_without_a_time_or_with_other_outputs_is_refused() {
        #[track_caller]
        fn check(p50: Option<f64>, outputs: &Value, good: bool) {
            let info = serde_json::json!({"model": "m", "target": "t"});
            let row =
                serde_json::json!({"benchmark_info": info, "latency_ms": {"p50": p50}, "outputs": outputs});
            let found = measured(&serde_json::json!({ "results": [row] }), "m", "t");
            assert_eq!(found.is_ok(), good, "{found:?}");
        }
        let compared =
            |class: &str| serde_json::json!({"check": "compared", "class": class, "max_rel_err": 1e-7});
        check(Some(1.0), &serde_json::json!({"check": "reference"}), true);
        check(Some(1.0), &compared("exact"), true);
        check(Some(1.0), &compared("relaxed"), false);
        check(Some(1.0), &Value::Null, false);
        check(None, &compared("exact"), false);
        assert!(measured(&serde_json::json!({"results": []}), "m", "t").is_err());
    }
}
