//! The main job: from a bare machine to decisions that were checked against the truth.
//!
//! Invariant: every step first looks for what an earlier start has done, so that a second start
//! measures nothing and an interrupted one goes on where it stopped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use siliconroute_core::trial::Purpose;
use siliconroute_core::{Case, TargetKey, Workload};
use siliconroute_engine::packages;
use siliconroute_onnx::{SyntheticModel, WriteError, published_ladder};
use siliconroute_store::StoredModel;

use crate::campaign::{all_refuse, is_trusted};
use crate::engine_packages::{Forward, error_with_hint};
use crate::error::{Error, ErrorKind};
use crate::evaluation::{CheckedDecision, Evaluation, Question};
use crate::event::{Event, Listener, Silent, Stage};
use crate::learn::Learned;
use crate::machine::{brief, describe_error};
use crate::measure::{Job, Order};
use crate::models::{Given, KnownModel, ModelError, write_synthetic};
use crate::router::{Router, Targets};
use crate::run::{Routing, require_target};
use crate::tuning::{Anew, UpTuning};

/// Sessions of each case and target that a first start measures.
///
/// Some providers settle on another speed in each session (OpenVINO in 16 bits by up to 1.7 times), so that
/// one session tells little about the next.
pub const SESSIONS: usize = 2;

/// Real models that a first start measures: small and large, convolutions, recurrences, embeddings.
const STARTER_MODELS: &[&str] =
    &["silero-vad", "magika", "ocr-cls", "ocr-det", "ocr-rec", "yolov8n-320", "orientation"];

/// Synthetic cases that give the hardware models their range.
const STARTER_SYNTHETIC: &[(&str, u64)] = &[
    ("mlp-128w-4l", 1),
    ("mlp-512w-4l", 1),
    ("mlp-512w-4l", 32),
    ("mlp-2048w-4l", 1),
    ("conv-8c-4l", 1),
    ("conv-32c-4l", 1),
    ("conv-64c-4l", 1),
    ("attn-64d-2l", 1),
    ("attn-256d-2l", 1),
];

/// Synthetic cases that are only predicted before the self-check measures them.
const UNSEEN_SYNTHETIC: &[(&str, u64)] =
    &[("mlp-256w-4l", 1), ("mlp-1024w-4l", 8), ("conv-16c-4l", 1), ("conv-48c-4l", 1), ("attn-128d-2l", 1)];

/// Models of which a second batch size is only predicted before the self-check measures it.
const UNSEEN_BATCH: &[(&str, u64)] = &[("magika", 8), ("ocr-cls", 4)];

/// Bytes of the synthetic models that a start still has to write into `folder`.
pub(crate) fn starter_bytes(folder: &Path) -> u64 {
    let names: BTreeSet<&str> =
        STARTER_SYNTHETIC.iter().chain(UNSEEN_SYNTHETIC).map(|(name, _)| *name).collect();
    let missing = names.into_iter().filter(|name| !folder.join(format!("{name}.onnx")).is_file());
    let sizes = missing.filter_map(|name| SyntheticModel::parse(name).ok()).map(|model| model.weight_bytes());
    sizes.fold(0, u64::saturating_add)
}

/// What the main job did and found.
#[derive(Debug, Serialize)]
pub struct UpReport {
    /// Decisions against the truth; the shape that scripts rely on.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// The hardware id.
    pub hardware_id: String,
    /// Threads and policy of this machine; none where it could not be tuned.
    pub tuning: Option<UpTuning>,
    /// The targets that were available.
    pub targets: Vec<TargetKey>,
    /// Trials measured by this start; 0 when everything was known.
    pub measured_trials: usize,
    /// What could not be had, in sentences.
    pub notices: Vec<String>,
    /// The user's own models that no target could run.
    pub unusable: Vec<UnusableModel>,
}

/// A model of the user's own that no target could run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusableModel {
    /// The model.
    pub model: String,
    /// Target and failure, joined.
    pub reasons: String,
    /// Whether every target refuses it, a trusted one among them, so that the model itself is at fault.
    pub refused: bool,
}

impl UpReport {
    /// The kind of failure that the user's own models amount to; `None` where each of them runs.
    pub fn failure(&self) -> Option<ErrorKind> {
        match self.unusable.as_slice() {
            [] => None,
            unusable if unusable.iter().all(|model| model.refused) => Some(ErrorKind::Usage),
            _ => Some(ErrorKind::WorkFailed),
        }
    }
}

/// What the main job should do.
#[derive(Debug, Clone, Default)]
pub struct UpPlan {
    /// Whether a kept tuning of the machine may be used.
    pub tuning: Anew,
    /// Models of the user's own, measured besides the starter models.
    pub models: Vec<String>,
}

/// Passes on events and keeps the notices.
struct Recorder<'a> {
    listener: &'a mut dyn Listener,
    notices: Vec<String>,
}

impl Listener for Recorder<'_> {
    fn event(&mut self, event: Event) {
        if let Event::Notice(notice) = &event {
            self.notices.push(notice.clone());
        }
        self.listener.event(event);
    }
}

/// Synthetic models that cannot be had, and why the first of them cannot.
#[derive(Default)]
struct Lacking {
    first: Option<Error>,
    names: Vec<&'static str>,
}

impl Lacking {
    fn add(&mut self, name: &'static str, error: Error) {
        self.first.get_or_insert(error);
        if !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// Says what is left out; an error where that is all that there was.
    fn tell(self, listener: &mut dyn Listener, nothing_left: bool) -> Result<(), Error> {
        match self.first {
            None => Ok(()),
            Some(error) if nothing_left => Err(error),
            Some(error) => {
                listener.event(Event::Notice(error_with_hint(&error)));
                let names = self.names.join(", ");
                listener.event(Event::Notice(format!("synthetic models left out: {names}")));
                Ok(())
            }
        }
    }
}

impl Router {
    /// Installs, measures, learns, decides and checks, as far as that was not done before.
    ///
    /// What cannot be fetched, or finds no room on the disk, is said in a notice, and the rest goes on.
    ///
    /// # Errors
    /// When no target can be used, a model of the user's own cannot be used, no model at all can be had, the store fails, the home is
    /// read-only and something is still to be measured, or the user stops.
    pub fn up(&self, plan: &UpPlan, listener: &mut dyn Listener) -> Result<UpReport, Error> {
        let mut recorder = Recorder { listener, notices: Vec::new() };
        let listener = &mut recorder;
        listener.event(Event::Begin { stage: Stage::Machine, steps: None });
        listener.event(Event::End(format!("{} ({})", self.machine.hardware_id, self.machine.host.cpu_name)));
        let own = plan
            .models
            .iter()
            .map(|reference| self.fetch_model(reference, listener))
            .collect::<Result<Vec<_>, _>>()?;
        let owned = own.len();
        let tuning = self.tune_at_start(plan.tuning, listener)?;
        self.install_recommended(listener)?;
        let targets = self.targets(listener)?;
        require_target(&targets)?;
        let (learning, unseen) = self.starter_cases(own, listener)?;
        let questions: Vec<Question> = learning.iter().chain(&unseen).cloned().collect();
        let known = self.learn(&targets)?;
        let mut looked = Recorder { listener: &mut Silent, notices: Vec::new() };
        let nothing_missing = missing_jobs(&learning, &targets, &known, SESSIONS, true).is_empty()
            && self.doubted_jobs(&targets, &known, &mut looked)?.is_empty()
            && self.stored_checks(&questions, &targets, Workload::Sustained)?.iter().all(Option::is_some);
        let (decisions, measured_trials) = if nothing_missing {
            // What measuring would tell itself.
            looked.notices.into_iter().for_each(|notice| listener.event(Event::Notice(notice)));
            announce_fits(&known, listener);
            (
                self.stored_checks(&questions, &targets, Workload::Sustained)?
                    .into_iter()
                    .flatten()
                    .collect(),
                0,
            )
        } else {
            self.measure_missing(&learning, &questions, &targets, listener)?
        };
        let unusable = if owned == 0 {
            Vec::new()
        } else {
            unusable_models(&learning[..owned], &targets, &self.learn(&targets)?)
        };
        for UnusableModel { model, reasons, .. } in &unusable {
            listener.event(Event::Notice(format!("no target can run {model}: {reasons}")));
        }
        Ok(UpReport {
            evaluation: Evaluation::of(decisions),
            hardware_id: self.machine.hardware_id.clone(),
            tuning,
            targets: targets.discovery.available().map(|found| found.target.key.clone()).collect(),
            measured_trials,
            notices: recorder.notices,
            unusable,
        })
    }

    /// Measures and checks what is missing; gives all decisions, and the number of trials made.
    fn measure_missing(
        &self,
        learning: &[Question],
        questions: &[Question],
        targets: &Targets,
        listener: &mut dyn Listener,
    ) -> Result<(Vec<CheckedDecision>, usize), Error> {
        let turn = self.lock_measuring(listener)?;
        // Another program may have measured while this one waited, so what is missing is seen only now.
        let mut learned = self.learn(targets)?;
        let mut trials = 0;
        for pass in 0..=SESSIONS {
            // What runs have shown to have changed comes first; what failed at last is tried again once, whatever comes of it.
            let jobs = match pass {
                0 => self.doubted_jobs(targets, &learned, listener)?,
                _ => missing_jobs(learning, targets, &learned, pass, pass == 1),
            };
            if jobs.is_empty() {
                continue;
            }
            listener.event(Event::Begin { stage: Stage::Learning, steps: Some(jobs.len() as u64) });
            let sampling = self.sampling();
            let measured = self
                .measure_in_turn(&turn, &jobs, targets, &Order::new(Purpose::Learn, &sampling), listener)?
                .complete()?;
            trials += measured.trials.len();
            let made = measured.trials.len();
            let passes = match pass {
                0 => format!("{made} trials of times that were in doubt"),
                _ => format!("{made} trials, session {pass} of {SESSIONS}"),
            };
            listener.event(Event::End(passes));
            learned = self.learn(targets)?;
        }
        announce_fits(&learned, listener);
        let stored = self.stored_checks(questions, targets, Workload::Sustained)?;
        let missing: Vec<Question> = std::iter::zip(questions, &stored)
            .filter(|(_, check)| check.is_none())
            .map(|(question, _)| question.clone())
            .collect();
        let mut fresh = Vec::new();
        if !missing.is_empty() {
            let routing = Routing::default();
            let (checks, made) =
                self.check_in_turn(&turn, &missing, targets, &learned, &routing, listener)?;
            (fresh, trials) = (checks, trials + made);
        }
        let mut fresh = fresh.into_iter();
        let all = stored.into_iter().filter_map(|check| check.or_else(|| fresh.next())).collect();
        Ok((all, trials))
    }

    /// The cases to learn from and the cases that are only predicted; what cannot be had becomes a notice.
    fn starter_cases(
        &self,
        own: Vec<KnownModel>,
        listener: &mut dyn Listener,
    ) -> Result<(Vec<Question>, Vec<Question>), Error> {
        let mut learning = Vec::new();
        for model in own {
            let case = self.models().case(&model, &Given::default())?;
            learning.push(Question { model, case });
        }
        let missing = STARTER_MODELS.iter().filter(|name| !self.models().is_here(name)).count() as u64;
        if missing > 0 && !self.settings.offline {
            listener.event(Event::Begin { stage: Stage::Models, steps: Some(missing) });
        }
        // Those that cannot be had for one and the same reason.
        let mut unreached: Vec<&str> = Vec::new();
        for name in STARTER_MODELS {
            let here = self.models().is_here(name);
            let damaged = self.models().damage(name, &Forward { listener, router: self })?.is_some();
            if !here && !damaged && !unreached.is_empty() {
                unreached.push(name);
                continue;
            }
            let fetched = !here && !self.settings.offline;
            if fetched {
                listener.event(Event::Step((*name).to_owned()));
            }
            let model = if unreached.is_empty() {
                self.fetch_model(name, listener)
            } else {
                self.find_model(name, listener)
            };
            match model {
                Ok(model) => learning.push(self.question(model, None)?),
                Err(error) if is_final(&error) => return Err(error),
                Err(error) if matches!(&error, Error::Model(error) if error.is_unreachable()) => {
                    if unreached.is_empty() {
                        listener.event(Event::Notice(error_with_hint(&error)));
                    }
                    unreached.push(name);
                }
                Err(error) => {
                    let reason = error_with_hint(&error);
                    listener.event(Event::Notice(format!("the model {name} is left out: {reason}")));
                }
            }
            if fetched {
                listener.event(Event::StepDone);
            }
        }
        if missing > 0 && !self.settings.offline {
            listener.event(Event::End(String::new()));
        }
        if !unreached.is_empty() {
            listener.event(Event::Notice(format!("models left out: {}", unreached.join(", "))));
        }
        let mut lacking = Lacking::default();
        for (name, batch) in STARTER_SYNTHETIC {
            learning.extend(self.synthetic_question(name, *batch, &mut lacking, listener)?);
        }
        let mut unseen = Vec::new();
        for (name, batch) in UNSEEN_SYNTHETIC {
            unseen.extend(self.synthetic_question(name, *batch, &mut lacking, listener)?);
        }
        lacking.tell(listener, learning.is_empty())?;
        for (name, batch) in UNSEEN_BATCH {
            if let Some(known) = learning.iter().find(|question| question.model.name == *name) {
                unseen.push(self.question(known.model.clone(), Some(*batch))?);
            }
        }
        Ok((learning, unseen))
    }

    /// A synthetic case, or `None` where its model cannot be written, as on a disk that is too small for it.
    fn synthetic_question(
        &self,
        name: &'static str,
        batch: u64,
        lacking: &mut Lacking,
        listener: &mut dyn Listener,
    ) -> Result<Option<Question>, Error> {
        match self.find_model(name, listener) {
            Ok(model) => self.question(model, Some(batch)).map(Some),
            Err(error) if is_final(&error) => Err(error),
            Err(error) => {
                lacking.add(name, error);
                Ok(None)
            }
        }
    }

    fn question(&self, model: KnownModel, batch: Option<u64>) -> Result<Question, Error> {
        let given = Given { batch, ..Given::default() };
        let case = self.models().case(&model, &given)?;
        Ok(Question { model, case })
    }

    /// The measured cases whose model is still the same where it was, to be decided and checked.
    ///
    /// A model that has gone or changed becomes a notice.
    ///
    /// # Errors
    /// When the store fails.
    pub fn measured_questions(
        &self,
        learned: &Learned,
        listener: &mut dyn Listener,
    ) -> Result<Vec<Question>, Error> {
        let mut questions = Vec::new();
        for stored in self.store.models()? {
            let mut cases: Vec<&Case> = learned
                .cases
                .values()
                .filter(|case| case.model == stored.facts.id && learned.knowledge.cells(case.id).is_some())
                .collect();
            cases.sort_by_key(|case| (case.facts.batch, case.id));
            if cases.is_empty() {
                continue;
            }
            match self.find_stored_model(&stored) {
                Ok(model) => {
                    let question = |case: &Case| Question { model: model.clone(), case: case.clone() };
                    questions.extend(cases.into_iter().map(question));
                }
                Err(reason) => {
                    listener.event(Event::Notice(format!("{} is left out: {reason}", stored.name)));
                }
            }
        }
        Ok(questions)
    }

    /// The model as it lies on the disk now, or why it cannot be measured again.
    pub(crate) fn find_stored_model(&self, stored: &StoredModel) -> Result<KnownModel, String> {
        let progress = Forward { listener: &mut Silent, router: self };
        let damage = self.models().damage(&stored.name, &progress);
        if let (Some(_), Ok(Some(damage))) = (&stored.source, damage) {
            return Err(error_with_hint(&damage.into()));
        }
        let by_name = stored.source.is_some() && self.models().is_here(&stored.name);
        let reference = match &stored.path {
            _ if by_name => stored.name.clone(),
            Some(path) => path.display().to_string(),
            None => return Err("where its file lies is not known".to_owned()),
        };
        let model = self.find_model(&reference, &mut Silent).map_err(|e| describe_error(&e))?;
        if model.facts.id == stored.facts.id {
            Ok(model)
        } else {
            Err(format!("`{}` has changed since it was measured", model.path.display()))
        }
    }

    /// Writes synthetic models into `folder`, the published ladder when `names` is empty.
    ///
    /// # Errors
    /// When a name is no synthetic model or the folder cannot be written.
    pub fn generate_models(
        &self,
        names: &[String],
        folder: &Path,
        listener: &mut dyn Listener,
    ) -> Result<Vec<PathBuf>, Error> {
        let models = if names.is_empty() {
            published_ladder()
        } else {
            let parse =
                |name: &String| SyntheticModel::parse(name).map_err(|error| Error::Usage(error.to_string()));
            names.iter().map(parse).collect::<Result<_, _>>()?
        };
        let in_home = folder == self.home.models();
        if in_home {
            self.require_writable("generate models in the home")?;
        }
        std::fs::create_dir_all(folder).map_err(|source| {
            ModelError::unwritten(WriteError { path: folder.to_owned(), source }, in_home)
        })?;
        // A folder of the user's own gets no lock file.
        let _lock = if in_home {
            let mut progress = Forward { listener, router: self };
            Some(packages::FolderLock::acquire(folder, &mut progress).map_err(ModelError::from)?)
        } else {
            None
        };
        models
            .into_iter()
            .map(|model| {
                let path = folder.join(format!("{}.onnx", model.name()));
                write_synthetic(&model, &path, 0, in_home)?;
                Ok(path)
            })
            .collect()
    }

    /// Finds a model as [`Self::find_model`] does, and fetches one of the catalogue anew that was changed.
    ///
    /// # Errors
    /// When there is no such model or it cannot be fetched or read.
    pub fn fetch_model(&self, reference: &str, listener: &mut dyn Listener) -> Result<KnownModel, Error> {
        let models = self.models();
        let can_fetch = self.read_only.is_none() && !self.settings.offline;
        if can_fetch && models.damage(reference, &Forward { listener, router: self })?.is_some() {
            listener
                .event(Event::Notice(format!("{reference} was changed since it was fetched; replacing it")));
            let mut progress = Forward { listener, router: self };
            models.replace(reference, self.fetcher.as_ref(), &mut progress)?;
        }
        self.find_model(reference, listener)
    }

    /// Finds a model and fetches it if it must be; the download shows as events.
    ///
    /// # Errors
    /// When there is no such model or it cannot be fetched or read.
    pub fn find_model(&self, reference: &str, listener: &mut dyn Listener) -> Result<KnownModel, Error> {
        let mut progress = Forward { listener, router: self };
        Ok(self.models().resolve(reference, self.fetcher.as_ref(), &mut progress)?)
    }
}

/// The cases with the targets on which each has fewer than `sessions` trials in the sustained workload.
///
/// A target that refused a case, or gave it away, is not tried again; a crash, hang or memory blow-up counts
/// as a session and may pass in the next, and beyond that where `retry` is set and it came last. A reference is
/// always measured along, since outputs are compared within a campaign.
fn missing_jobs(
    questions: &[Question],
    targets: &Targets,
    learned: &Learned,
    sessions: usize,
    retry: bool,
) -> Vec<Job> {
    let all: Vec<TargetKey> = targets.discovery.available().map(|found| found.target.key.clone()).collect();
    let refused = |case: &Case, key: &TargetKey| {
        let mut failures = learned
            .trials_of(case.id, key, Workload::Sustained)
            .filter_map(|trial| trial.outcome.as_ref().err());
        failures.any(|failure| !failure.kind.is_transient())
    };
    let job = |question: &Question| {
        let case = &question.case;
        let lacks = |key: &&TargetKey| {
            let (mut trials, mut failing) = (0, false);
            for trial in learned.trials_of(case.id, key, Workload::Sustained) {
                (trials, failing) = (trials + 1, trial.outcome.is_err());
            }
            (trials < sessions || (retry && failing)) && !refused(case, key)
        };
        let wanted: Vec<&TargetKey> = all.iter().filter(lacks).collect();
        let reference = all.iter().find(|key| is_trusted(key) && !refused(case, key));
        let targets =
            reference.into_iter().chain(wanted.iter().copied().filter(|key| Some(*key) != reference));
        (!wanted.is_empty()).then(|| Job {
            model: question.model.clone(),
            case: case.clone(),
            workload: Workload::Sustained,
            targets: targets.cloned().collect(),
        })
    };
    questions.iter().filter_map(job).collect()
}

/// The `questions` that no available target has ever answered, with the latest failure of each.
fn unusable_models(questions: &[Question], targets: &Targets, learned: &Learned) -> Vec<UnusableModel> {
    let unusable = |question: &Question| {
        let mut failures = Vec::new();
        for found in targets.discovery.available() {
            let key = &found.target.key;
            for trial in learned.trials.iter().filter(|it| it.case == question.case.id && it.target == *key) {
                let failure = trial.outcome.as_ref().err()?;
                match failures.last_mut() {
                    Some((known, latest)) if *known == key => *latest = failure,
                    _ => failures.push((key, failure)),
                }
            }
        }
        let told = failures.iter().map(|(key, failure)| format!("{key} {}", brief(&failure.to_string())));
        let reasons = if failures.is_empty() {
            "no target is available".to_owned()
        } else {
            told.collect::<Vec<_>>().join("; ")
        };
        let refused = all_refuse(failures.iter().copied());
        Some(UnusableModel { model: question.case.label(), reasons, refused })
    };
    questions.iter().filter_map(unusable).collect()
}

/// Whether the other models fail as this one did: not for want of room, since others may be smaller.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Store) && !error.lacks_room_in_home()
}

fn announce_fits(learned: &Learned, listener: &mut dyn Listener) {
    listener.event(Event::Begin { stage: Stage::Fitting, steps: None });
    let fitted: Vec<String> = learned
        .knowledge
        .targets()
        .iter()
        .filter_map(|entry| {
            let fit = entry.fits[Workload::Sustained.index()].as_ref()?;
            Some(format!("{} {} ({:.0} %)", entry.target.key, fit.form, fit.loo_mape_pct))
        })
        .collect();
    listener.event(Event::End(if fitted.is_empty() {
        "too few measurements for a hardware model".to_owned()
    } else {
        fitted.join(", ")
    }));
}
