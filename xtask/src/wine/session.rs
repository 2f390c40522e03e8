//! A Wine of this run's own: a folder for Windows' files, a time limit for each program, an end for all of them.
//!
//! Invariant: when the session is dropped, none of its processes lives on and its folder is gone.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::build::{ARCHIVER, COMPILER, compile_library};
use crate::foreign::Foreign;
use crate::step::{check, step};

/// What Wine needs to make a folder of Windows' files.
const START_LIMIT: Duration = Duration::from_mins(5);

/// Parts of Windows that would open windows, ask for downloads or write to the user's menus.
const WITHOUT: &str = "winedbg.exe=d;winemenubuilder.exe=d;mscoree,mshtml=";

/// What Wine itself keeps running beside programs, in its folder of system files.
const SERVICES: &[&str] =
    &["explorer.exe", "plugplay.exe", "rpcss.exe", "services.exe", "svchost.exe", "winedevice.exe"];

/// Where those lie.
const SYSTEM_FOLDER: &str = "C:\\windows\\system32\\";

/// The programs of the host that are needed, and the Debian package of each.
const NEEDED: &[(&[&str], &str)] = &[
    (&["wine64", "/usr/lib/wine/wine64"], "wine64"),
    (&["wineserver", "/usr/lib/wine/wineserver"], "wine64"),
    (&[COMPILER], "gcc-mingw-w64-x86-64-posix"),
    (&[ARCHIVER], "gcc-mingw-w64-x86-64-posix"),
    (&["timeout"], "coreutils"),
];

/// The host's programs.
#[derive(Debug, Clone)]
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
    /// A program that waits for input which never comes, and the desktop: without any program Wine's services begin to
    /// end, and for a while the next one waits 10 seconds for them.
    kept: Mutex<Vec<Child>>,
}

impl Session {
    /// Makes a new folder of Windows' files, with `name` in the cache.
    pub(crate) fn open(tools: Tools, foreign: &Foreign, name: &str) -> Result<Self> {
        let session = Self { tools, prefix: foreign.cache().join(name), kept: Mutex::default() };
        session.remove_folder();
        fs::create_dir_all(&session.prefix)
            .with_context(|| format!("cannot create {}", session.prefix.display()))?;
        step(&format!("start Wine in `{name}`"), || {
            session.start_server()?;
            let mut command = session.command(Path::new("wineboot.exe"), START_LIMIT);
            check(command.arg("--init").stdout(Stdio::null()).stderr(Stdio::null()))?;
            session.start_keeper()?;
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

    /// Ends what programs have left running.
    ///
    /// Wine's own services stay, since a start of them takes as long as many a file of tests.
    pub(super) fn end_programs(&self) -> Result<()> {
        if self.holds_programs()? {
            self.end_all();
            self.start_server()?;
            self.start_keeper()?;
        }
        Ok(())
    }

    /// Starts the program that keeps the services running, and the desktop.
    ///
    /// The desktop lives as long as that program. Where the first program of a test started it, it would hold the pipe
    /// that the test waits for.
    fn start_keeper(&self) -> Result<()> {
        let mut keeper = self.own_program("cmd.exe");
        let keeper =
            keeper.stdin(Stdio::piped()).spawn().context("cannot start Wine's command interpreter")?;
        let mut desktop = self.own_program("explorer.exe");
        let desktop = desktop.arg("/desktop").spawn().context("cannot start Wine's desktop")?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend([keeper, desktop]);
        Ok(())
    }

    /// Returns a call of one of Wine's own programs.
    fn own_program(&self, name: &str) -> Command {
        let mut command = Command::new(&self.tools.wine);
        self.set_variables(&mut command);
        for variable in ["DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(variable);
        }
        command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// The numbers of the processes that were started to stay.
    fn kept_numbers(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().map(|kept| kept.id().to_string()).collect()
    }

    /// Starts Wine's server so that it outlives the programs.
    fn start_server(&self) -> Result<()> {
        let mut command = Command::new(&self.tools.server);
        self.set_variables(&mut command);
        check(command.arg("--persistent").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Whether a process of the session is none of Wine's own.
    fn holds_programs(&self) -> Result<bool> {
        let mut mark = OsString::from("WINEPREFIX=");
        mark.push(&self.prefix);
        let kept = self.kept_numbers();
        for process in fs::read_dir("/proc").context("cannot list the processes")? {
            let folder = process.context("cannot list the processes")?.path();
            // No process, or one that has just ended, or another user's.
            let (Ok(variables), Ok(words)) =
                (fs::read(folder.join("environ")), fs::read(folder.join("cmdline")))
            else {
                continue;
            };
            let of_session = variables.split(|byte| *byte == 0).any(|one| one == mark.as_encoded_bytes());
            let keeps = kept.iter().any(|number| folder.ends_with(number));
            if of_session && !keeps && !is_part_of_wine(&String::from_utf8_lossy(&words)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends every process of the session.
    fn end_all(&self) {
        for option in ["-k", "-w"] {
            let mut command = Command::new("timeout");
            command.args(["--foreground", "--kill-after=5", "30"]).arg(&self.tools.server).arg(option);
            self.set_variables(&mut command);
            // There may be nothing to end.
            drop(command.stdout(Stdio::null()).stderr(Stdio::null()).status());
        }
        // They have ended with the others; the system still has to hear that somebody has taken note.
        for mut kept in self.kept.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(kept.kill());
            drop(kept.wait());
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

/// Whether a process with this command line, whose words end with zeros, is one of Wine's own or has already ended.
fn is_part_of_wine(words: &str) -> bool {
    let program = words.split('\0').next().unwrap_or_default();
    // Wine's loader puts the whole line into the first word.
    let file = program.strip_prefix(SYSTEM_FOLDER).and_then(|line| line.split(' ').next());
    let name = Path::new(program.split(' ').next().unwrap_or_default()).file_name();
    program.is_empty()
        || file.is_some_and(|file| SERVICES.contains(&file))
        || name.is_some_and(|name| name.to_string_lossy().starts_with("wineserver"))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_all();
        self.remove_folder();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_wine_are_told_from_what_a_test_has_left_running() {
        #[track_caller]
        fn check(words: &str, part: bool) {
            assert_eq!(is_part_of_wine(words), part, "{words:?}");
        }
        check("", true);
        check("/usr/lib/wine/wineserver64\0-p0\0-p\0", true);
        check("C:\\windows\\system32\\services.exe\0", true);
        check("C:\\windows\\system32\\svchost.exe -k LocalServiceNetworkRestricted\0", true);
        check("C:\\windows\\system32\\explorer.exe\0/desktop\0", true);
        check("C:\\windows\\system32\\cmd.exe\0/c\0ping\0", false);
        check("Z:\\c\\debug\\siliconroute.exe\0worker\0", false);
        check("Z:\\c\\services.exe\0", false);
        check("/usr/lib/wine/wine64\0wineserver\0", false);
    }
}
