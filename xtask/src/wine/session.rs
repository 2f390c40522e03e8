//! A Wine of this run's own: a folder for Windows' files, a time limit for each program, an end for all of them.
//!
//! Invariant: when the session is dropped, none of its processes lives on and its folder is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::build::{ARCHIVER, COMPILER, compile_library};
use crate::foreign::Foreign;
use crate::step::{check, step};

/// What Wine needs to make a folder of Windows' files.
const START_LIMIT: Duration = Duration::from_mins(5);

/// Parts of Windows that would open windows, ask for downloads or write to the user's menus.
const WITHOUT: &str = "winedbg.exe=d;winemenubuilder.exe=d;mscoree,mshtml=";

/// The programs of the host that are needed, and the Debian package of each.
const NEEDED: &[(&[&str], &str)] = &[
    (&["wine64", "/usr/lib/wine/wine64"], "wine64"),
    (&["wineserver", "/usr/lib/wine/wineserver"], "wine64"),
    (&[COMPILER], "gcc-mingw-w64-x86-64-posix"),
    (&[ARCHIVER], "gcc-mingw-w64-x86-64-posix"),
    (&["timeout"], "coreutils"),
];

/// The host's programs.
#[derive(Debug)]
pub(crate) struct Tools {
    wine: PathBuf,
    server: PathBuf,
}

impl Tools {
    /// Looks for every program that is needed; the error names each that is missing, and its package.
    pub(crate) fn find() -> Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find = |names: &[&str]| {
            let places = names.iter().flat_map(|name| {
                let folders = std::env::split_paths(&path).map(move |folder| folder.join(name));
                folders.collect::<Vec<_>>()
            });
            places.into_iter().find(|place| place.is_file())
        };
        let missing: Vec<String> = NEEDED
            .iter()
            .filter(|(names, _)| find(names).is_none())
            .map(|(names, package)| format!("{} (Debian's package {package})", names[0]))
            .collect();
        if !missing.is_empty() {
            bail!("cannot run Windows programs without {}", missing.join(", "));
        }
        let place = |row: usize| find(NEEDED[row].0).context("a program has just vanished");
        Ok(Self { wine: place(0)?, server: place(1)? })
    }
}

/// Wine with a folder of its own.
#[derive(Debug)]
pub(crate) struct Session {
    tools: Tools,
    prefix: PathBuf,
}

impl Session {
    /// Makes a new folder of Windows' files.
    pub(crate) fn open(tools: Tools, foreign: &Foreign) -> Result<Self> {
        let session = Self { tools, prefix: foreign.cache().join("wine") };
        session.remove_folder();
        fs::create_dir_all(&session.prefix)
            .with_context(|| format!("cannot create {}", session.prefix.display()))?;
        step("start Wine", || {
            let mut command = session.command(Path::new("wineboot.exe"), START_LIMIT);
            check(command.arg("--init").stdout(Stdio::null()).stderr(Stdio::null()))?;
            session.add_missing_library(foreign)
        })?;
        Ok(session)
    }

    /// Adds what Wine 8 lacks and Rust's standard library loads. Newer releases have it.
    fn add_missing_library(&self, foreign: &Foreign) -> Result<()> {
        let library = self.prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        compile_library(&foreign.scripts().join("wine-bcryptprimitives.c"), &library)
    }

    /// Returns a call of a Windows program that is ended after `limit`.
    ///
    /// What stands in the way of a repeatable run is taken from its environment: windows, and settings of this program.
    pub(crate) fn command(&self, program: &Path, limit: Duration) -> Command {
        let mut command = Command::new("timeout");
        // In the foreground, so that a signal reaches the program once.
        command
            .args(["--foreground", "--kill-after=10", &limit.as_secs().to_string()])
            .arg(&self.tools.wine)
            .arg(program);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("SILICONROUTE_") {
                command.env_remove(variable);
            }
        }
        for variable in ["DISPLAY", "WAYLAND_DISPLAY", "RUSTC_BOOTSTRAP"] {
            command.env_remove(variable);
        }
        self.set_variables(&mut command);
        command.stdin(Stdio::null());
        command
    }

    /// The folder that Windows calls `C:`.
    pub(crate) fn drive(&self) -> PathBuf {
        self.prefix.join("drive_c")
    }

    /// Ends every process of the session.
    pub(super) fn end_all(&self) {
        for option in ["-k", "-w"] {
            let mut command = Command::new("timeout");
            command.args(["--foreground", "--kill-after=5", "30"]).arg(&self.tools.server).arg(option);
            self.set_variables(&mut command);
            // There may be nothing to end.
            drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
        }
    }

    fn set_variables(&self, command: &mut Command) {
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env("WINEDLLOVERRIDES", WITHOUT);
        // Wine links the user's own folders into Windows' files.
        command.env("HOME", &self.prefix);
    }

    fn remove_folder(&self) {
        if let Err(error) = fs::remove_dir_all(&self.prefix)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            println!("cannot remove {}: {error}", self.prefix.display());
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_all();
        self.remove_folder();
    }
}
