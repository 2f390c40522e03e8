//! A simulated processor with a simulated model: cores of given speeds, work in sections that threads share.
//!
//! Invariant: the true time of settings follows from the machine alone; a turn is that time with noise from a seed.

use crate::target::{Cores, CpuSettings};
use crate::tuning::{Arena, Knobs, Processor, Space, Turn};

/// One simulated processor and model.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    /// Of each core, in inferences' work for each unit of time.
    speeds: Vec<f64>,
    /// The share of each core that another program takes.
    loads: Vec<f64>,
    fast: usize,
    /// Work that threads share, and work of the calling thread alone.
    parallel_ns: f64,
    serial_ns: f64,
    sections: f64,
    /// What handing over a block of a section costs.
    block_ns: f64,
    noise: f64,
    pub(super) tells_cpu: bool,
    pub(super) ignores_threads: bool,
    pub(super) refuses: fn(&CpuSettings) -> bool,
    pub(super) room: usize,
}

impl Simulated {
    pub(super) fn equal(cores: usize) -> Self {
        Self {
            speeds: vec![1.0; cores],
            loads: vec![0.0; cores],
            fast: cores,
            parallel_ns: 20e6,
            serial_ns: 0.5e6,
            sections: 30.0,
            block_ns: 30.0,
            noise: 0.005,
            tells_cpu: true,
            ignores_threads: false,
            refuses: |_| false,
            room: 32,
        }
    }

    pub(super) fn hybrid((fast, speed): (usize, f64), (slow, slow_speed): (usize, f64)) -> Self {
        let speeds = [vec![speed; fast], vec![slow_speed; slow]].concat();
        Self { speeds, fast, ..Self::equal(fast + slow) }
    }

    /// A model so small that waking threads costs more than they save.
    pub(super) fn tiny(mut self) -> Self {
        (self.parallel_ns, self.serial_ns, self.sections) = (20e3, 2e3, 10.0);
        self
    }

    /// A model that takes the same time whatever the settings.
    pub(super) fn memory_bound(mut self) -> Self {
        (self.parallel_ns, self.serial_ns, self.sections) = (0.0, 10e6, 0.0);
        self
    }

    pub(super) fn busy_core(mut self, share: f64) -> Self {
        let last = self.loads.len() - 1;
        self.loads[last] = share;
        self
    }

    pub(super) fn costly_blocks(mut self, block_ns: f64) -> Self {
        self.block_ns = block_ns;
        self
    }

    pub(super) fn noisy(mut self, noise: f64) -> Self {
        self.noise = noise;
        self
    }

    pub(super) fn space(&self) -> Space {
        let cores = self.speeds.len() as u32;
        let named = if self.fast == self.speeds.len() {
            Vec::new()
        } else {
            vec![(Cores::Performance, self.fast as u32), (Cores::Efficiency, cores - self.fast as u32)]
        };
        Space {
            processor: Processor { usable: cores, default_threads: cores, named },
            knobs: Knobs { spin_and_blocks: true, cores: true },
        }
    }

    fn threads(&self, settings: &CpuSettings) -> usize {
        match settings.threads {
            Some(threads) if !self.ignores_threads => threads as usize,
            _ => self.speeds.len(),
        }
    }

    /// What each thread gets done: threads go to the fastest cores that they may use, several to one if need be.
    fn thread_speeds(&self, settings: &CpuSettings) -> Vec<f64> {
        let allowed = match settings.cores {
            Some(Cores::Performance) => 0..self.fast,
            Some(Cores::Efficiency) => self.fast..self.speeds.len(),
            _ => 0..self.speeds.len(),
        };
        let mut free: Vec<f64> = allowed.map(|core| self.speeds[core] * (1.0 - self.loads[core])).collect();
        free.sort_by(|a, b| b.total_cmp(a));
        let threads = self.threads(settings);
        let sharing = threads.div_ceil(free.len()) as f64;
        (0..threads).map(|thread| free[thread % free.len()] / sharing).collect()
    }

    pub(super) fn true_ns(&self, settings: &CpuSettings) -> f64 {
        let speeds = self.thread_speeds(settings);
        let threads = speeds.len() as f64;
        let slowest = speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let total: f64 = speeds.iter().sum();
        let shared_ns = match settings.block_base {
            Some(base) if threads > 1.0 => {
                let base = f64::from(base);
                self.parallel_ns / total * (1.0 + 0.1 / base) + self.sections * threads * base * self.block_ns
            }
            _ => self.parallel_ns / threads / slowest,
        };
        let wake_ns = if settings.spin == Some(false) { 4_000.0 } else { 600.0 };
        let waits_ns = if threads > 1.0 { self.sections * wake_ns * (1.0 + threads / 16.0) } else { 0.0 };
        self.serial_ns / speeds[0] + shared_ns + waits_ns
    }

    pub(super) fn cpu_ns(&self, settings: &CpuSettings) -> f64 {
        let threads = self.threads(settings) as f64;
        let share = if settings.spin == Some(false) { 0.7 } else { 1.0 };
        self.true_ns(settings) * (1.0 + (threads - 1.0) * share)
    }

    pub(super) fn idle_ns(&self, settings: &CpuSettings) -> f64 {
        let spins = settings.spin != Some(false);
        if spins { (self.threads(settings) - 1) as f64 * 3e6 } else { 0.0 }
    }

    pub(super) fn arena(&self, seed: u64) -> SimulatedArena<'_> {
        SimulatedArena {
            machine: self,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1,
            open: Vec::new(),
            most_open: 0,
            spent_ns: 0.0,
        }
    }
}

/// Sessions on a simulated processor.
#[derive(Debug)]
pub(super) struct SimulatedArena<'m> {
    machine: &'m Simulated,
    seed: u64,
    pub(super) open: Vec<CpuSettings>,
    pub(super) most_open: usize,
    pub(super) spent_ns: f64,
}

impl SimulatedArena<'_> {
    /// A number from 0 to 1 (xorshift64).
    fn uniform(&mut self) -> f64 {
        for shift in [13_i32, -7, 17] {
            self.seed ^= if shift > 0 { self.seed << shift } else { self.seed >> -shift };
        }
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Roughly normal, with a spike of half as much again in one turn of thirty.
    fn noise(&mut self) -> f64 {
        let normal: f64 = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        let spike = if self.uniform() < 1.0 / 30.0 { 1.5 } else { 1.0 };
        (normal * self.machine.noise).exp() * spike
    }
}

impl Arena for SimulatedArena<'_> {
    type Error = std::convert::Infallible;

    fn room(&self) -> usize {
        self.machine.room
    }

    fn open(&mut self, settings: &CpuSettings) -> Result<Result<(), String>, Self::Error> {
        if (self.machine.refuses)(settings) {
            return Ok(Err("no".to_owned()));
        }
        assert!(!self.open.contains(settings), "{settings:?} is open already");
        self.open.push(settings.clone());
        self.most_open = self.most_open.max(self.open.len());
        self.spent_ns += 300e6;
        Ok(Ok(()))
    }

    fn turn(&mut self, settings: &CpuSettings, round: u32) -> Result<Result<Turn, String>, Self::Error> {
        assert!(self.open.contains(settings), "{settings:?} is not open");
        // What slows all of them in a round.
        let drift = 1.0 + 0.1 * f64::from(round % 3);
        let call_ns = self.machine.true_ns(settings) * drift * self.noise();
        let wall_ns = call_ns.max(50e6);
        self.spent_ns += wall_ns + 20e6;
        let busy = self.machine.cpu_ns(settings) / self.machine.true_ns(settings);
        Ok(Ok(Turn { call_ns, wall_ns, busy_cores: self.machine.tells_cpu.then_some(busy) }))
    }

    fn idle_cpu_ns(&mut self, settings: &CpuSettings) -> Result<Option<f64>, Self::Error> {
        assert!(self.open.contains(settings), "{settings:?} is not open");
        self.spent_ns += 80e6;
        Ok(self.machine.tells_cpu.then(|| self.machine.idle_ns(settings)))
    }

    fn close(&mut self, settings: &CpuSettings) {
        self.open.retain(|open| open != settings);
    }
}
