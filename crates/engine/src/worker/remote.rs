//! A session in a worker of its own, behind the same trait as one in this process.
//!
//! Invariant: the worker lives exactly as long as the session.

use std::time::Duration;

use siliconroute_core::tensor::NamedTensor;
use siliconroute_core::trial::{Failure, Placement};
use siliconroute_core::{Reading, TargetKey};

use super::client::{RemoteModel, WorkerClient};
use super::process::Launcher;
use super::wire::EngineSpec;
use crate::session::{RunError, Session};

/// A session whose inferences run in a worker.
#[derive(Debug)]
pub struct RemoteSession {
    client: WorkerClient,
    placement: Reading<Placement>,
    deadline: Duration,
    outputs: Option<Vec<NamedTensor>>,
}

impl RemoteSession {
    /// Starts a worker for `engine` and loads `model` onto `target` in it.
    ///
    /// # Errors
    /// When the engine refuses, or the worker dies, hangs or outgrows its memory.
    pub fn open(
        launcher: &dyn Launcher,
        engine: &EngineSpec,
        target: &TargetKey,
        model: &RemoteModel<'_>,
        deadline: Duration,
    ) -> Result<Self, Failure> {
        let mut client = WorkerClient::open(launcher, engine, deadline)?;
        let placement = client.create_session(target, model, deadline)?.placement;
        Ok(Self { client, placement, deadline, outputs: None })
    }
}

impl Session for RemoteSession {
    fn placement(&self) -> Reading<Placement> {
        self.placement.clone()
    }

    fn set_inputs(&mut self, inputs: &[NamedTensor]) -> Result<(), RunError> {
        let mut session = self.client.resume(0, self.placement.clone(), self.deadline);
        Ok(session.set_inputs(inputs.to_vec())?)
    }

    fn run(&mut self) -> Result<(), RunError> {
        let mut session = self.client.resume(0, self.placement.clone(), self.deadline);
        session.run()?;
        self.outputs = Some(session.outputs()?);
        Ok(())
    }

    fn outputs(&self) -> Result<Vec<NamedTensor>, RunError> {
        self.outputs.clone().ok_or(RunError::NoInputs)
    }
}
