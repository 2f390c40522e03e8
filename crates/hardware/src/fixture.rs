//! Captured machines as trees of small files, for tests.
//!
//! Invariant: a tree lives in its own temporary directory and goes with it.

pub(crate) mod laptops;
pub(crate) mod macs;
pub(crate) mod windows_machines;

use siliconroute_core::chip::ChipIdentity;
use siliconroute_core::{Chip, ChipKey, ChipKind, Reading};
use tempfile::TempDir;

use crate::host::{HostFacts, HostProbe};
use crate::processor::Processor;
use crate::roots::Roots;

/// A chip with the key given, and the ids and the place that the key names.
pub(crate) fn chip(key: &str) -> Chip {
    let (head, place) = key.split_once('@').map_or((key, None), |(head, place)| (head, Some(place)));
    let mut parts = head.split(':');
    let kind = match parts.next() {
        Some("gpu") => ChipKind::Gpu,
        Some("npu") => ChipKind::Npu,
        _ => ChipKind::Cpu,
    };
    let mut id = || u16::from_str_radix(parts.next()?, 16).ok();
    let identity = ChipIdentity {
        pci_vendor: id(),
        pci_device: id(),
        bus_address: place.map(str::to_owned),
        ..ChipIdentity::default()
    };
    Chip {
        key: ChipKey(key.to_owned()),
        kind,
        vendor: "test".to_owned(),
        name: key.to_owned(),
        identity,
        memory_bytes: None,
        software: false,
        driver: None,
    }
}

/// A tree of small files in the layout of `/`.
#[derive(Debug)]
pub(crate) struct Tree(TempDir);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::under(self.0.path())
    }

    /// The host that the tree tells of, with a processor of which nothing is asked.
    pub(crate) fn host_facts(&self) -> HostFacts {
        let unknown = || Reading::unavailable("not asked");
        let processor = Processor {
            name: unknown(),
            vendor: unknown(),
            architecture: "x86_64".to_owned(),
            vector_extensions: Vec::new(),
            hypervisor: Reading::Available(None),
        };
        HostProbe::new(self.roots()).with_processor(processor).facts()
    }

    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.bytes(path, text.as_bytes())
    }

    pub(crate) fn bytes(self, path: &str, content: &[u8]) -> Self {
        let full = self.0.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, content).unwrap();
        self
    }

    pub(crate) fn files(self, files: &[(&str, &str)]) -> Self {
        files.iter().fold(self, |tree, (path, text)| tree.file(path, text))
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        std::fs::create_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    /// Adds a file whose reading hangs until [`Tree::let_go`]: a pipe that nobody writes to.
    #[cfg(unix)]
    #[expect(unsafe_code, reason = "the standard library makes no pipes with names")]
    pub(crate) fn hanging(self, path: &str) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let full = self.0.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        if full.exists() {
            std::fs::remove_file(&full).unwrap();
        }
        let name = std::ffi::CString::new(full.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a NUL.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        self
    }

    /// Ends the hanging of a file, which holds `text` from then on.
    #[cfg(unix)]
    pub(crate) fn let_go(self, path: &str, text: &str) -> Self {
        let full = self.0.path().join(path);
        // Opening waits for the reader, which then finds the pipe empty and closed.
        drop(std::fs::OpenOptions::new().write(true).open(&full).unwrap());
        std::fs::remove_file(&full).unwrap();
        self.file(path, text)
    }

    /// Takes a folder away, as a device goes.
    pub(crate) fn without(self, path: &str) -> Self {
        std::fs::remove_dir_all(self.0.path().join(path)).unwrap();
        self
    }

    /// Describes `online` CPUs; each group of `siblings` consecutive CPUs shares a core.
    pub(crate) fn cpus(self, online: u32, siblings: u32) -> Self {
        let mut tree = self
            .file("sys/devices/system/cpu/online", &format!("0-{}\n", online - 1))
            .file("sys/devices/system/cpu/smt/active", if siblings > 1 { "1\n" } else { "0\n" });
        for cpu in 0..online {
            let first = cpu / siblings * siblings;
            let list =
                if siblings > 1 { format!("{first}-{}", first + siblings - 1) } else { cpu.to_string() };
            tree =
                tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &list);
        }
        tree
    }

    /// Gives each of `cpus` an attribute below its directory.
    pub(crate) fn each_cpu(self, cpus: std::ops::Range<u32>, attribute: &str, text: &str) -> Self {
        cpus.fold(self, |tree, cpu| tree.file(&format!("sys/devices/system/cpu/cpu{cpu}/{attribute}"), text))
    }

    /// Adds one cache to each of `cpus`; consecutive groups of `shared` CPUs share an instance.
    pub(crate) fn cache(
        self,
        cpus: std::ops::Range<u32>,
        index: u32,
        (level, kind, size): (u32, &str, &str),
        shared: u32,
    ) -> Self {
        let start = cpus.start;
        cpus.fold(self, |tree, cpu| {
            let first = start + (cpu - start) / shared * shared;
            let base = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            tree.file(&format!("{base}/level"), &format!("{level}\n"))
                .file(&format!("{base}/type"), &format!("{kind}\n"))
                .file(&format!("{base}/size"), &format!("{size}\n"))
                .file(&format!("{base}/coherency_line_size"), "64\n")
                .file(&format!("{base}/shared_cpu_list"), &format!("{first}-{}\n", first + shared - 1))
        })
    }
}
