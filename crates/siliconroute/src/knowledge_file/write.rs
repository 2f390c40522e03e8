//! Writes a knowledge file.
//!
//! Invariant: every value passes the checks of the reader before it is written; what does not is left out and counted.

use std::collections::BTreeSet;

use siliconroute_core::fleet::{ChipModel, FleetCase, FleetTime};

use super::read::digest_text;
use super::wire::{Case, Chip, Class, End, Head, Input, Line, Outputs, Time};
use super::{KnowledgeFile, MOST_LINE_BYTES, SCHEMA, check};

/// A file's bytes, and what they hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Cases in them.
    pub cases: usize,
    /// Times in them.
    pub times: usize,
    /// Times that no reader would take, with what is wrong with the first of them.
    pub left_out: usize,
    /// What is wrong with the first time that was left out.
    pub first_fault: Option<String>,
}

impl KnowledgeFile {
    /// The file's bytes. Times that its own reader would refuse are left out, and cases without a time with them.
    pub fn to_bytes(&self) -> KnowledgeBytes {
        let mut writer = Writer::default();
        let head = Head {
            schema: SCHEMA.to_owned(),
            program_version: self.program_version.clone(),
            exported_unix_day: self.exported_unix_day,
            hardware_id: self.hardware_id.clone(),
            os: self.os.clone(),
        };
        writer.fault = check::head(&head).err();
        let sound = writer.fault.is_none();
        writer.line(&Line::Knowledge(head));
        for time in &self.times {
            let case = self.cases.iter().find(|case| case.id == time.case);
            let written = match case {
                Some(case) if sound => writer.time(time, case),
                _ => Err("its case is missing".to_owned()),
            };
            if let Err(fault) = written {
                writer.left_out += 1;
                writer.fault.get_or_insert(fault);
            }
        }
        let end = End { lines: writer.lines, sha256: digest_text(&writer.bytes) };
        writer.line(&Line::End(end));
        KnowledgeBytes {
            bytes: writer.bytes,
            cases: writer.cases.len(),
            times: writer.sessions.len(),
            left_out: writer.left_out,
            first_fault: writer.fault,
        }
    }
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    lines: u64,
    chips: Vec<ChipModel>,
    cases: BTreeSet<siliconroute_core::CaseId>,
    sessions: BTreeSet<[u8; 32]>,
    left_out: usize,
    fault: Option<String>,
}

impl Writer {
    fn line(&mut self, line: &Line) {
        let text = serde_json::to_vec(line).expect("a line has only text keys");
        self.bytes.extend(text);
        self.bytes.push(b'\n');
        self.lines += 1;
    }

    /// Writes a time after its chip and its case, or nothing of them.
    fn time(&mut self, time: &FleetTime, case: &FleetCase) -> Result<(), String> {
        let known = self.chips.iter().position(|chip| *chip == time.target.chip);
        let chip = chip_line(known.unwrap_or(self.chips.len()) as u32, &time.target.chip);
        let line = time_line(chip.number, time);
        let case_line = case_line(case);
        check::chip(&chip)?;
        check::time(&line)?;
        check::case(&case_line)?;
        let case_line = Line::Case(case_line);
        if serde_json::to_vec(&case_line).map_or(0, |text| text.len()) >= MOST_LINE_BYTES {
            return Err("its case has too many inputs for a line".to_owned());
        }
        if !self.sessions.insert(time.digest()) {
            return Err("it is the same session as another".to_owned());
        }
        if known.is_none() {
            self.chips.push(time.target.chip.clone());
            self.line(&Line::Chip(chip));
        }
        if self.cases.insert(case.id) {
            self.line(&case_line);
        }
        self.line(&Line::Time(line));
        Ok(())
    }
}

fn chip_line(number: u32, chip: &ChipModel) -> Chip {
    Chip {
        number,
        kind: chip.kind,
        vendor: chip.vendor.clone(),
        name: chip.name.clone(),
        ids: chip.ids.clone(),
        architecture: chip.architecture.clone(),
        logical_cores: chip.logical_cores,
        memory_bytes: chip.memory_bytes,
    }
}

fn case_line(case: &FleetCase) -> Case {
    let facts = &case.facts;
    let classes = facts.by_class.iter();
    let inputs = facts.inputs.iter();
    Case {
        id: case.id,
        model: case.model,
        inputs: inputs.map(|it| Input { element: it.element, shape: it.shape.clone() }).collect(),
        batch: facts.batch,
        family: facts.family,
        parameters: facts.parameters,
        weight_bytes: facts.weight_bytes,
        nodes: facts.nodes,
        flops: facts.flops,
        activation_bytes: facts.activation_bytes,
        by_class: classes
            .map(|it| Class { of: it.class, nodes: it.nodes, flops: it.flops, bytes: it.bytes })
            .collect(),
        facts_version: facts.method_version,
    }
}

fn time_line(chip: u32, time: &FleetTime) -> Time {
    let target = &time.target;
    Time {
        chip,
        provider: target.provider.clone(),
        target: target.target.clone(),
        library_version: target.library_version.clone(),
        driver: target.driver.clone(),
        case: time.case,
        workload: time.workload,
        unix_day: time.unix_day,
        samples: time.samples,
        median_ns: time.median_ns,
        ci95_ns: time.interval.map(|interval| [interval.low, interval.high]),
        min_ns: time.min_ns,
        max_ns: time.max_ns,
        session_create_ns: time.session_create_ns,
        first_run_ns: time.first_run_ns,
        peak_resident_bytes: time.peak_resident_bytes,
        outputs: time.outputs.map(|it| Outputs {
            max_relative_error: it.max_relative_error,
            same_top1: it.same_top1,
            reference_magnitude: it.reference_magnitude,
        }),
    }
}
