//! Where threads may run: clusters and packages of cores, and how many threads are worth trying on them.
//!
//! Invariant: no place holds a CPU that the process may not use, and none is tried with more threads than the place has
//! CPUs, the quota has CPUs' worth of time, or the cap allows.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What the cores of a cluster are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum CoreKind {
    Performance,
    Efficiency,
    LowPower,
    /// All cores of the machine are alike.
    Uniform,
}

impl CoreKind {
    fn name(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Efficiency => "efficiency",
            Self::LowPower => "low power",
            Self::Uniform => "all",
        }
    }
}

/// A physical core, as far as the process may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// The package that it sits in.
    pub package: u32,
    /// Its logical CPUs that the process may use; a core without one is left out.
    pub cpus: Vec<u32>,
}

/// Cores of one design.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// What they are made for.
    pub kind: CoreKind,
    /// The cores.
    pub cores: Vec<Core>,
}

/// The CPUs that a process may use, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct Room {
    /// Clusters of cores, fastest first.
    pub clusters: Vec<Cluster>,
    /// CPUs' worth of time that a control group grants, where it limits them.
    pub quota_cpus: Option<f64>,
    /// Whether threads can be held on the CPUs of a place; otherwise all cores together are the only place.
    pub holds_threads: bool,
}

/// A set of cores that threads run on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The place in a word or two, such as `performance` or `performance + efficiency`.
    pub name: String,
    /// The CPUs that threads are held on; `None` leaves them to the system.
    pub cpus: Option<Vec<u32>>,
    /// The CPUs in the order in which measured threads take them, one each: one of every core first, the fastest cores
    /// first, packages in turn. Empty where threads cannot be held.
    pub order: Vec<u32>,
    /// The fewest threads that are tried here; fewer fit on a smaller place.
    pub least_threads: usize,
    /// The most threads that are tried here.
    pub most_threads: usize,
    /// Thread counts at which something is full: all cores, all logical CPUs.
    pub marks: Vec<usize>,
}

impl Room {
    /// `count` equal cores, of which nothing else is known.
    pub fn uniform(count: usize) -> Self {
        let cores = (0..u32::try_from(count).unwrap_or(u32::MAX))
            .map(|cpu| Core { package: 0, cpus: vec![cpu] })
            .collect();
        Self {
            clusters: vec![Cluster { kind: CoreKind::Uniform, cores }],
            quota_cpus: None,
            holds_threads: false,
        }
    }

    /// All CPUs that the process may use, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        cpus_of(self.clusters.iter().flat_map(|cluster| &cluster.cores)).into_iter().collect()
    }

    /// The most threads that are worth trying anywhere: at least 1.
    ///
    /// A thread beyond the quota only brings the moment nearer at which the kernel stops all of them, so the part of a
    /// CPU that a quota grants beyond whole ones is left alone.
    pub fn most_threads(&self, cap: usize) -> usize {
        let quota = self.quota_cpus.filter(|quota| quota.is_finite() && *quota > 0.0);
        let granted = quota.map_or(usize::MAX, |quota| quota.floor().max(1.0) as usize);
        self.cpus().len().min(granted).min(cap).max(1)
    }

    /// The places worth trying, the smaller ones first; at least one.
    ///
    /// Each cluster alone, except low-power cores, which no work is fastest on alone; then the fastest clusters
    /// together, from the fastest down; and the cores of one package, where equal cores sit in several.
    pub fn places(&self, cap: usize) -> Vec<Place> {
        let most = self.most_threads(cap);
        let clusters: Vec<&Cluster> = self
            .clusters
            .iter()
            .filter(|cluster| cluster.cores.iter().any(|core| !core.cpus.is_empty()))
            .collect();
        let everything: Vec<&Core> = clusters.iter().flat_map(|cluster| &cluster.cores).collect();
        let whole = |least: usize| place("all", &everything, false, least, most);
        if !self.holds_threads || everything.is_empty() {
            return vec![Place { order: Vec::new(), ..whole(1) }];
        }
        let mut places = match clusters.as_slice() {
            [only] => packages(&only.cores, most),
            _ => Vec::new(),
        };
        if let [_only] = clusters.as_slice() {
            places.push(whole(if places.is_empty() { 1 } else { 2 }));
            places.retain(|place| place.least_threads <= place.most_threads);
            return places;
        }
        for cluster in clusters.iter().filter(|cluster| cluster.kind != CoreKind::LowPower) {
            places.push(place(cluster.kind.name(), &cluster.cores.iter().collect::<Vec<_>>(), true, 1, most));
        }
        for count in 2..=clusters.len() {
            let together = &clusters[..count];
            let fewer = clusters[..count - 1].iter().flat_map(|cluster| &cluster.cores);
            let fewer = fewer.filter(|core| !core.cpus.is_empty()).count();
            let cores: Vec<&Core> = together.iter().flat_map(|cluster| &cluster.cores).collect();
            let name = together.iter().map(|cluster| cluster.kind.name()).collect::<Vec<_>>().join(" + ");
            places.push(place(&name, &cores, count < clusters.len(), fewer + 1, most));
        }
        places.retain(|place| place.least_threads <= place.most_threads);
        if places.is_empty() { vec![whole(1)] } else { places }
    }
}

/// The first package as a place, where the cores sit in several.
fn packages(cores: &[Core], most: usize) -> Vec<Place> {
    let usable = || cores.iter().filter(|core| !core.cpus.is_empty());
    let numbers: BTreeSet<u32> = usable().map(|core| core.package).collect();
    match numbers.first() {
        Some(first) if numbers.len() > 1 => {
            let cores: Vec<&Core> = usable().filter(|core| core.package == *first).collect();
            vec![place(&format!("package {first}"), &cores, true, 1, most)]
        }
        _ => Vec::new(),
    }
}

fn cpus_of<'a>(cores: impl IntoIterator<Item = &'a Core>) -> BTreeSet<u32> {
    cores.into_iter().flat_map(|core| core.cpus.iter().copied()).collect()
}

fn place(name: &str, cores: &[&Core], held: bool, least: usize, most: usize) -> Place {
    let cpus = cpus_of(cores.iter().copied());
    let most_threads = most.min(cpus.len().max(1));
    let used = cores.iter().filter(|core| !core.cpus.is_empty()).count();
    let mut marks = vec![used, most_threads];
    marks.retain(|mark| (least..=most_threads).contains(mark));
    marks.dedup();
    Place {
        name: name.to_owned(),
        cpus: held.then(|| cpus.into_iter().collect()),
        order: order(cores),
        least_threads: least,
        most_threads,
        marks,
    }
}

/// The CPUs of some cores in the order in which threads take them.
fn order(cores: &[&Core]) -> Vec<u32> {
    let mut met: BTreeMap<u32, usize> = BTreeMap::new();
    let mut ranked = Vec::new();
    for core in cores.iter().filter(|core| !core.cpus.is_empty()) {
        let of_package = met.entry(core.package).or_default();
        ranked.extend(core.cpus.iter().enumerate().map(|(sibling, cpu)| (sibling, *of_package, *cpu)));
        *of_package += 1;
    }
    // Cores of one package come fastest first, so the first of each package come before the second ones.
    ranked.sort_by_key(|(sibling, of_package, _)| (*sibling, *of_package));
    let mut taken = BTreeSet::new();
    ranked.into_iter().map(|(_, _, cpu)| cpu).filter(|cpu| taken.insert(*cpu)).collect()
}

impl Place {
    /// The thread counts that are tried at first: every one up to 4, then steps of about a half, and the marks.
    pub fn first_counts(&self) -> Vec<usize> {
        let steps = (2_u32..).flat_map(|power| [1_usize << power, 3 << (power - 1)]);
        let above = steps.take_while(|count| *count <= self.most_threads);
        let counts: BTreeSet<usize> = (1..=4)
            .chain(above)
            .chain(self.marks.iter().copied())
            .filter(|count| (self.least_threads..=self.most_threads).contains(count))
            .chain([self.least_threads, self.most_threads])
            .collect();
        counts.into_iter().collect()
    }
}
