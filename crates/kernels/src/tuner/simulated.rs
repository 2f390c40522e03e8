//! Simulated machines for the tests of the search.
//!
//! Invariant: times come from a law, a seed and nothing else; the law without noise and load is the truth that a choice
//! is judged by.

use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::{Cluster, Configuration, Core, CoreKind, Machine, Place, Room, Unmeasurable};
use crate::Policy;

const ROWS: usize = 4096;
const ROW_GB: f64 = 4096.0 * 4.0 / 1e9;
/// How long a thread stays away when another program takes its core.
const AWAY_S: f64 = 3e-3;

/// Cores of one design in a simulated machine.
#[derive(Debug, Clone)]
pub(super) struct Design {
    pub(super) kind: CoreKind,
    pub(super) cores: u32,
    pub(super) threads_per_core: u32,
    pub(super) package: u32,
    /// What one core reads, in GB/s.
    pub(super) core_gb_per_s: f64,
}

impl Design {
    pub(super) fn new(kind: CoreKind, cores: u32, core_gb_per_s: f64) -> Self {
        Self { kind, cores, threads_per_core: 1, package: 0, core_gb_per_s }
    }
}

#[derive(Debug, Clone, Copy)]
struct Cpu {
    number: u32,
    core: u32,
    package: u32,
    gb_per_s: f64,
}

/// A simulated machine.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    cpus: Vec<Cpu>,
    room: Room,
    pub(super) places: Vec<Place>,
    /// What one package's memory gives, in GB/s.
    package_gb_per_s: f64,
    /// Relative standard deviation of a time.
    pub(super) noise: f64,
    /// Whether another program keeps one core busy, and in which share of runs it takes that core away from a thread.
    pub(super) loaded: Option<f64>,
    random: Xoshiro256PlusPlus,
    spent_s: f64,
}

impl Simulated {
    /// A machine of these cores, fastest design first.
    pub(super) fn new(designs: &[Design], package_gb_per_s: f64) -> Self {
        let mut cpus = Vec::new();
        let mut clusters: Vec<Cluster> = Vec::new();
        for design in designs {
            let mut cores = Vec::new();
            for _ in 0..design.cores {
                let core = u32::try_from(cpus.len()).unwrap();
                let numbers: Vec<u32> = (core..core + design.threads_per_core).collect();
                cpus.extend(numbers.iter().map(|number| Cpu {
                    number: *number,
                    core,
                    package: design.package,
                    gb_per_s: design.core_gb_per_s,
                }));
                cores.push(Core { package: design.package, cpus: numbers });
            }
            match clusters.iter_mut().find(|cluster| cluster.kind == design.kind) {
                Some(cluster) => cluster.cores.extend(cores),
                None => clusters.push(Cluster { kind: design.kind, cores }),
            }
        }
        let room = Room { clusters, quota_cpus: None, holds_threads: true };
        let mut machine = Self {
            cpus,
            places: Vec::new(),
            room,
            package_gb_per_s,
            noise: 0.01,
            loaded: None,
            random: Xoshiro256PlusPlus::seed_from_u64(0),
            spent_s: 0.0,
        };
        machine.places = machine.room.places(16);
        machine
    }

    /// Grants the process only these CPUs.
    pub(super) fn masked(mut self, allowed: &[u32]) -> Self {
        for cluster in &mut self.room.clusters {
            for core in &mut cluster.cores {
                core.cpus.retain(|cpu| allowed.contains(cpu));
            }
        }
        self.cpus.retain(|cpu| allowed.contains(&cpu.number));
        self.places = self.room.places(16);
        self
    }

    /// Grants the process only so many CPUs' worth of time.
    pub(super) fn with_quota(mut self, cpus: f64) -> Self {
        self.room.quota_cpus = Some(cpus);
        self.places = self.room.places(16);
        self
    }

    /// The same machine at another moment.
    pub(super) fn at(&self, seed: u64) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), spent_s: 0.025, ..self.clone() }
    }

    /// A number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        // Box and Muller, "A Note on the Generation of Random Normal Deviates" (1958).
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// What each thread reads, in GB/s: a system puts threads on idle fast cores first.
    fn speeds(&self, configuration: &Configuration) -> Vec<f64> {
        let place = &self.places[configuration.place];
        let mut cpus: Vec<Cpu> = self
            .cpus
            .iter()
            .filter(|cpu| place.cpus.as_ref().is_none_or(|held| held.contains(&cpu.number)))
            .copied()
            .collect();
        // The second thread of a core comes after all cores, and packages take turns.
        let rank = |cpu: &Cpu| cpus_before(&self.cpus, cpu);
        cpus.sort_by_key(|cpu| (cpu.number != cpu.core, rank(cpu), cpu.package));
        cpus.truncate(configuration.threads.get());
        let mut speeds: Vec<f64> = cpus
            .iter()
            .map(|cpu| {
                let sharing = cpus.iter().filter(|other| other.core == cpu.core).count();
                cpu.gb_per_s / sharing as f64
            })
            .collect();
        for package in 0..=cpus.iter().map(|cpu| cpu.package).max().unwrap_or(0) {
            let here: Vec<usize> = (0..cpus.len()).filter(|at| cpus[*at].package == package).collect();
            let wanted: f64 = here.iter().map(|at| speeds[*at]).sum();
            // Beyond what the memory gives, more readers get in each other's way.
            let crowd = 1.0 - 0.004 * here.len() as f64;
            let given = self.package_gb_per_s * crowd;
            if wanted > given {
                for at in here {
                    speeds[at] *= given / wanted;
                }
            }
        }
        speeds
    }

    /// Seconds without noise, with one thread away for `away_s`.
    fn law(&self, configuration: &Configuration, away_s: f64) -> f64 {
        let speeds = self.speeds(configuration);
        let threads = speeds.len() as f64;
        let chunking = configuration.policy.chunk(ROWS, configuration.threads);
        let chunk_gb = chunking.size() as f64 * ROW_GB;
        let total: f64 = speeds.iter().sum();
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let dispatch_s = 0.3e-6 * threads;
        if configuration.policy == Policy::Static {
            return chunk_gb / slowest + away_s + dispatch_s;
        }
        let all_gb = ROWS as f64 * ROW_GB;
        let claims_s = 0.15e-6 * chunking.count() as f64 / threads;
        // At the end some wait for the last chunk: half of one on average, all of it where chunks are few.
        let even = (chunking.count() as f64 % threads) == 0.0 && (slowest * threads - total).abs() < 1e-9;
        let tail_s = if even { 0.05 } else { 0.5 } * chunk_gb / slowest;
        let undisturbed = all_gb / total + tail_s + claims_s + dispatch_s;
        if away_s == 0.0 || speeds.len() == 1 {
            return undisturbed + away_s;
        }
        // The others do the lost one's share, but for the chunk that it holds.
        let others = all_gb / (total - slowest);
        undisturbed.max(others.min(undisturbed + away_s)).max(away_s + chunk_gb / slowest)
    }

    /// The time on the quiet machine, without noise.
    pub(super) fn truth(&self, configuration: &Configuration) -> f64 {
        self.law(configuration, 0.0)
    }

    /// The best configuration of all, and its time.
    pub(super) fn best(&self) -> (Configuration, f64) {
        let mut best: Option<(Configuration, f64)> = None;
        for (index, place) in self.places.iter().enumerate() {
            for threads in place.least_threads..=place.most_threads {
                for policy in Policy::ALL {
                    let threads = threads.try_into().unwrap();
                    let configuration = Configuration { place: index, threads, policy };
                    let time = self.truth(&configuration);
                    if best.is_none_or(|(_, least)| time < least) {
                        best = Some((configuration, time));
                    }
                }
            }
        }
        best.unwrap()
    }
}

/// How many cores of the same package come before this CPU's.
fn cpus_before(cpus: &[Cpu], cpu: &Cpu) -> usize {
    cpus.iter().filter(|other| other.package == cpu.package && other.number < cpu.number).count()
}

impl Machine for Simulated {
    fn measure(&mut self, configuration: &Configuration) -> Result<f64, Unmeasurable> {
        let all = self.places[configuration.place].cpus.as_ref().map_or(self.cpus.len(), Vec::len);
        // Threads that leave a core free leave it to the other program, most of the time.
        let lost = match self.loaded {
            Some(lost) if configuration.threads.get() >= all => lost,
            Some(lost) => lost / 4.0,
            None => 0.0,
        };
        let away_s = if self.uniform() < lost { AWAY_S * self.uniform() } else { 0.0 };
        let spike = if self.uniform() < 0.02 { 1.0 + self.uniform() } else { 1.0 };
        let noise = (self.noise * self.normal()).exp();
        let seconds = self.law(configuration, away_s) * noise * spike;
        self.spent_s += seconds;
        Ok(seconds)
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.spent_s)
    }
}
