//! An archive as someone without Rust meets it: unpacked where paths are awkward, and started without pip.
//!
//! Invariant: it fails unless the program measures, decides and checks itself with what the archive brings, and leaves
//! the archive's own folder as it was. Windows programs run under Wine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::foreign::Foreign;
use crate::step::{check, output};
use crate::wine::{Session, Tools, read_document, windows_path};

/// Letters that scripts, command interpreters and old code pages stumble over, and that Windows allows in names. The
/// percent sign is missing, since Wine's command interpreter reads names with one as variables.
const AWKWARD: &str = "Prüf Ordner (für Ελένη) 日本 & !x! ^ 'a' [b] ;, =";

/// A folder of which two are longer than the 260 letters that Windows takes unasked.
const LONG: &str = "Ein ausführlicher Name für einen Ordner, den jemand über viele Jahre hinweg immer wieder in \
                    einen weiteren Ordner gelegt hat, ohne je einen Namen zu kürzen";

/// What starts a script whose path Wine's host cannot write on a command line: no variable's value is read as one.
const STARTER: &str = "@\"%START_BAT%\" %*\r\n";

/// No command takes longer, however slow the machine.
const LIMIT: Duration = Duration::from_mins(10);

/// One of matrix products alone, one of convolutions.
const MODELS: [&str; 2] = ["mlp-128w-4l", "conv-8c-4l"];

/// The target that needs no package.
const EMBEDDED: &str = "cpu/rten";

/// Where the archive's program runs.
#[derive(Clone)]
enum Machine {
    Host,
    Wine(Rc<Session>),
}

/// An unpacked archive.
struct Visit {
    machine: Machine,
    /// The archive's own folder.
    inside: PathBuf,
    home: PathBuf,
}

/// Unpacks an archive of this machine's own system and runs what is inside.
pub(super) fn on_host(archive: &Path, folder: &str, version: &str) -> Result<()> {
    let place = new_folder(archive)?;
    check(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&place))?;
    Visit { machine: Machine::Host, inside: place.join(folder), home: place.join("home") }.run(version)?;
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))
}

/// Unpacks an archive for Windows on x64 and runs what is inside under Wine.
pub(super) fn under_wine(root: &Path, archive: &Path, folder: &str, version: &str) -> Result<()> {
    let tools = Tools::find()?;
    let foreign = Foreign::open(root)?;
    let session = Session::open(tools, &foreign, "wine")?;
    fs::write(session.drive().join("starter.bat"), STARTER).context("cannot write to Wine's drive")?;
    let place = new_folder(archive)?;
    // By another program than the one that packed.
    check(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(archive).arg(&place))?;
    let machine = Machine::Wine(Rc::new(session));
    Visit { machine, inside: place.join(folder), home: place.join("home") }.run(version)?;
    fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))
}

/// An empty folder with an awkward name beside the archives.
fn new_folder(archive: &Path) -> Result<PathBuf> {
    let place = archive.with_file_name(AWKWARD);
    if place.exists() {
        fs::remove_dir_all(&place).with_context(|| format!("cannot remove {}", place.display()))?;
    }
    fs::create_dir(&place).with_context(|| format!("cannot create {}", place.display()))?;
    Ok(place)
}

impl Visit {
    fn run(&self, version: &str) -> Result<()> {
        let before = sums_of(&self.inside)?;
        let told = self.call(&["--version"])?;
        ensure!(told.trim_end() == format!("siliconroute {version}"), "the program calls itself {told}");
        let devices = self.ask("devices", &["devices"])?;
        let mut targets = rows_of(&devices["targets"]);
        let embedded =
            targets.find(|row| row["key"] == EMBEDDED).context("the embedded engine is missing")?;
        ensure!(embedded["available"] == true, "{EMBEDDED} is not available: {}", embedded["reason"]);
        self.call(&[&["models", "generate"], &MODELS[..]].concat())?;
        let models: Vec<&str> = MODELS.iter().flat_map(|model| ["-m", model]).collect();
        let bench =
            self.ask("bench", &[&["bench", "--time", "0.2", "-d", EMBEDDED], &models[..]].concat())?;
        let medians = rows_of(&bench["results"]).filter_map(|row| row["latency_ms"]["p50"].as_f64());
        let measured = medians.filter(|median| *median > 0.0).count();
        ensure!(measured == MODELS.len(), "{measured} of {} models were measured", MODELS.len());
        for (start, measures) in [("first", true), ("second", false)] {
            let text = output(&mut self.start(&["--json"]))?;
            let decisions = check_evaluation(&text, measures).with_context(|| format!("{start} start"))?;
            println!("{start} start by a double click: {decisions} decisions");
        }
        let help = output(&mut self.start(&["--help"]))?;
        ensure!(help.contains("Usage: siliconroute"), "the start script passes no options on: {help}");
        let code = self.start(&["--no-such-option"]).stderr(Stdio::null()).status()?.code();
        ensure!(code == Some(2), "the start script hides the program's exit code, which was 2: {code:?}");
        ensure!(self.home.join("store.sqlite").is_file(), "the home was not used");
        self.check_long_paths(version)?;
        ensure!(sums_of(&self.inside)? == before, "the program wrote into the archive's own folder");
        Ok(())
    }

    /// Runs a command and returns its document, which must be of this schema.
    fn ask(&self, schema: &str, arguments: &[&str]) -> Result<Value> {
        read_document(&self.call(&[arguments, &["--json"]].concat())?, schema, arguments)
    }

    /// Starts the program from a path that is longer than old programs of Windows can take, with a home as long.
    ///
    /// It measures nothing there: Wine cannot tell the final name of so long a path, which an engine asks for.
    fn check_long_paths(&self, version: &str) -> Result<()> {
        let folder = self.home.with_file_name(LONG).join(LONG);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let program = folder.join(self.program_name());
        fs::copy(self.inside.join(self.program_name()), &program)
            .with_context(|| format!("cannot copy to {}", program.display()))?;
        let deep = Self { machine: self.machine.clone(), inside: folder.clone(), home: folder.join("home") };
        let told = deep.call(&["--version"])?;
        ensure!(told.trim_end() == format!("siliconroute {version}"), "the program calls itself {told}");
        deep.call(&["models", "generate", MODELS[0]])?;
        let model = deep.home.join("models").join(MODELS[0]).with_extension("onnx");
        ensure!(model.is_file(), "there is no {}", model.display());
        println!("started from a path of {} letters", program.to_string_lossy().chars().count());
        Ok(())
    }

    fn program_name(&self) -> &'static str {
        match self.machine {
            Machine::Host => "siliconroute",
            Machine::Wine(_) => "siliconroute.exe",
        }
    }

    fn call(&self, arguments: &[&str]) -> Result<String> {
        let program = self.inside.join(self.program_name());
        let mut command = match &self.machine {
            Machine::Host => alone(&program),
            Machine::Wine(session) => session.command(&program, LIMIT),
        };
        self.place(command.args(arguments));
        output(&mut command)
    }

    /// A call of the script that is made for a double click.
    fn start(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.machine {
            Machine::Host => alone(&self.inside.join("start.sh")),
            Machine::Wine(session) => {
                let mut command = session.command(Path::new("cmd.exe"), LIMIT);
                command.args(["/c", "C:\\starter.bat"]);
                command.env("START_BAT", windows_path(&self.inside.join("start.bat")));
                command
            }
        };
        self.place(command.args(arguments));
        command
    }

    /// Sets the home, and a current folder that is not the archive's, as for a network share.
    fn place(&self, command: &mut Command) {
        let home = match self.machine {
            Machine::Host => self.home.clone().into_os_string(),
            Machine::Wine(_) => windows_path(&self.home).into(),
        };
        command.current_dir("/").env("SILICONROUTE_HOME", home);
    }
}

/// A call of a program of the host that finds no other program, and no pip above all.
fn alone(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/nonexistent").env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// Returns the number of decisions in what `up --json` printed, each of which has to have a target.
fn check_evaluation(text: &str, measures: bool) -> Result<usize> {
    let document: Value = serde_json::from_str(text).with_context(|| format!("no document: {text}"))?;
    ensure!(document["schema"] == "siliconroute.evaluation/1", "no evaluation: {}", document["schema"]);
    let decisions = document["decisions"].as_array().context("there are no decisions")?;
    ensure!(!decisions.is_empty(), "there are no decisions");
    if let Some(decision) = decisions.iter().find(|decision| decision["chosen"] != EMBEDDED) {
        bail!("a decision has no target that is there: {decision}");
    }
    let trials = document["measured_trials"].as_u64().context("the number of trials is missing")?;
    ensure!((trials > 0) == measures, "{trials} trials were measured");
    Ok(decisions.len())
}

fn rows_of(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The files of a folder without folders in it, with a sum of each.
fn sums_of(folder: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let listing = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut sums = BTreeMap::new();
    for entry in listing {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        sums.insert(path, format!("{:x?}", Sha256::digest(&bytes).as_slice()));
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_without_decisions_or_measurements_is_refused() {
        #[track_caller]
        fn check(decisions: &Value, trials: u64, measures: bool, expected: Option<usize>) {
            let document = serde_json::json!({
                "schema": "siliconroute.evaluation/1", "decisions": decisions, "measured_trials": trials,
            });
            let found = check_evaluation(&document.to_string(), measures);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{found:?}");
        }
        let chosen = serde_json::json!([{"chosen": "cpu/rten"}]);
        check(&chosen, 3, true, Some(1));
        check(&chosen, 0, false, Some(1));
        check(&chosen, 0, true, None);
        check(&chosen, 3, false, None);
        check(&serde_json::json!([]), 3, true, None);
        check(&serde_json::json!([{"chosen": null}]), 3, true, None);
        assert!(check_evaluation("no document", true).is_err());
    }

    #[test]
    fn a_changed_folder_has_other_sums() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let before = sums_of(folder.path()).unwrap();
        fs::write(folder.path().join("a"), "2").unwrap();
        assert_ne!(sums_of(folder.path()).unwrap(), before);
    }
}
