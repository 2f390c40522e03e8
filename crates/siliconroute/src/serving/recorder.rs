//! Puts served runs into the store, from a thread of its own with a connection of its own.
//!
//! Invariant: whoever serves hands over and goes on; a store that is slow or fails costs measurements, never a run.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use siliconroute_core::energy::NOT_MEASURED;
use siliconroute_core::trial::{Before, Measurement, OutputCheck, Preparation, Sample};
use siliconroute_core::{CaseId, Reading, TargetKey, Workload, statistics};
use siliconroute_store::{NewDoubt, OpenOptions, Store, StoreError, TargetId};

use crate::error::Error;
use crate::router::Router;
use crate::served::{ServedCampaign, ServedRun};

/// Batches that may wait for the disk; beyond them the newest are lost.
const MOST_WAITING: usize = 64;

const SERVED: &str = "a served run tells its time alone";

/// What was served on one session.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) target: TargetKey,
    pub(super) row: TargetId,
    pub(super) case: CaseId,
    pub(super) workload: Workload,
    pub(super) samples: Vec<Sample>,
    pub(super) created: Duration,
    pub(super) first_run: Duration,
}

/// A measured time that runs have shown to have changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    pub(super) row: TargetId,
    pub(super) case: CaseId,
    pub(super) workload: Workload,
    pub(super) ratio: f64,
}

enum Message {
    Record(Box<Served>),
    /// What was recorded before is of the time before the change.
    Doubt(Changed),
    /// Answered when everything before is done.
    Flush(Sender<()>),
}

/// The thread that writes.
pub(super) struct Recorder {
    messages: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    pub(super) fn start(router: &Router) -> Result<Self, Error> {
        let store = Store::open(&router.home.store(), &OpenOptions::default())?;
        let clock = router.clock;
        let hardware_id = router.machine.hardware_id.clone();
        router.close_servings_without_end()?;
        let campaign = ServedCampaign::begin(router, &store)?;
        let (messages, waiting) = sync_channel(MOST_WAITING);
        let spawned = std::thread::Builder::new()
            .name("serving".to_owned())
            .spawn(move || keep_recording(&store, campaign, &hardware_id, clock, &waiting));
        let thread = match spawned {
            Ok(thread) => Some(thread),
            Err(error) => {
                tracing::warn!("served runs are not stored: the thread that writes did not start: {error}");
                None
            }
        };
        Ok(Self { messages: Some(messages), thread })
    }

    pub(super) fn record(&self, served: Served) {
        self.send(Message::Record(Box::new(served)));
    }

    /// Keeps in the store that a time has changed, so that the next start measures it again.
    pub(super) fn doubt(&self, changed: Changed) {
        self.send(Message::Doubt(changed));
    }

    fn send(&self, message: Message) {
        let Some(messages) = &self.messages else { return };
        if let Err(TrySendError::Full(_)) = messages.try_send(message) {
            tracing::debug!("the store is slow; some served runs are not stored");
        }
    }

    pub(super) fn flush(&self) {
        let (done, wait) = channel();
        let sent = self.messages.as_ref().is_some_and(|messages| messages.send(Message::Flush(done)).is_ok());
        // A thread that has ended drops its end, which ends the waiting, too.
        if sent && wait.recv().is_err() {
            tracing::debug!("the thread that stores served runs has ended");
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.messages = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::warn!("the thread that stores served runs has panicked");
        }
    }
}

fn keep_recording(
    store: &Store,
    campaign: ServedCampaign,
    hardware_id: &str,
    clock: fn() -> i64,
    messages: &Receiver<Message>,
) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Record(served) => {
                if let Err(error) = record(store, &campaign, *served) {
                    tracing::warn!("served runs are not stored: {error}");
                }
            }
            Message::Doubt(Changed { row: target, case, workload, ratio }) => {
                let since_unix_ms = clock();
                let doubt = NewDoubt { hardware_id, target, case, workload, ratio, since_unix_ms };
                if let Err(error) = store.record_doubt(&doubt) {
                    tracing::warn!("a time that has changed is not stored as such: {error}");
                }
            }
            Message::Flush(done) => {
                if done.send(()).is_err() {
                    tracing::debug!("who waited for the store has given up");
                }
            }
        }
    }
    if let Err(error) = campaign.finish(store) {
        tracing::warn!("the end of serving is not stored: {error}");
    }
}

fn record(store: &Store, campaign: &ServedCampaign, served: Served) -> Result<(), StoreError> {
    let nanoseconds = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let gaps: Vec<f64> = served
        .samples
        .iter()
        .filter_map(|sample| match sample.before {
            Before::Resting { gap_ns, .. } => Some(gap_ns as f64),
            Before::Running | Before::Absent(_) => None,
        })
        .collect();
    let preparation = match statistics::median(&gaps) {
        Some(gap_ns) => Preparation::Rested { gap_ns: gap_ns as u64 },
        None => Preparation::Running,
    };
    let run = ServedRun { target: served.target, case: served.case, workload: served.workload, preparation };
    let measurement = Measurement {
        session_create_ns: nanoseconds(served.created),
        first_run_ns: nanoseconds(served.first_run),
        warmup_calls: 0,
        samples: served.samples,
        busy_cores: Reading::unavailable(SERVED),
        peak_resident_bytes: Reading::unavailable(SERVED),
        session_bytes: Reading::unavailable(SERVED),
        device_bytes: Reading::unavailable(SERVED),
        placement: Reading::unavailable(SERVED),
        outputs: OutputCheck::NotCompared { reason: SERVED.to_owned() },
        energy: Reading::unavailable(NOT_MEASURED),
    };
    campaign.record(store, served.row, run, Ok(measurement))
}
