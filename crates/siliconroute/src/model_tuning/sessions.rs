//! Where a search measures: one worker for each of the settings, side by side, taking turns.
//!
//! Invariant: a session that failed is ended; what is timed is the calls alone.

use std::time::Duration;

use siliconroute_core::statistics;
use siliconroute_core::target::{CpuSettings, SessionSettings};
use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Failure, Placement, Sample};
use siliconroute_core::tuning::{Arena, Turn};
use siliconroute_core::{Case, Reading};
use siliconroute_engine::timing::calls_per_sample;
use siliconroute_engine::worker::client::{RemoteModel, WorkerClient, WorkerSession};

use crate::campaign::check_placement;
use crate::discovery::Found;
use crate::error::Error;
use crate::machine::brief;
use crate::models::KnownModel;
use crate::router::{Router, Targets};

/// Calls and time before a session's first turn.
const WARM_UP: (u64, Duration) = (3, Duration::from_millis(60));
/// Calls and time before each turn, which refill what the others evicted.
const REWARM: (u64, Duration) = (1, Duration::from_millis(5));
/// Samples of a turn, and the time after which it takes no further one.
const SAMPLES: (u32, Duration) = (5, Duration::from_millis(120));
/// The least time of a sample.
const LEAST_SAMPLE: Duration = Duration::from_millis(1);
/// How long a session has nothing to do while its threads are watched; for the longer time, which is more than any
/// engine's threads spin, only where they spin through half of the shorter one.
const IDLE: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(250)];
/// The rest between two turns: at least this, and up to the second while threads still spin.
const REST: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// More sessions than this are not alive at once, however much memory there is.
const MOST_SESSIONS: usize = 12;

/// The sessions of one search.
pub(super) struct Sessions<'r> {
    router: &'r Router,
    targets: &'r Targets,
    found: &'r Found,
    model: &'r KnownModel,
    case: &'r Case,
    values: &'r [NamedTensor],
    open: Vec<Open>,
    rest: Duration,
}

struct Open {
    settings: CpuSettings,
    worker: WorkerClient,
    create_ns: u64,
    placement: Reading<Placement>,
    calls: u32,
}

impl<'r> Sessions<'r> {
    pub(super) fn new(
        router: &'r Router,
        targets: &'r Targets,
        found: &'r Found,
        (model, case): (&'r KnownModel, &'r Case),
        values: &'r [NamedTensor],
    ) -> Self {
        Self { router, targets, found, model, case, values, open: Vec::new(), rest: REST.0 }
    }

    fn begin(&self, settings: &CpuSettings) -> Result<Open, Failure> {
        let refused =
            |error: Error| Failure::new(siliconroute_core::trial::FailureKind::Refused, error.to_string());
        let key = SessionSettings::of_cpu(settings.clone()).apply(self.found.target.clone()).key;
        let found = self.targets.resolve(key.as_str()).map_err(refused)?;
        let deadline = self.router.worker_deadline();
        let mut worker = WorkerClient::open(self.router.launcher.as_ref(), &found.engine, deadline)?;
        let threads = found.threads();
        let model = RemoteModel {
            path: &self.model.path,
            inputs: &self.model.facts.inputs,
            outputs: &self.model.facts.outputs,
            bindings: &self.case.bindings,
            threads: &threads,
            compile_cache: None,
        };
        let mut session = worker.create_session(&self.found.target.key, &model, deadline)?;
        check_placement(&found.engine, &session.placement)?;
        session.set_inputs(self.values.to_vec())?;
        let warm_up = session.warm_up(WARM_UP.0, WARM_UP.1)?;
        let (create_ns, placement) = (session.create_ns, session.placement.clone());
        let calls = calls_per_sample(warm_up.fastest_ns, LEAST_SAMPLE);
        Ok(Open { settings: settings.clone(), worker, create_ns, placement, calls })
    }

    /// Does something with the session of `settings`; the inner error says how it failed.
    fn with<T>(
        &mut self,
        settings: &CpuSettings,
        work: impl FnOnce(&mut WorkerSession<'_>, u32) -> Result<T, Failure>,
    ) -> Result<Result<T, String>, Error> {
        self.router.stop_if_cancelled()?;
        let deadline = self.router.worker_deadline();
        let Some(open) = self.open.iter_mut().find(|open| open.settings == *settings) else {
            return Ok(Err("it has no session any more".to_owned()));
        };
        let mut session = open.worker.resume(open.create_ns, open.placement.clone(), deadline);
        let outcome = work(&mut session, open.calls);
        self.router.stop_if_cancelled()?;
        Ok(outcome.map_err(|failure| brief(&failure.to_string())))
    }
}

impl Arena for Sessions<'_> {
    type Error = Error;

    fn room(&self) -> usize {
        self.router.sessions_at_once(self.case).clamp(2, MOST_SESSIONS)
    }

    fn open(&mut self, settings: &CpuSettings) -> Result<Result<(), String>, Error> {
        self.router.stop_if_cancelled()?;
        let begun = self.begin(settings);
        self.router.stop_if_cancelled()?;
        Ok(begun.map(|open| self.open.push(open)).map_err(|failure| brief(&failure.to_string())))
    }

    fn turn(&mut self, settings: &CpuSettings, round: u32) -> Result<Result<Turn, String>, Error> {
        // Threads of the session before may still spin.
        (self.router.sleep)(self.rest);
        let sampled = self.with(settings, |session, calls| {
            session.warm_up(REWARM.0, REWARM.1)?;
            session.sample(round, calls, SAMPLES.0, SAMPLES.1)
        })?;
        Ok(sampled.map(|sampled| {
            let times: Vec<f64> = sampled.samples.iter().map(Sample::per_call_ns).collect();
            Turn {
                call_ns: statistics::median(&times).unwrap_or(0.0),
                busy_cores: sampled.busy_cores.available().copied(),
                wall_ns: sampled.samples.iter().map(|sample| sample.total_ns as f64).sum(),
            }
        }))
    }

    fn idle_cpu_ns(&mut self, settings: &CpuSettings) -> Result<Option<f64>, Error> {
        let mut used = None;
        for time in IDLE {
            let idled = self.with(settings, |session, _| session.idle(time))?;
            used = idled.ok().and_then(|idled| idled.cpu_ns.available().map(|&ns| ns as f64));
            if used.is_none_or(|used| used < time.as_nanos() as f64 / 2.0) {
                break;
            }
        }
        if let Some(used) = used {
            // Several threads spin at once, so this is more than long enough.
            self.rest = self.rest.max(Duration::from_nanos(used as u64).clamp(REST.0, REST.1));
        }
        Ok(used)
    }

    fn close(&mut self, settings: &CpuSettings) {
        self.open.retain(|open| open.settings != *settings);
    }
}
