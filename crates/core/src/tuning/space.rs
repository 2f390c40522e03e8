//! Which settings there are to try on a processor.
//!
//! Invariant: the defaults are always among them, and every set of settings is one that the provider takes.

use serde::{Deserialize, Serialize};

use crate::target::{Cores, CpuSettings};

/// Numbers of blocks for each thread that are tried.
const BLOCK_BASES: [u32; 5] = [LEAST_BLOCK_BASE, 2, FIRST_BLOCK_BASE, 8, 16];

/// The one that is tried first, which ONNX Runtime's documentation suggests; its neighbours only if it gains something.
const FIRST_BLOCK_BASE: u32 = 4;

/// The least, which is tried beside it: where blocks are costly, one for each thread gains and four lose.
const LEAST_BLOCK_BASE: u32 = 1;

/// A processor as the search sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Threads that can run at once: logical CPUs, or fewer where the process may not use all of them.
    pub usable: u32,
    /// Threads that an engine takes by itself: physical cores.
    pub default_threads: u32,
    /// The cores that can be named with their numbers, the fastest first; none where all are alike or threads cannot
    /// be kept to cores.
    pub named: Vec<(Cores, u32)>,
}

/// Which settings a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knobs {
    /// Whether its threads can be told to spin or not, and its work to be cut in blocks.
    pub spin_and_blocks: bool,
    /// Whether its threads can be kept to cores.
    pub cores: bool,
}

/// All that can be tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The processor.
    pub processor: Processor,
    /// The settings that the provider takes beside the number of threads.
    pub knobs: Knobs,
}

impl Space {
    /// The threads that settings lead to.
    pub fn threads_of(&self, settings: &CpuSettings) -> u32 {
        settings.threads.unwrap_or(self.processor.default_threads).max(1)
    }

    /// Every sensible combination, the defaults first: what an exhaustive sweep measures.
    pub fn every(&self) -> Vec<CpuSettings> {
        let mut all = vec![CpuSettings::default()];
        let counts = std::iter::once(None).chain((1..=self.processor.usable).map(Some));
        for threads in counts {
            let plain = CpuSettings { threads, ..CpuSettings::default() };
            if self.threads_of(&plain) == 1 {
                add(&mut all, plain);
                continue;
            }
            let cores = std::iter::once(None).chain(self.named().map(|(cores, _)| Some(cores.clone())));
            for cores in cores.filter(|cores| cores.is_none() || threads.is_some()) {
                for spin in self.spins() {
                    for block_base in self.block_bases() {
                        add(&mut all, CpuSettings { threads, spin, block_base, cores: cores.clone() });
                    }
                }
            }
        }
        all
    }

    /// Where a search begins: numbers of threads in steps of a factor of two, all cores, and each kind of cores alone.
    pub(super) fn starts(&self) -> Vec<CpuSettings> {
        let Processor { usable, default_threads, .. } = &self.processor;
        let mut starts = Vec::new();
        let powers = std::iter::successors(Some(1_u32), |count| count.checked_mul(2));
        let few = (1..=*usable).filter(|count| *count <= 4);
        let sizes = self.named().map(|(_, count)| *count);
        let counts: Vec<u32> = few
            .chain(powers.take_while(|count| count < usable))
            .chain(sizes)
            .chain([*usable, *default_threads])
            .filter(|count| (1..=*usable).contains(count))
            .collect();
        for count in counts {
            add(&mut starts, CpuSettings { threads: Some(count), ..CpuSettings::default() });
        }
        if self.knobs.spin_and_blocks && *usable > 1 {
            // Where cores differ or are busy otherwise, all of them pay only with work that is cut in blocks.
            let block_base = Some(FIRST_BLOCK_BASE);
            let unlike = Some(*usable).filter(|_| self.named().next().is_some());
            for threads in std::iter::once(None).chain(unlike.map(Some)) {
                add(&mut starts, CpuSettings { threads, block_base, ..CpuSettings::default() });
            }
        }
        for (cores, count) in self.named() {
            // One thread less than cores leaves room for what else the machine does.
            for threads in [*count, count.saturating_sub(1)].into_iter().filter(|threads| *threads > 1) {
                let cores = Some(cores.clone());
                add(&mut starts, CpuSettings { threads: Some(threads), cores, ..CpuSettings::default() });
            }
        }
        starts
    }

    /// Numbers of threads that lie halfway between that of `best` and the nearest ones `tried`.
    pub(super) fn between(&self, best: &CpuSettings, tried: &[u32]) -> Vec<CpuSettings> {
        let own = self.threads_of(best);
        let below = tried.iter().copied().filter(|count| *count < own).max();
        let above = tried.iter().copied().filter(|count| *count > own).min();
        let halfway = |other: u32| u32::midpoint(own, other);
        [below.map(halfway), above.map(halfway)]
            .into_iter()
            .flatten()
            .filter(|count| !tried.contains(count))
            .map(|count| self.with_threads(best, count))
            .collect()
    }

    /// Settings that differ from `best` in one thing other than the number of threads.
    pub(super) fn single_changes(&self, best: &CpuSettings) -> Vec<CpuSettings> {
        if self.threads_of(best) == 1 {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for spin in self.spins() {
            changes.push(CpuSettings { spin, ..best.clone() });
        }
        for block_base in self.next_block_bases(best.block_base) {
            changes.push(CpuSettings { block_base, ..best.clone() });
        }
        let cores = std::iter::once(None).chain(self.named().map(|(cores, _)| Some(cores.clone())));
        for cores in cores {
            let threads = Some(self.threads_of(best)).filter(|_| cores.is_some()).or(best.threads);
            changes.push(CpuSettings { threads, cores, ..best.clone() });
        }
        changes.retain(|change| change != best);
        changes
    }

    /// `settings` with one thread more and with one less.
    pub(super) fn neighbours(&self, settings: &CpuSettings) -> Vec<CpuSettings> {
        let own = self.threads_of(settings);
        [own.checked_sub(1), own.checked_add(1)]
            .into_iter()
            .flatten()
            .filter(|count| (1..=self.processor.usable).contains(count))
            .map(|count| self.with_threads(settings, count))
            .collect()
    }

    /// What may take less of the processor than `best`: threads that do not spin, and fewer of them.
    pub(super) fn thriftier(&self, best: &CpuSettings) -> Vec<CpuSettings> {
        if self.threads_of(best) == 1 {
            return Vec::new();
        }
        let sleeping =
            CpuSettings { spin: Some(false).filter(|_| self.knobs.spin_and_blocks), ..best.clone() };
        let mut thrifty = vec![sleeping.clone()];
        let mut count = self.threads_of(best);
        while count > 1 {
            count /= 2;
            add(&mut thrifty, self.with_threads(&sleeping, count));
        }
        thrifty.retain(|settings| settings != best);
        thrifty
    }

    /// `settings` with so many threads; a single one has nothing beside it that the rest could be about.
    fn with_threads(&self, settings: &CpuSettings, count: u32) -> CpuSettings {
        let threads = Some(count);
        if count == 1 {
            CpuSettings { threads, ..CpuSettings::default() }
        } else {
            CpuSettings { threads, ..settings.clone() }
        }
    }

    fn named(&self) -> impl Iterator<Item = &(Cores, u32)> {
        self.processor.named.iter().filter(|_| self.knobs.cores)
    }

    fn spins(&self) -> Vec<Option<bool>> {
        if self.knobs.spin_and_blocks { vec![None, Some(false)] } else { vec![None] }
    }

    fn next_block_bases(&self, own: Option<u32>) -> Vec<Option<u32>> {
        match own {
            _ if !self.knobs.spin_and_blocks => Vec::new(),
            Some(own) => next_to(own),
            None => vec![Some(FIRST_BLOCK_BASE), Some(LEAST_BLOCK_BASE)],
        }
    }

    fn block_bases(&self) -> Vec<Option<u32>> {
        let bases = BLOCK_BASES.iter().filter(|_| self.knobs.spin_and_blocks);
        std::iter::once(None).chain(bases.map(|base| Some(*base))).collect()
    }
}

/// The numbers of blocks next to `own`, and none at all.
fn next_to(own: u32) -> Vec<Option<u32>> {
    let below = BLOCK_BASES.into_iter().filter(|base| *base < own).max();
    let above = BLOCK_BASES.into_iter().filter(|base| *base > own).min();
    std::iter::once(None).chain(below.into_iter().chain(above).map(Some)).collect()
}

fn add(list: &mut Vec<CpuSettings>, settings: CpuSettings) {
    if !list.contains(&settings) {
        list.push(settings);
    }
}
