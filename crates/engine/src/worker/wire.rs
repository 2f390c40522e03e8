//! The messages between a worker and its parent: one frame each, length first.
//!
//! Invariant: a frame is never trusted: its length is checked before anything is allocated.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use siliconroute_core::model::Bindings;
use siliconroute_core::tensor::{Dimension, NamedTensor, TensorSpec};
use siliconroute_core::trial::{Placement, Sample};
use siliconroute_core::{ElementType, Reading, TargetKey};

use crate::onnxruntime::{CpuFeatures, Plugin};
use crate::session::{Offer, ThreadOptions};
use crate::timing::WarmUp;

/// Grows when a message changes; parent and worker are the same program, so a mismatch means a mixed-up binary.
pub const PROTOCOL: u32 = 3;

/// The largest frame accepted.
const MAX_FRAME_BYTES: u64 = 4 << 30;

/// Marks the start of a frame, so that text which a library prints in between is recognised as such.
const MAGIC: [u8; 4] = *b"SRW1";

/// The engine that a worker loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EngineSpec {
    /// The embedded engine.
    Rten,
    /// ONNX Runtime with plugins.
    OnnxRuntime {
        /// The runtime library.
        library: PathBuf,
        /// Its version.
        version: String,
        /// Plugins to register.
        plugins: Vec<Plugin>,
        /// Registered names of providers that are compiled in and may not be listed as devices.
        built_in: Vec<String>,
        /// Natively supported formats of the CPU.
        cpu: CpuFeatures,
        /// Folders for the loader's search path, where libraries find each other only so.
        search_path: Vec<PathBuf>,
    },
}

/// A model's input or output on the wire, where every value carries its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecMessage {
    name: String,
    element: ElementType,
    shape: Vec<AxisMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum AxisMessage {
    Fixed(u64),
    Free(String),
}

impl From<&TensorSpec> for SpecMessage {
    fn from(spec: &TensorSpec) -> Self {
        let axis = |dimension: &Dimension| match dimension {
            Dimension::Fixed(size) => AxisMessage::Fixed(*size),
            Dimension::Free(name) => AxisMessage::Free(name.clone()),
        };
        Self { name: spec.name.clone(), element: spec.element, shape: spec.shape.iter().map(axis).collect() }
    }
}

impl From<SpecMessage> for TensorSpec {
    fn from(message: SpecMessage) -> Self {
        let axis = |axis| match axis {
            AxisMessage::Fixed(size) => Dimension::Fixed(size),
            AxisMessage::Free(name) => Dimension::Free(name),
        };
        Self {
            name: message.name,
            element: message.element,
            shape: message.shape.into_iter().map(axis).collect(),
        }
    }
}

/// What a worker process has used so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time, over all threads.
    pub cpu_time_ns: Reading<u64>,
    /// Resident memory now.
    pub resident_bytes: Reading<u64>,
    /// The most resident memory.
    pub peak_resident_bytes: Reading<u64>,
    /// Memory of chips other than the processor now.
    pub device_bytes: Reading<u64>,
}

/// What a process used of the processor while its session had nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idled {
    /// How long that was, since the inference before it had ended.
    pub wall_ns: u64,
    /// Processor time, over all threads.
    pub cpu_ns: Reading<u64>,
}

/// What the parent asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Loads the engine and lists its targets. The first request, made once.
    Open {
        /// The parent's [`PROTOCOL`].
        protocol: u32,
        /// The engine.
        engine: EngineSpec,
    },
    /// Makes the session, in place of one that there may be.
    Create {
        /// The target.
        target: TargetKey,
        /// The model file.
        model: PathBuf,
        /// Its inputs.
        inputs: Vec<SpecMessage>,
        /// Its outputs.
        outputs: Vec<SpecMessage>,
        /// Values of the free dimensions.
        bindings: Bindings,
        /// How its threads work.
        threads: ThreadOptions,
        /// Folder in which the provider keeps what it compiled.
        compile_cache: Option<PathBuf>,
    },
    /// Sets the inputs of the session.
    SetInputs(Vec<NamedTensor>),
    /// Runs one inference and times it.
    Run,
    /// Copies the outputs of the last run.
    Outputs,
    /// Runs until both limits are reached.
    WarmUp {
        /// The fewest calls.
        min_calls: u64,
        /// The least time.
        min_ns: u64,
    },
    /// Takes samples.
    Sample {
        /// The interleaving round.
        round: u32,
        /// Calls per sample.
        calls: u32,
        /// Samples wanted.
        count: u32,
        /// No new sample after this time.
        budget_ns: u64,
    },
    /// Runs one inference and then does nothing, to see what the session's threads use of the processor meanwhile.
    Idle {
        /// How long nothing is done.
        window_ns: u64,
    },
    /// Tells what the process has used so far.
    Usage,
    /// Ends the session.
    Close,
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// The engine is loaded.
    Opened {
        /// Its name and version.
        version: String,
        /// Its targets.
        offers: Vec<Offer>,
        /// How long the library took to load and the providers to register.
        load_ns: u64,
    },
    /// The session is made.
    Created {
        /// How long that took.
        create_ns: u64,
        /// Which nodes run where.
        placement: Reading<Placement>,
    },
    /// The inputs are set, or the session is closed.
    Done,
    /// One inference ran.
    Ran {
        /// How long it took.
        run_ns: u64,
    },
    /// The outputs of the last run.
    Outputs {
        /// The outputs, in graph order.
        outputs: Vec<NamedTensor>,
        /// How long it took to copy them out of the engine.
        copy_ns: u64,
    },
    /// The warm-up is over.
    WarmedUp(WarmUp),
    /// Samples were taken.
    Sampled {
        /// The timings.
        samples: Vec<Sample>,
        /// Processor seconds per second of wall time while sampling.
        busy_cores: Reading<f64>,
        /// The most memory that the process has held so far.
        peak_resident_bytes: Reading<u64>,
    },
    /// One inference ran, and then nothing was done for a while.
    Idled(Idled),
    /// What the process has used so far.
    Usage(Usage),
    /// The engine refused; the worker goes on.
    Refused(String),
}

/// A message that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side has gone.
    #[error("the other side closed the connection")]
    Closed,
    /// Something that is no frame.
    #[error("something else than a message arrived ({0})")]
    Garbage(&'static str),
    /// The pipe failed.
    #[error("the pipe failed")]
    Io(#[source] io::Error),
    /// The message cannot be encoded or decoded.
    #[error("a message cannot be encoded or decoded")]
    Encoding(#[source] postcard::Error),
}

/// Writes one message as a frame.
///
/// # Errors
/// When it cannot be encoded or the pipe fails.
pub fn write_message(writer: &mut impl Write, message: &impl Serialize) -> Result<(), WireError> {
    let frame = encode_frame(message)?;
    writer.write_all(&frame).and_then(|()| writer.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe { WireError::Closed } else { WireError::Io(error) }
    })
}

/// Encodes one message as a frame, in one piece, since tensors may fill much of the memory.
///
/// # Errors
/// When it cannot be encoded.
pub fn encode_frame(message: &impl Serialize) -> Result<Vec<u8>, WireError> {
    let mut head = MAGIC.to_vec();
    head.extend([0; 8]);
    let mut frame = postcard::to_extend(message, head).map_err(WireError::Encoding)?;
    let length = (frame.len() - 12) as u64;
    frame[4..12].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Reads one message.
///
/// # Errors
/// When the other side has gone, sent something else, or the pipe fails.
pub fn read_message<T: for<'de> Deserialize<'de>>(reader: &mut impl Read) -> Result<T, WireError> {
    let mut head = [0; 12];
    read_exactly(reader, &mut head)?;
    let (magic, length) = head.split_at(4);
    if magic != MAGIC {
        return Err(WireError::Garbage("a library may have printed into the pipe"));
    }
    let length = length.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
    if length > MAX_FRAME_BYTES {
        return Err(WireError::Garbage("the length is beyond the limit"));
    }
    // Read in steps, so that a false length cannot allocate what never arrives.
    let mut body = Vec::new();
    let read = reader.take(length).read_to_end(&mut body).map_err(WireError::Io)?;
    if read as u64 != length {
        return Err(WireError::Closed);
    }
    postcard::from_bytes(&body).map_err(WireError::Encoding)
}

fn read_exactly(reader: &mut impl Read, buffer: &mut [u8]) -> Result<(), WireError> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => WireError::Closed,
        _ => WireError::Io(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let request = Request::Sample { round: 2, calls: 400, count: 30, budget_ns: 1_000_000 };
        let mut pipe = Vec::new();
        write_message(&mut pipe, &request).unwrap();
        write_message(&mut pipe, &Request::Close).unwrap();
        let mut reader = pipe.as_slice();
        assert_eq!(read_message::<Request>(&mut reader).unwrap(), request);
        assert_eq!(read_message::<Request>(&mut reader).unwrap(), Request::Close);
        assert!(matches!(read_message::<Request>(&mut reader), Err(WireError::Closed)));
    }

    #[test]
    fn every_part_of_a_model_s_description_round_trips() {
        let spec = TensorSpec {
            name: "x".to_owned(),
            element: ElementType::Float32,
            shape: vec![Dimension::Free("batch".to_owned()), Dimension::Fixed(3)],
        };
        let request = Request::Create {
            target: TargetKey("cpu/rten".to_owned()),
            model: "model.onnx".into(),
            inputs: vec![SpecMessage::from(&spec)],
            outputs: Vec::new(),
            bindings: Bindings::default(),
            threads: ThreadOptions { cores: vec![0, 2], ..ThreadOptions::of_count(2) },
            compile_cache: None,
        };
        let mut pipe = Vec::new();
        write_message(&mut pipe, &request).unwrap();
        assert_eq!(read_message::<Request>(&mut pipe.as_slice()).unwrap(), request);
        assert_eq!(TensorSpec::from(SpecMessage::from(&spec)), spec);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        #[track_caller]
        fn check(bytes: &[u8]) -> WireError {
            read_message::<Request>(&mut &bytes[..]).unwrap_err()
        }
        assert!(matches!(check(b"hello from a library\n"), WireError::Garbage(_)));
        let mut endless = MAGIC.to_vec();
        endless.extend(u64::MAX.to_le_bytes());
        assert!(matches!(check(&endless), WireError::Garbage(_)));
        let mut short = MAGIC.to_vec();
        short.extend((1_u64 << 31).to_le_bytes());
        assert!(matches!(check(&short), WireError::Closed));
        let mut wrong = MAGIC.to_vec();
        wrong.extend(1_u64.to_le_bytes());
        wrong.push(0xff);
        assert!(matches!(check(&wrong), WireError::Encoding(_)));
    }
}
