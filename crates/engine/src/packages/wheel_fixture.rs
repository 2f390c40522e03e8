//! Wheels and fetchers made up for tests.
//!
//! Invariant: what `Fixture` describes as a package is what its wheel really holds; tests spoil it on purpose.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::fetch::{FetchError, Fetcher};
use super::pin::{MemberPin, Sha256Digest, WheelPin};
use super::progress::{Progress, Step};
use super::table::Table;
use super::{Package, Platform, Wheel};

pub(super) const FILE: &str = "engine_demo-1.2.3-py3-none-manylinux_2_28_x86_64.whl";
pub(super) const LIBRARY: &str = "demo/libdemo.so.1.2.3";
pub(super) const MEMBERS: &[(&str, &[u8])] = &[
    (LIBRARY, b"the library"),
    ("demo.libs/libhelp.so", b"a sibling"),
    ("demo-1.2.3.dist-info/licenses/LICENSE", b"do as you like"),
];

/// A wheel that holds `members` and a file that nobody asks for.
pub(super) fn wheel_bytes(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in members.iter().chain(&[("demo/__init__.py", b"raise SystemExit".as_slice())]) {
        zip.start_file(*path, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub(super) fn member(path: &str, bytes: &[u8]) -> MemberPin {
    MemberPin {
        path: path.to_owned(),
        size_bytes: bytes.len() as u64,
        sha256: Sha256Digest::of(bytes),
        also: Vec::new(),
    }
}

pub(super) fn pin_of(bytes: &[u8]) -> WheelPin {
    WheelPin::new("engine-demo", "1.2.3", FILE, Sha256Digest::of(bytes), bytes.len() as u64).unwrap()
}

/// A table with the package `demo` in version 1.2.3, whose wheel has `bytes`.
pub(super) fn demo_table(bytes: &[u8]) -> Table {
    let members = MEMBERS.iter().map(|(path, bytes)| {
        let also = if *path == LIBRARY { r#", also = ["demo/libdemo.so"]"# } else { "" };
        let digest = Sha256Digest::of(bytes);
        format!("{{ path = '{path}', size_bytes = {}, sha256 = '{digest}'{also} }},\n", bytes.len())
    });
    let text = format!(
        "schema = 1\n[[package]]\nname = 'demo'\nkind = 'plugin'\ndistribution = 'engine-demo'\n\
         version = '1.2.3'\nlicence = 'MIT'\nneeds = 'cpu'\nrecommended = true\nwhy = 'a demonstration'\n\
         providers = [{{ name = 'DemoExecutionProvider', short = 'demo' }}]\n\
         runtime = {{ min = '1.24.1', max = '1.32.0', proven = true }}\n[[package.wheel]]\n\
         platform = 'linux-x86_64'\nfile = '{FILE}'\nsha256 = '{}'\nsize_bytes = {}\nlibrary = '{LIBRARY}'\n\
         needs_search_path = true\nmembers = [\n{}]\n",
        Sha256Digest::of(bytes),
        bytes.len(),
        members.collect::<String>(),
    );
    Table::parse(&text).unwrap()
}

/// The package `demo` and its wheel, whose file has `bytes`.
pub(super) fn demo_package(bytes: &[u8]) -> (Package, Wheel) {
    let package = demo_table(bytes).packages()[0].clone();
    let wheel = package.wheel(Platform::LinuxX86_64).unwrap().clone();
    (package, wheel)
}

/// Delivers fixed bytes and counts how often it was asked.
pub(super) struct FakeFetcher {
    pub(super) bytes: Vec<u8>,
    pub(super) asked: AtomicU32,
}

impl FakeFetcher {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, asked: AtomicU32::new(0) }
    }
}

impl Fetcher for FakeFetcher {
    fn fetch(
        &self,
        wheel: &WheelPin,
        dir: &Path,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, FetchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if progress.is_cancelled() {
            return Err(FetchError::Cancelled);
        }
        let path = dir.join(wheel.file());
        fs::write(&path, &self.bytes).map_err(|source| FetchError::Io { path: path.clone(), source })?;
        Ok(path)
    }
}

/// Called with the name of each step.
pub(super) type OnStep = Box<dyn FnMut(&str)>;

/// Remembers the steps by name and cancels when it sees the one it waits for.
#[derive(Default)]
pub(super) struct Recorder {
    pub(super) steps: Vec<String>,
    pub(super) cancel_at: Option<&'static str>,
    pub(super) on_step: Option<OnStep>,
}

impl Progress for Recorder {
    fn step(&mut self, step: Step<'_>) {
        let name = match step {
            Step::Waiting => "waiting".to_owned(),
            Step::Fetching { .. } => "fetching".to_owned(),
            Step::Checking => "checking".to_owned(),
            Step::Unpacking { member } => format!("unpacking {member}"),
            Step::Done => "done".to_owned(),
        };
        if let Some(on_step) = &mut self.on_step {
            on_step(&name);
        }
        if self.steps.last() != Some(&name) {
            self.steps.push(name);
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel_at.is_some_and(|at| self.steps.iter().any(|step| step.starts_with(at)))
    }
}
