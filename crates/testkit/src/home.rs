//! A home folder of a test: packages that hold no code, a clock that steps, a network that is away.
//!
//! Invariant: nothing outside of the folder is written, but for generated models, which tests share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use siliconroute::settings::Settings;
use siliconroute::{Options, Router};
use siliconroute_core::decide::Context;
use siliconroute_engine::packages::{
    FetchError, Fetcher, PackageKind, Platform, Progress, Sha256Digest, WheelPin,
};
use tempfile::TempDir;

use crate::launcher::FakeLauncher;
use crate::sensors::FakeSensors;
use crate::workbench::FakeWorkbench;

/// A fetcher without a network.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unreachable;

impl Fetcher for Unreachable {
    fn fetch(&self, _: &WheelPin, _: &Path, _: &mut dyn Progress) -> Result<PathBuf, FetchError> {
        let (program, reason) = ("pip".to_owned(), "there is no network in a test".to_owned());
        Err(FetchError::Unreachable { program, reason })
    }
}

/// A clock that goes on by a millisecond with each look at it.
pub fn step_clock() -> i64 {
    static NOW: AtomicI64 = AtomicI64::new(1_700_000_000_000);
    NOW.fetch_add(1, Ordering::Relaxed)
}

/// A home folder that goes away with the test.
#[derive(Debug)]
pub struct TestHome {
    folder: TempDir,
    /// Where tests share their models, unless this one has a folder of its own.
    shared: Mutex<Option<PathBuf>>,
}

impl TestHome {
    /// An empty home. Models that are generated in it go to `models`, where other tests find them.
    ///
    /// # Panics
    /// When the folders cannot be made.
    pub fn new(models: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::fs::create_dir_all(models).expect("the folder of models can be made");
        // Generating 100 MB anew for every test would take longer than the tests themselves.
        share_models(models, &folder.path().join("models"));
        Self { folder, shared: Mutex::new(Some(models.to_owned())) }
    }

    /// Gives this home a folder of models that no other test sees, and that is empty.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn separate_models(&self) -> PathBuf {
        let models = self.path().join("models");
        if self.shared.lock().expect("no test panics in here").take().is_some() {
            let link = models.is_symlink();
            // Put aside, not removed: a folder that somebody has just looked into may outlive its removal on Windows.
            let aside = self.path().join("models of other tests");
            if link { std::fs::remove_file(&models) } else { std::fs::rename(&models, aside) }
                .expect("the models can be left to other tests");
            std::fs::create_dir(&models).expect("the folder of models can be made");
        }
        models
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Everything that the home holds but its models, by path.
    ///
    /// # Panics
    /// When something cannot be read.
    pub fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(self.path().join(&folder)).expect("a folder can be read");
            for entry in entries.map(|entry| entry.expect("a folder can be read")) {
                let path = folder.join(entry.file_name());
                let whole = self.path().join(&path);
                match entry.file_type().expect("the system tells what an entry is") {
                    kind if kind.is_dir() && path != Path::new("models") => folders.push(path),
                    kind if kind.is_file() => {
                        found.insert(path, std::fs::read(whole).expect("a file can be read"));
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// Adds what another home holds.
    ///
    /// # Panics
    /// When something cannot be written.
    pub fn fill(&self, contents: &BTreeMap<PathBuf, Vec<u8>>) {
        for (path, bytes) in contents {
            let whole = self.path().join(path);
            std::fs::create_dir_all(whole.parent().expect("a home has a path"))
                .expect("a folder can be made");
            std::fs::write(whole, bytes).expect("a file can be written");
        }
    }

    /// Installs a package without code; [`FakeLauncher`] finds its engine by `name`.
    ///
    /// # Panics
    /// When the platform has no packages or a file cannot be written.
    pub fn package(&self, name: &str, version: &str, kind: PackageKind) {
        let root = self.path().join("packages");
        self.remove_package(name);
        let dir = root.join(format!("{name}-{version}"));
        std::fs::create_dir_all(&dir).expect("the package's folder can be made");
        let (library, bytes) = (format!("{name}.library"), b"simulated");
        let digest = Sha256Digest::of(bytes).to_string();
        std::fs::write(dir.join(&library), bytes).expect("the library can be written");
        let record = serde_json::json!({
            "schema": 1, "name": name, "version": version, "kind": kind,
            "platform": Platform::current().expect("packages exist for the platforms that tests run on"),
            "providers": [{"name": format!("{name}ExecutionProvider"), "short": name}],
            "library": library, "needs_search_path": false, "wheel_sha256": digest, "source": "wheel_file",
            "installed_at_unix_s": 1_700_000_000,
            "members": [{"path": library, "size_bytes": bytes.len(), "sha256": digest}],
        });
        std::fs::write(dir.join("package.json"), record.to_string()).expect("the record can be written");
    }

    /// Removes all versions of a package.
    ///
    /// # Panics
    /// When a folder cannot be removed.
    pub fn remove_package(&self, name: &str) {
        let Ok(entries) = std::fs::read_dir(self.path().join("packages")) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("{name}-")) {
                std::fs::remove_dir_all(entry.path()).expect("a package can be removed");
            }
        }
    }

    /// Options for this home: the script's workers, a stepping clock, no network, no sensors.
    ///
    /// # Panics
    /// When the settings cannot be resolved.
    pub fn options(&self, launcher: &FakeLauncher) -> Options {
        let settings =
            Settings::resolve(self.path(), [], &BTreeMap::new()).expect("the default settings are usable");
        Options {
            clock: step_clock,
            sleep: |_time| (),
            launcher: Some(Arc::new(launcher.clone())),
            fetcher: Some(Arc::new(Unreachable)),
            sensors: FakeSensors::of(launcher, &[]),
            // Whatever machine the tests run on, its battery and heat decide nothing.
            context: Context::default,
            workbench: Arc::new(FakeWorkbench::new(2)),
            ..Options::new(self.path().to_owned(), settings)
        }
    }

    /// A router on this home.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn router(&self, launcher: &FakeLauncher) -> Router {
        Router::open(self.options(launcher)).expect("a router opens on an own home")
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        let shared = self.shared.get_mut().ok().and_then(Option::take);
        let models = self.folder.path().join("models");
        if let Some(shared) = shared.filter(|_| !models.is_symlink()) {
            link_models(&models, &shared);
        }
    }
}

/// Lets the folder `models` hold what `shared` holds.
#[cfg(unix)]
fn share_models(shared: &Path, models: &Path) {
    std::os::unix::fs::symlink(shared, models).expect("a link can be made");
}

/// Lets the folder `models` hold what `shared` holds; on Windows, a link to a folder needs a privilege.
#[cfg(not(unix))]
fn share_models(shared: &Path, models: &Path) {
    std::fs::create_dir(models).expect("the folder of models can be made");
    link_models(shared, models);
}

/// Gives the models in `from` a second name in `to`; what cannot be linked is generated anew.
fn link_models(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Under any other name a model may be written just now.
        if name.to_string_lossy().ends_with(".onnx") {
            drop(std::fs::hard_link(entry.path(), to.join(name)));
        }
    }
}
