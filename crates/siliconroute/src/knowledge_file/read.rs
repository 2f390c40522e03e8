//! Reads a knowledge file.
//!
//! Invariant: the checksum is compared first, so that a damaged file is told from a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use siliconroute_core::ModelId;
use siliconroute_core::accuracy::OutputDifference;
use siliconroute_core::fleet::{ChipModel, FleetCase, FleetTarget, FleetTime};
use siliconroute_core::model::{BoundInput, CaseFacts, ClassWork};
use siliconroute_core::statistics::Interval;
use siliconroute_engine::regular_file::read_regular;

use super::wire::{Case, Chip, End, Line, Time};
use super::{
    KnowledgeFault, KnowledgeFile, KnowledgeFileError, MOST_BYTES, MOST_LINE_BYTES, MOST_LINES, SCHEMA, check,
};

/// What every version of the format begins with.
#[derive(Deserialize)]
struct AnyHead {
    record: String,
    schema: String,
}

impl KnowledgeFile {
    /// Reads the file at `path`; gives the digest of its bytes too.
    ///
    /// # Errors
    /// See [`KnowledgeFileError`].
    pub fn load(path: &Path) -> Result<(Self, [u8; 32]), KnowledgeFileError> {
        let read = |source| KnowledgeFileError::Read { path: path.to_owned(), source };
        let bytes = read_regular(path, MOST_BYTES).map_err(read)?;
        let file = Self::parse(&bytes)
            .map_err(|source| KnowledgeFileError::Fault { path: path.to_owned(), source })?;
        Ok((file, Sha256::digest(&bytes).into()))
    }

    /// Reads a file from its bytes.
    ///
    /// # Errors
    /// See [`KnowledgeFault`].
    pub fn parse(bytes: &[u8]) -> Result<Self, KnowledgeFault> {
        check_format(bytes)?;
        let (body, end) = split_end(bytes)?;
        let lines: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
        if digest_text(body) != end.sha256 || end.lines != lines.len() as u64 {
            return Err(KnowledgeFault::Changed);
        }
        let mut reader = Reader::default();
        for (index, bytes) in lines.iter().enumerate() {
            let at = |reason| KnowledgeFault::Line { line: index + 1, reason };
            let line = parse_line(bytes).map_err(at)?;
            reader.take(index + 1, line).map_err(at)?;
        }
        let Some(file) = reader.file.filter(|file| !file.times.is_empty()) else {
            return Err(KnowledgeFault::Line {
                line: lines.len() + 1,
                reason: "there is no time in the file".to_owned(),
            });
        };
        Ok(file)
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn digest_text(bytes: &[u8]) -> String {
    ModelId(Sha256::digest(bytes).into()).to_string()
}

/// Refuses what is no file of this format in this version.
fn check_format(bytes: &[u8]) -> Result<(), KnowledgeFault> {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let head = Some(first).filter(|line| line.len() <= MOST_LINE_BYTES);
    match head.and_then(|line| serde_json::from_slice::<AnyHead>(line).ok()) {
        Some(AnyHead { schema, .. }) if schema == SCHEMA => Ok(()),
        Some(AnyHead { record, schema }) if record == "knowledge" => {
            Err(KnowledgeFault::Version { found: check::shown(&schema).trim_matches('`').to_owned() })
        }
        _ => {
            let reason = format!("it is no head of a knowledge file, which names its format `{SCHEMA}`");
            Err(KnowledgeFault::Line { line: 1, reason })
        }
    }
}

/// Splits the bytes into what the last line is about, and that line.
fn split_end(bytes: &[u8]) -> Result<(&[u8], End), KnowledgeFault> {
    let whole = bytes.split(|byte| *byte == b'\n').count() - 1;
    if whole > MOST_LINES {
        let reason = format!("there are {whole} lines, and at most {MOST_LINES} are read");
        return Err(KnowledgeFault::Line { line: MOST_LINES + 1, reason });
    }
    let truncated = KnowledgeFault::Truncated { lines: whole };
    let Some(text) = bytes.strip_suffix(b"\n") else { return Err(truncated) };
    let start = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    match parse_line(&bytes[start..]) {
        Ok(Line::End(end)) => Ok((&bytes[..start], end)),
        _ => Err(truncated),
    }
}

fn parse_line(bytes: &[u8]) -> Result<Line, String> {
    if bytes.len() > MOST_LINE_BYTES {
        return Err(format!("it has {} bytes, and at most {MOST_LINE_BYTES} are read", bytes.len()));
    }
    // The parser would take the members without their names, too.
    if bytes.first() != Some(&b'{') {
        return Err("it is no JSON object".to_owned());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        // What is quoted in it comes from the file.
        let text: String = error.to_string().chars().take(200).collect();
        text.escape_debug().to_string()
    })
}

#[derive(Default)]
struct Reader {
    file: Option<KnowledgeFile>,
    chips: Vec<ChipModel>,
    cases: BTreeSet<siliconroute_core::CaseId>,
    /// The line of each session.
    sessions: BTreeMap<[u8; 32], usize>,
}

impl Reader {
    fn take(&mut self, number: usize, line: Line) -> Result<(), String> {
        if let Line::Knowledge(head) = line {
            check::head(&head)?;
            if self.file.is_some() {
                return Err("it is a second head".to_owned());
            }
            self.file = Some(KnowledgeFile {
                program_version: head.program_version,
                exported_unix_day: head.exported_unix_day,
                hardware_id: head.hardware_id,
                os: head.os,
                cases: Vec::new(),
                times: Vec::new(),
            });
            return Ok(());
        }
        let Some(file) = &mut self.file else { return Err("the head must come first".to_owned()) };
        match line {
            Line::Chip(chip) => {
                check::chip(&chip)?;
                if chip.number as usize != self.chips.len() {
                    return Err(format!("chip {} must be numbered {}", chip.number, self.chips.len()));
                }
                self.chips.push(chip_model(chip));
            }
            Line::Case(case) => {
                check::case(&case)?;
                if !self.cases.insert(case.id) {
                    return Err(format!("the case {} is there twice", case.id));
                }
                file.cases.push(fleet_case(case));
            }
            Line::Time(time) => {
                check::time(&time)?;
                let chip = self.chips.get(time.chip as usize);
                let chip = chip.ok_or_else(|| format!("no line before tells of chip {}", time.chip))?;
                if !self.cases.contains(&time.case) {
                    return Err(format!("no line before tells of the case {}", time.case));
                }
                let time = fleet_time(time, chip.clone());
                if let Some(first) = self.sessions.insert(time.digest(), number) {
                    return Err(format!("it is the session of line {first} again"));
                }
                file.times.push(time);
            }
            Line::Knowledge(_) | Line::End(_) => return Err("it can only be the last line".to_owned()),
        }
        Ok(())
    }
}

fn chip_model(chip: Chip) -> ChipModel {
    ChipModel {
        kind: chip.kind,
        vendor: chip.vendor,
        name: chip.name,
        ids: chip.ids,
        architecture: chip.architecture,
        logical_cores: chip.logical_cores,
        memory_bytes: chip.memory_bytes,
    }
}

fn fleet_case(case: Case) -> FleetCase {
    let input = |input: super::wire::Input| BoundInput {
        name: String::new(),
        element: input.element,
        shape: input.shape,
    };
    let class = |work: super::wire::Class| ClassWork {
        class: work.of,
        nodes: work.nodes,
        flops: work.flops,
        bytes: work.bytes,
    };
    let facts = CaseFacts {
        batch: case.batch,
        parameters: case.parameters,
        weight_bytes: case.weight_bytes,
        nodes: case.nodes,
        flops: case.flops,
        activation_bytes: case.activation_bytes,
        by_class: case.by_class.into_iter().map(class).collect(),
        family: case.family,
        inputs: case.inputs.into_iter().map(input).collect(),
        index_limits: BTreeMap::new(),
        precision: None,
        assumptions: Vec::new(),
        method_version: case.facts_version,
    };
    FleetCase { id: case.id, model: case.model, facts }
}

fn fleet_time(time: Time, chip: ChipModel) -> FleetTime {
    let target = FleetTarget {
        chip,
        provider: time.provider,
        target: time.target,
        library_version: time.library_version,
        driver: time.driver,
    };
    FleetTime {
        target,
        case: time.case,
        workload: time.workload,
        unix_day: time.unix_day,
        samples: time.samples,
        median_ns: time.median_ns,
        interval: time.ci95_ns.map(|[low, high]| Interval { low, high }),
        min_ns: time.min_ns,
        max_ns: time.max_ns,
        session_create_ns: time.session_create_ns,
        first_run_ns: time.first_run_ns,
        peak_resident_bytes: time.peak_resident_bytes,
        outputs: time.outputs.map(|outputs| OutputDifference {
            max_relative_error: outputs.max_relative_error,
            same_top1: outputs.same_top1,
            reference_magnitude: outputs.reference_magnitude,
        }),
    }
}
