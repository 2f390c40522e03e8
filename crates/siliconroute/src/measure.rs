//! Runs a campaign: cases on targets, every trial into the store as soon as it is done.
//!
//! Invariant: whenever the program ends, what was measured up to then is in the store.

mod budget;
mod missing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use siliconroute_core::statistics::Replication;
use siliconroute_core::trial::{Purpose, Trial};
use siliconroute_core::{Case, CaseId, Chip, ChipKind, Reading, TargetKey, Workload};
pub use siliconroute_store::CampaignId;
use siliconroute_store::{CampaignState, NewCampaign, StoredCampaign, TargetId, TrialFilter};

use self::budget::PassedOver;
pub(crate) use self::budget::Share;
pub use self::missing::Missing;
use crate::campaign::{CaseToMeasure, Closing, Sampling, Setting, Surroundings as _, Workers, measure_case};
use crate::compare::sessions_missing;
use crate::discovery::Found;
use crate::error::Error;
use crate::event::{Event, Listener, Stage};
use crate::home::MeasuringLock;
use crate::inputs;
use crate::lookout::Lookout;
use crate::models::KnownModel;
use crate::router::{Router, Targets};
use crate::sampler::Attention;
use crate::surroundings::{Machinery, SamplingRecord};

/// What to do about a case of which nothing is known in `workload`.
pub fn measuring_advice(workload: Workload) -> String {
    let bench = "`siliconroute bench --model MODEL";
    match workload {
        Workload::Sustained => {
            format!("measure it with {bench}`, or let `siliconroute up --once` learn about this machine")
        }
        Workload::IdleLoaded | Workload::ColdStart => {
            format!(
                "measure it with {bench} --workload {workload}`, or let `siliconroute up --once` learn about this machine"
            )
        }
    }
}

/// A case to measure on some targets in one workload.
#[derive(Debug, Clone)]
pub struct Job {
    /// The model.
    pub model: KnownModel,
    /// The case.
    pub case: Case,
    /// The workload.
    pub workload: Workload,
    /// The targets, the preferred reference first; `base+setting` for a target with session settings.
    pub targets: Vec<TargetKey>,
}

impl Job {
    /// Whether `other` asks for the same once more.
    fn is_again(&self, other: &Self) -> bool {
        self.case.id == other.case.id && self.workload == other.workload
    }
}

/// How a campaign is to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Why its trials are made.
    pub purpose: Purpose,
    /// How they are sampled.
    pub sampling: &'a Sampling,
    /// Time for the whole campaign; without one, each trial's own limits hold.
    pub budget: Option<Duration>,
    /// When nothing new may begin, even if a job is left without a trial; needs a budget as well.
    pub closes: Option<Instant>,
    /// An interrupted campaign to go on with; what it holds is not measured again.
    pub resumed: Option<CampaignId>,
    /// Takes further sessions of each job for as long as those of its targets differ too much to compare them.
    pub replication: Option<Replication>,
}

impl<'a> Order<'a> {
    /// An order without a budget for the whole.
    pub fn new(purpose: Purpose, sampling: &'a Sampling) -> Self {
        Self { purpose, sampling, budget: None, closes: None, resumed: None, replication: None }
    }
}

/// A campaign's trials, as they were recorded.
#[derive(Debug)]
pub struct Measured {
    /// The campaign.
    pub campaign: CampaignId,
    /// The trials, in the order in which they were recorded.
    pub trials: Vec<Trial>,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// What the user's stop kept from being measured.
    pub missing: Vec<Missing>,
    /// Whether a job was left without any trial, since the budget had no room for it.
    pub out_of_time: bool,
    /// What the campaign told while it ran, such as targets and cases that were left out.
    pub notices: Vec<String>,
}

impl Measured {
    /// The trials of one case.
    pub fn of_case(&self, case: CaseId) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(move |trial| trial.case == case)
    }

    fn tell(&mut self, notice: String, listener: &mut dyn Listener) {
        self.notices.push(notice.clone());
        listener.event(Event::Notice(notice));
    }

    /// Itself, if the user did not stop it.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; what was measured is in the store.
    pub fn complete(self) -> Result<Self, Error> {
        if self.interrupted { Err(Error::Interrupted) } else { Ok(self) }
    }
}

impl Router {
    /// Measures every job, in interleaved rounds within each.
    ///
    /// # Errors
    /// When inputs cannot be made, the store fails, or the user stops before the first job; recorded trials stay.
    pub fn measure(
        &self,
        jobs: &[Job],
        targets: &Targets,
        order: &Order<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Measured, Error> {
        let turn = self.lock_measuring(listener)?;
        self.measure_in_turn(&turn, jobs, targets, order, listener)
    }

    /// [`Self::measure`] for a caller whose turn it is already, and stays until all its work is done.
    pub(crate) fn measure_in_turn(
        &self,
        _turn: &MeasuringLock,
        jobs: &[Job],
        targets: &Targets,
        order: &Order<'_>,
        listener: &mut dyn Listener,
    ) -> Result<Measured, Error> {
        let targets = &*self.mark_suspects(jobs, targets, listener)?;
        let host = self.record_machine()?;
        // Whoever holds the turn to measure is the only one who does.
        let abandoned = self.store.close_abandoned_campaigns()?;
        if abandoned > 0 {
            tracing::info!("{abandoned} campaigns had begun and ended with their program");
        }
        self.close_servings_without_end()?;
        let campaign = self.store.begin_campaign(&NewCampaign {
            host: Some(host),
            purpose: order.purpose,
            seed: self.settings.seed,
            program_version: crate::VERSION,
            program_commit: crate::COMMIT,
            started_unix_ms: (self.clock)(),
            plan: &plan_document(jobs, order.sampling),
        })?;
        let metering = Arc::<AtomicBool>::default();
        let attention = Attention {
            chips: self.chips_to_look_at(jobs, targets),
            energy: match order.sampling.energy {
                Some(_) => Reading::Available(self.chips_of(jobs, targets)),
                None => Reading::unavailable("not asked for"),
            },
            metering: Arc::clone(&metering),
            details: Reading::unavailable("not asked while something is measured"),
        };
        let started_unix_ms = (self.clock)();
        let period = Duration::from_millis(self.settings.telemetry_period_ms);
        let lookout = Lookout::start(self.watcher().eyes(attention), period);
        let mut running = Running {
            router: self,
            targets,
            order,
            id: campaign,
            workers: Workers::new(self.launcher.as_ref()),
            machinery: Machinery::new(self, Instant::now(), lookout, metering, started_unix_ms),
            rows: BTreeMap::new(),
        };
        let outcome = running.measure_jobs(jobs, listener);
        running.machinery.stop_looking();
        running.machinery.record_rest(campaign);
        running.tell_notices(listener);
        let complete = outcome.as_ref().is_ok_and(|measured| !measured.interrupted);
        self.store.finish_campaign(campaign, complete, (self.clock)())?;
        outcome
    }

    /// The latest benchmark with the plan of `jobs` and the same sampling, if it was stopped before its end.
    ///
    /// # Errors
    /// When the store fails.
    pub fn interrupted_benchmark(
        &self,
        jobs: &[Job],
        order: &Order<'_>,
    ) -> Result<Option<CampaignId>, Error> {
        let plan = plan_document(jobs, order.sampling);
        let same = |campaign: &StoredCampaign| {
            campaign.purpose == Purpose::Bench
                && campaign.plan == plan
                && campaign.hardware_id.as_deref() == Some(self.machine.hardware_id.as_str())
        };
        let latest = self.store.campaigns()?.into_iter().rev().find(same);
        Ok(latest.filter(|campaign| campaign.state != CampaignState::Finished).map(|campaign| campaign.id))
    }

    /// The finished trials of the campaign that is to go on, oldest first.
    fn trials_to_resume(&self, order: &Order<'_>) -> Result<Vec<Trial>, Error> {
        let Some(campaign) = order.resumed else { return Ok(Vec::new()) };
        let filter = TrialFilter { campaign: Some(campaign), ..TrialFilter::default() };
        let mut trials = Vec::new();
        for stored in self.store.trial_summaries(&filter)? {
            trials.extend(self.store.trial(stored.id)?.filter(|trial| !was_cut_short(trial)));
        }
        Ok(trials)
    }

    /// The chips beside the CPU whose sensors are read while `jobs` are measured.
    fn chips_to_look_at(&self, jobs: &[Job], targets: &Targets) -> Reading<Vec<Chip>> {
        if jobs.iter().any(|job| job.workload != Workload::Sustained) {
            return Reading::unavailable(
                "not read where chips rest or start cold: a sensor that is read may keep a chip or its driver awake",
            );
        }
        let mut chips = self.chips_of(jobs, targets);
        chips.retain(|chip| chip.kind != ChipKind::Cpu);
        let none = "the campaign measures on no chip beside the CPU";
        Reading::from_option((!chips.is_empty()).then_some(chips), none)
    }

    /// The chips that `jobs` measure on, but for those that software imitates.
    fn chips_of(&self, jobs: &[Job], targets: &Targets) -> Vec<Chip> {
        let mut chips: Vec<Chip> = Vec::new();
        for key in jobs.iter().flat_map(|job| &job.targets) {
            let Ok(found) = targets.resolve(key.as_str()) else { continue };
            let chip = self.chip_of(&found);
            if !chip.software && !chips.iter().any(|it| it.key == chip.key) {
                chips.push(chip);
            }
        }
        chips
    }

    /// How many sessions of a case's model may be alive at once without filling the memory.
    pub(crate) fn sessions_at_once(&self, case: &Case) -> usize {
        let free = siliconroute_hardware::detect_conditions().free_memory_bytes;
        let Reading::Available(free) = free else { return usize::MAX };
        let facts = &case.facts;
        let session = SESSION_COPIES * (facts.weight_bytes + facts.activation_bytes as u64);
        usize::try_from(free / 2 / session.max(1)).unwrap_or(usize::MAX)
    }
}

/// A campaign under way.
struct Running<'r> {
    router: &'r Router,
    targets: &'r Targets,
    order: &'r Order<'r>,
    id: CampaignId,
    workers: Workers<'r>,
    machinery: Machinery<'r>,
    /// Rows of targets with session settings, which the store had none of.
    rows: BTreeMap<TargetKey, TargetId>,
}

impl Running<'_> {
    /// Measures all jobs, and then further sessions of those that the order wants more of.
    fn measure_jobs(&mut self, jobs: &[Job], listener: &mut dyn Listener) -> Result<Measured, Error> {
        let mut measured = Measured {
            campaign: self.id,
            trials: Vec::new(),
            interrupted: false,
            missing: Vec::new(),
            out_of_time: false,
            notices: Vec::new(),
        };
        let mut earlier = self.router.trials_to_resume(self.order)?;
        let mut jobs = jobs.to_vec();
        let mut done = 0;
        loop {
            self.measure_from(done, &jobs, &mut measured, &mut earlier, listener)?;
            done = jobs.len();
            if measured.interrupted {
                return Ok(measured);
            }
            jobs.extend(self.further_sessions(&jobs, &measured)?);
            let further = (jobs.len() - done) as u64;
            if further == 0 {
                return Ok(measured);
            }
            let text = format!("sessions differ too much to tell targets apart: {further} more to take");
            measured.tell(text, listener);
            listener.event(Event::Begin { stage: Stage::Learning, steps: Some(further) });
        }
    }

    /// The sessions that the order wants beyond those that were measured, as far as the budget has room for them.
    fn further_sessions(&self, jobs: &[Job], measured: &Measured) -> Result<Vec<Job>, Error> {
        let Some(replication) = &self.order.replication else { return Ok(Vec::new()) };
        let mut rounds: Vec<Vec<Job>> = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            if jobs[..index].iter().any(|other| other.is_again(job)) {
                continue;
            }
            for round in 0..sessions_missing(job, &measured.trials, replication) {
                match rounds.get_mut(round) {
                    Some(jobs) => jobs.push(job.clone()),
                    None => rounds.push(vec![job.clone()]),
                }
            }
        }
        let further: Vec<Job> = rounds.into_iter().flatten().collect();
        let Some(budget) = self.order.budget.filter(|_| !further.is_empty()) else { return Ok(further) };
        let expected = self.router.plan(&further, self.targets, self.order)?.expected();
        let left = budget.saturating_sub(self.machinery.elapsed());
        Ok(if left < expected { Vec::new() } else { further })
    }

    /// Measures the jobs from `begin` on.
    fn measure_from(
        &mut self,
        begin: usize,
        jobs: &[Job],
        measured: &mut Measured,
        earlier: &mut Vec<Trial>,
        listener: &mut dyn Listener,
    ) -> Result<(), Error> {
        let (router, order) = (self.router, self.order);
        // The rest of a single job is nothing that a plan could tell.
        let plan = match jobs {
            [_] if order.budget.is_none() => None,
            _ => Some(router.plan(jobs, self.targets, order)?),
        };
        let mut left_out = PassedOver::default();
        // Jobs that the user's stop left unfinished, each with the targets that lack their trial.
        let mut unfinished: Vec<(usize, Vec<TargetKey>)> = Vec::new();
        for (index, job) in jobs.iter().enumerate().skip(begin) {
            if let Some(trials) = take_session(earlier, job, order.sampling) {
                measured.trials.extend(trials);
                listener.event(Event::StepDone);
                continue;
            }
            if router.is_cancelled() {
                measured.interrupted = true;
                unfinished.push((index, job.targets.clone()));
                continue;
            }
            // Another session is one in another process: layout in memory and placement of threads are drawn anew.
            if jobs[..index].iter().any(|other| other.is_again(job)) {
                self.workers.drop_all();
            }
            let mut share = Share { until: None, time: None };
            if let Some(plan) = &plan {
                let Some(part) = plan.share(index, self.machinery.elapsed(), order.budget) else {
                    left_out.add(index, "the budget is used up".to_owned());
                    continue;
                };
                if let Some(reason) = self.too_long_to_rest(job) {
                    left_out.add(index, reason);
                    continue;
                }
                share = part;
                listener.event(Event::Remaining(plan.remaining(index, self.machinery.elapsed())));
            }
            listener.event(Event::Step(format!("{} {}", job.case.label(), job.workload)));
            let begins = plan.as_ref().map(|plan| &plan.jobs[index].begin);
            let Some(mut trials) = self.measure_job(job, index, (share, begins))? else {
                self.workers.drop_all();
                left_out.add(index, "the budget has no room for it".to_owned());
                continue;
            };
            // Each session read the file for itself: what they measured need not be one model.
            if !router.models().holds(&job.model)? {
                trials.clear();
                let text = "its file changed while it was measured, so nothing of that is kept";
                self.machinery.note(format!("{} {}: {text}", job.case.label(), job.workload));
            }
            self.machinery.record(self.id);
            for text in self.machinery.take_notices() {
                measured.tell(text, listener);
            }
            measured.interrupted |= router.is_cancelled();
            // Half a session of a model to learn from would count as a whole one.
            let is_kept = !measured.interrupted || order.purpose == Purpose::Bench;
            if measured.interrupted {
                let whole = |key: &TargetKey| {
                    let mut own = trials.iter().map(|(_, trial)| trial).filter(|trial| trial.target == *key);
                    is_kept && own.clone().next().is_some() && !own.any(was_cut_short)
                };
                unfinished.push((index, job.targets.iter().filter(|key| !whole(key)).cloned().collect()));
            }
            if is_kept {
                for (found, trial) in trials {
                    let row = self.target_row(&found)?;
                    router.store.record_trial(self.id, row, &trial)?;
                    measured.trials.push(trial);
                }
            }
            listener.event(Event::StepDone);
        }
        let lacking: Vec<_> = unfinished.iter().map(|(index, targets)| (*index, &targets[..])).collect();
        measured.missing = Missing::of(jobs, &lacking);
        measured.out_of_time |= !left_out.is_empty();
        for text in left_out.sentences(jobs) {
            measured.tell(text, listener);
        }
        Ok(())
    }

    /// Why not even one round of rests of `job` fits into what is left of the budget; `None` where it does.
    fn too_long_to_rest(&self, job: &Job) -> Option<String> {
        let left = self.order.budget?.saturating_sub(self.machinery.elapsed());
        let rests: Duration = self.order.sampling.rests.iter().sum();
        (job.workload == Workload::IdleLoaded && rests > left).then(|| {
            let (rests, left) = (rests.as_secs_f64(), left.as_secs_f64());
            format!("it rests for {rests:.0} s, and {left:.0} s of the budget are left")
        })
    }

    fn tell_notices(&self, listener: &mut dyn Listener) {
        for notice in self.machinery.take_notices() {
            listener.event(Event::Notice(notice));
        }
    }

    /// The trials of one job, each with its target; `None` where the order closes before it is complete.
    fn measure_job(
        &mut self,
        job: &Job,
        index: usize,
        (share, begins): (Share, Option<&BTreeMap<TargetKey, Duration>>),
    ) -> Result<Option<Vec<(Found, Trial)>>, Error> {
        let (router, order) = (self.router, self.order);
        if job.case.model != job.model.facts.id {
            let text = format!("the file of {} is no longer that of the case", job.model.name);
            return Err(Error::Usage(text));
        }
        let found: Vec<Found> =
            job.targets.iter().map(|key| self.targets.resolve(key.as_str())).collect::<Result<_, _>>()?;
        let seed = router.settings.seed;
        let values = inputs::generate_for(&job.case.facts, &job.model.recipes, seed)?;
        let sampling = share.sampling(order.sampling, found.len());
        let compile_cache = router.home.cache().join("compiled");
        let test = CaseToMeasure {
            case: &job.case,
            path: &job.model.path,
            inputs: &job.model.facts.inputs,
            outputs: &job.model.facts.outputs,
            values: &values,
            input_seed: seed,
            constant_weights: job.model.constant_weights,
            compile_cache: &compile_cache,
        };
        let side_by_side: Vec<&Found> = found.iter().collect();
        let groups = groups(&side_by_side, router.sessions_at_once(&job.case));
        if groups.len() > 1 {
            let text = "memory is short, so its targets are measured in groups, one after the other";
            self.machinery.note(format!("{}: {text}", job.case.label()));
        }
        let closes = order.closes.map(|at| self.machinery.elapsed_at(at));
        let mut trials = Vec::new();
        for (number, group) in groups.into_iter().enumerate() {
            let setting = Setting {
                purpose: order.purpose,
                sampling: &sampling,
                // One for each group: trials with the same seed took turns.
                order_seed: order_seed(seed, self.id, index, number),
                until: share.until,
                closing: closes.zip(begins).map(|(at, begin)| Closing { at, begin }),
                surroundings: &self.machinery,
                suspects: &self.targets.suspects,
            };
            let measured = measure_case(&mut self.workers, &test, &group, job.workload, &setting);
            let Ok(measured) = measured else { return Ok(None) };
            for trial in measured {
                if let Some(of) = found.iter().find(|found| found.target.key == trial.target) {
                    trials.push((of.clone(), trial));
                }
            }
        }
        Ok(Some(trials))
    }

    /// The row of a target, recorded the first time that one with session settings is measured.
    fn target_row(&mut self, found: &Found) -> Result<TargetId, Error> {
        let key = &found.target.key;
        if let Some(&row) = self.targets.rows.get(key).or_else(|| self.rows.get(key)) {
            return Ok(row);
        }
        let row = self.router.record_target(found)?;
        self.rows.insert(key.clone(), row);
        Ok(row)
    }
}

/// Memory that a session is reckoned to take, as a multiple of weights and activations: the file's bytes,
/// the engine's own layout of the weights, and room to convert one into the other.
const SESSION_COPIES: u64 = 3;

/// Splits targets into groups of at most `most` that are measured side by side, each with the reference.
///
/// Outputs are compared within a group, so the reference, the first target, is in every one.
fn groups<'f>(targets: &[&'f Found], most: usize) -> Vec<Vec<&'f Found>> {
    match targets {
        [reference, others @ ..] if targets.len() > most.max(2) => others
            .chunks(most.max(2) - 1)
            .map(|chunk| std::iter::once(*reference).chain(chunk.iter().copied()).collect())
            .collect(),
        _ => vec![targets.to_vec()],
    }
}

/// The plan of a campaign as it is stored.
fn plan_document(jobs: &[Job], sampling: &Sampling) -> String {
    let jobs: Vec<_> = jobs.iter().map(described).collect();
    serde_json::json!({"sampling": SamplingRecord::of(sampling), "jobs": jobs}).to_string()
}

/// Takes one whole session of `job` out of `earlier`; `None` when there is none.
fn take_session(earlier: &mut Vec<Trial>, job: &Job, sampling: &Sampling) -> Option<Vec<Trial>> {
    let each = match job.workload {
        Workload::Sustained => 1,
        Workload::IdleLoaded => sampling.rests.len(),
        Workload::ColdStart => sampling.cold_files.len(),
    };
    let belongs = |trial: &Trial, seed: u64| {
        trial.case == job.case.id && trial.workload == job.workload && trial.order_seed == seed
    };
    let seed = earlier
        .iter()
        .filter(|trial| trial.case == job.case.id && trial.workload == job.workload)
        .map(|trial| trial.order_seed)
        .find(|&seed| {
            earlier.iter().filter(|trial| belongs(trial, seed)).count() == each * job.targets.len()
        })?;
    let (session, rest) = std::mem::take(earlier).into_iter().partition(|trial| belongs(trial, seed));
    *earlier = rest;
    Some(session)
}

/// Whether the user stopped a trial before its end.
fn was_cut_short(trial: &Trial) -> bool {
    let conditions: Option<serde_json::Value> = serde_json::from_str(&trial.conditions).ok();
    conditions.is_some_and(|conditions| conditions["interrupted"] == true)
}

/// A job as the campaign's plan records it.
fn described(job: &Job) -> serde_json::Value {
    serde_json::json!({
        "case": job.case.label(), "case_id": job.case.id, "workload": job.workload, "targets": job.targets,
    })
}

/// A seed of its own for every group of targets of every job, so that no target has a fixed place in the order.
fn order_seed(seed: u64, campaign: CampaignId, index: usize, group: usize) -> u64 {
    let mix = |value: u64, part: u64| (value ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
    mix(mix(mix(mix(0, seed), campaign.0.cast_unsigned()), index as u64), group as u64)
}
