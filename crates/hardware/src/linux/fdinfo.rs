//! What a process has on each GPU and NPU, from the `fdinfo` of its open device files.
//!
//! The format is the kernel's `drm-usage-stats`. Invariant: a client that is open under several descriptors
//! counts once.

use std::collections::BTreeMap;

use siliconroute_core::Reading;

use crate::chip_sensors::EngineWork;
use crate::roots::{Roots, list_names, read_text};

/// More open files than a process that runs models has; bounds the work on any other.
const FILE_LIMIT: usize = 4096;

/// One client of a device: a file that a process has opened there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Client {
    pub(crate) driver: String,
    /// The PCI address; devices on other buses have none.
    pub(crate) place: Option<String>,
    pub(crate) work: Option<EngineWork>,
    pub(crate) device_bytes: Option<u64>,
    pub(crate) shared_bytes: Option<u64>,
}

/// Lists the clients of process `pid`, each once.
pub(crate) fn clients(roots: &Roots, pid: u32) -> Reading<Vec<Client>> {
    let folder = roots.proc.join(pid.to_string()).join("fdinfo");
    list_names(&folder).map(|names| {
        let mut found = BTreeMap::new();
        for name in names.into_iter().take(FILE_LIMIT) {
            // A file may be closed between the listing and the reading.
            let Reading::Available(text) = read_text(&folder.join(name)) else { continue };
            if let Some((id, client)) = parse(&text) {
                found.insert((client.driver.clone(), client.place.clone(), id), client);
            }
        }
        found.into_values().collect()
    })
}

/// Reads one `fdinfo`; `None` where the file is not that of a device.
fn parse(text: &str) -> Option<(u64, Client)> {
    let mut driver = None;
    let mut place = None;
    let mut id = None;
    let (mut time, mut busy, mut total) = (None::<u64>, None::<u64>, None::<u64>);
    let mut memory = Memory::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let Some(key) = key.strip_prefix("drm-") else { continue };
        match key {
            "driver" => driver = Some(value.to_owned()),
            "pdev" => place = Some(value.to_lowercase()),
            "client-id" => id = value.parse::<u64>().ok(),
            _ => {
                if key.starts_with("engine-capacity-") {
                    // How many engines of a kind there are, no time.
                } else if key.starts_with("engine-") {
                    add(&mut time, value.strip_suffix("ns").unwrap_or(value).trim().parse().ok());
                } else if key.starts_with("total-cycles-") {
                    total = total.max(value.parse().ok());
                } else if key.starts_with("cycles-") {
                    add(&mut busy, value.parse().ok());
                } else if let Some(region) = key.strip_prefix("resident-") {
                    memory.note(region, true, bytes(value));
                } else if let Some(region) = key.strip_prefix("memory-") {
                    memory.note(region, false, bytes(value));
                }
            }
        }
    }
    let work = match (time, busy, total) {
        (Some(ns), ..) => Some(EngineWork::Time { ns }),
        (None, Some(busy), Some(total)) => Some(EngineWork::Cycles { busy, total }),
        _ => None,
    };
    let client = Client {
        driver: driver?,
        place,
        work,
        device_bytes: memory.sum(|region| region.starts_with("vram") || region.starts_with("local")),
        shared_bytes: memory.sum(|region| !(region.starts_with("vram") || region.starts_with("local"))),
    };
    Some((id?, client))
}

/// Bytes by region; `resident` counts before the older word `memory`.
#[derive(Default)]
struct Memory(BTreeMap<String, (bool, u64)>);

impl Memory {
    fn note(&mut self, region: &str, resident: bool, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return };
        let known = self.0.get(region).is_some_and(|(known, _)| *known && !resident);
        if !known {
            self.0.insert(region.to_owned(), (resident, bytes));
        }
    }

    fn sum(&self, wanted: impl Fn(&str) -> bool) -> Option<u64> {
        let mut sum = None;
        for (_, (_, bytes)) in self.0.iter().filter(|(region, _)| wanted(region)) {
            add(&mut sum, Some(*bytes));
        }
        sum
    }
}

fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
}

/// A size such as `36496 KiB`; without a unit it is in bytes.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number = words.next()?.parse::<u64>().ok()?;
    let unit = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests;
