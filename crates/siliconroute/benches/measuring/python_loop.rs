//! The timing loop that people write with ONNX Runtime in Python, as a process of its own for each session.
//!
//! Invariant: it gets the very file and input values that the other side gets.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use siliconroute::array_file::write_outputs;
use tempfile::TempDir;

use crate::subject::Subject;

/// Ten calls to warm up, more than many such loops have, then the mean of a hundred.
const SCRIPT: &str = r#"import json, sys, time
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
values = numpy.load(sys.argv[2])
inputs = {item.name: values[item.name] for item in session.get_inputs()}
for _ in range(10):
    session.run(None, inputs)
times = []
for _ in range(100):
    start = time.perf_counter()
    session.run(None, inputs)
    times.append((time.perf_counter() - start) * 1e9)
print(json.dumps({"version": onnxruntime.__version__, "times_ns": times}))
"#;

/// One session of the loop.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct LoopSession {
    pub(crate) version: String,
    pub(crate) times_ns: Vec<f64>,
}

impl LoopSession {
    pub(crate) fn mean_ns(&self) -> f64 {
        self.times_ns.iter().sum::<f64>() / self.times_ns.len() as f64
    }
}

/// The loop on one model.
pub(crate) struct PythonLoop {
    python: PathBuf,
    model: PathBuf,
    folder: TempDir,
}

impl PythonLoop {
    pub(crate) fn new(python: &Path, subject: &Subject) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("loop.py"), SCRIPT)?;
        write_outputs(&folder.path().join("inputs.npz"), &subject.values)?;
        Ok(Self { python: python.to_owned(), model: subject.model.path.clone(), folder })
    }

    pub(crate) fn run(&self) -> Result<LoopSession, Box<dyn Error>> {
        let folder = self.folder.path();
        let output = Command::new(&self.python)
            .arg(folder.join("loop.py"))
            .arg(&self.model)
            .arg(folder.join("inputs.npz"))
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the loop in Python failed: {}", said.trim()).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
