//! Runs the program in a folder of its own and looks at what it did.
//!
//! Invariant: whatever a test does, a panic of the program fails it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The smallest synthetic model.
pub(crate) const MODEL: &str = "mlp-128w-4l";

/// A folder with a home in it, both gone when the test is over.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        // Taken apart, so that Windows' separator is what stands between its parts.
        self.folder.path().join(name).components().collect()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.home().join("store.sqlite")
    }

    /// Writes a file, and its folder where there is none yet.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// The command with these arguments, ready to be started in the sandbox.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare_command();
        command.arg("--home").arg(self.home()).arg("--offline").args(arguments);
        command
    }

    /// The program without any argument.
    pub(crate) fn bare_command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_siliconroute"));
        self.prepare(&mut command);
        command
    }

    /// Gives `command` the sandbox's surroundings: nothing of the user's own settings is left.
    pub(crate) fn prepare(&self, command: &mut Command) {
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("SILICONROUTE_") {
                command.env_remove(variable);
            }
        }
        command
            .env("SILICONROUTE_TRIAL_BUDGET_MS", "1")
            .env("COLUMNS", "100")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn succeed(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code(), Some(0), "{arguments:?}: {}", ran.err);
        ran
    }

    /// Runs a command that must succeed and print one JSON document of this schema.
    #[track_caller]
    pub(crate) fn document(&self, schema: &str, arguments: &[&str]) -> Value {
        let document = self.succeed(&[arguments, &["--json"]].concat()).json();
        assert_eq!(document["schema"], schema, "{arguments:?}");
        document
    }

    /// Runs a command that must fail with `code` and a message that holds all of `parts`.
    #[track_caller]
    pub(crate) fn refuse(&self, code: i32, parts: &[&str], arguments: &[&str]) -> Ran {
        let ran = self.run(&[arguments, &["--json"]].concat());
        ran.is_refusal(code, parts);
        ran
    }

    /// Starts a command and leaves it running.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Writes the smallest synthetic model into the sandbox and gives its file.
    #[track_caller]
    pub(crate) fn generate(&self) -> PathBuf {
        self.succeed(&["models", "generate", MODEL, "--to", text(&self.path("."))]);
        self.path(&format!("{MODEL}.onnx"))
    }

    /// Measures the smallest synthetic model in the shortest way.
    #[track_caller]
    pub(crate) fn measure(&self) -> Value {
        self.document("siliconroute.bench/1", &["bench", "-m", MODEL, "--time", "0.01"])
    }

    /// Makes sure that nothing is broken.
    #[track_caller]
    pub(crate) fn is_intact(&self) {
        let found = self.document("siliconroute.doctor/1", &["doctor"]);
        let checks = found["checks"].as_array().unwrap();
        let store = checks.iter().find(|check| check["subject"] == "store").unwrap();
        assert_eq!(store["health"], "good", "{store}");
        assert!(checks.iter().all(|check| check["health"] != "broken"), "{found}");
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn of(output: Output) -> Self {
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{err}");
        Self { status: output.status, out, err }
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The one JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Whether the command, asked for a document, failed with `code` and said all of `parts`.
    #[track_caller]
    pub(crate) fn is_refusal(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code(), Some(code), "{}", self.err);
        let document = self.json();
        assert_eq!(document["schema"], "siliconroute.error/1", "{document}");
        assert_eq!(document["error"]["exit_code"], code, "{document}");
        let said = format!("error: {}", document["error"]["message"].as_str().unwrap());
        assert!(self.err.contains(said.lines().next().unwrap()), "{said} is not in: {}", self.err);
        let message = self.err.lines().skip_while(|line| !line.starts_with("error: ")).collect::<Vec<_>>();
        assert!(!message.is_empty(), "no message: {}", self.err);
        for part in parts {
            assert!(message.join("\n").contains(part), "`{part}` is not in: {}", self.err);
        }
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Says what this system does not let a test see, past the capture of a test that passes.
#[cfg(unix)]
pub(crate) fn not_tested(reason: &str) {
    use std::io::Write as _;
    std::io::stderr().write_all(format!("NOT TESTED: {reason}\n").as_bytes()).unwrap();
}
