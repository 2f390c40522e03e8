//! The benchmark's arguments.
//!
//! Invariant: an argument that is not understood is refused.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const QUESTIONS: &str = "precision, sessions, overhead, compare";

/// What is asked, and about what.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) question: String,
    /// Repetitions; each question has a number of its own.
    pub(crate) runs: Option<usize>,
    /// Models by name; each question has a list of its own.
    pub(crate) models: Vec<String>,
    /// The target of questions about an installed engine.
    pub(crate) target: String,
    /// A home in which `up` has been run.
    pub(crate) home: Option<PathBuf>,
    /// A Python interpreter with ONNX Runtime of the installed engine's version.
    pub(crate) python: PathBuf,
    /// How long to wait before each pair of measurements for others to leave the machine alone.
    pub(crate) patience: Duration,
    /// Sessions of ours that one estimate joins.
    pub(crate) each: usize,
    /// Rounds and samples per round of a session of a comparison, in place of the product's.
    pub(crate) design: Option<(u32, u32)>,
    /// A file that gets the raw values, as lines of JSON.
    pub(crate) record: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut parsed = Self {
            question: String::new(),
            runs: None,
            models: Vec::new(),
            target: "cpu/ort".to_owned(),
            home: std::env::var_os("SILICONROUTE_HOME").map(PathBuf::from),
            python: "python3".into(),
            patience: Duration::ZERO,
            each: 1,
            design: None,
            record: None,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--runs" => parsed.runs = Some(value()?.parse()?),
                "--models" => parsed.models = value()?.split(',').map(str::to_owned).collect(),
                "--target" => parsed.target = value()?,
                "--home" => parsed.home = Some(value()?.into()),
                "--python" => parsed.python = value()?.into(),
                "--patience" => parsed.patience = Duration::from_secs(value()?.parse()?),
                "--each" => parsed.each = value()?.parse()?,
                "--design" => {
                    let value = value()?;
                    let (rounds, samples) = value.split_once('x').ok_or("a design reads ROUNDSxSAMPLES")?;
                    parsed.design = Some((rounds.parse()?, samples.parse()?));
                }
                "--record" => parsed.record = Some(value()?.into()),
                // What `cargo bench` adds.
                "--bench" => {}
                _ if !word.starts_with('-') && parsed.question.is_empty() => parsed.question = word,
                _ => return Err(format!("unknown argument `{word}`").into()),
            }
        }
        Ok(parsed)
    }

    pub(crate) fn models_or(&self, usual: &[&str]) -> Vec<String> {
        if self.models.is_empty() {
            usual.iter().map(|&name| name.to_owned()).collect()
        } else {
            self.models.clone()
        }
    }
}
