//! What the values of a knowledge file may be.
//!
//! Invariant: a value that passes is finite, of a size that occurs, and, if it is text, short and harmless to show.

use std::collections::BTreeSet;

use siliconroute_core::ChipKind;

use super::wire::{Case, Chip, Head, Outputs, Time};

/// No inference is shorter, and one so short would drown what other machines tell.
const LEAST_NS: f64 = 1.0;
/// A time may be up to eleven days long.
const MOST_NS: f64 = 1e15;
const MOST_CHARACTERS: usize = 160;
const MOST_SAMPLES: u64 = 1_000_000_000;
const MOST_BYTES: u64 = 1 << 50;
const MOST_NODES: u64 = 1_000_000_000;
const MOST_OPERATIONS: f64 = 1e21;
const MOST_CORES: u32 = 65_536;
const MOST_INPUTS: usize = 1_000;
const MOST_DIMENSIONS: usize = 64;
const MOST_SIZE: u64 = 1 << 48;
/// Up to the year 2243.
const MOST_DAYS: i64 = 100_000;

/// What is wrong with a value; `Ok` where nothing is.
pub(super) type Check = Result<(), String>;

pub(super) fn head(head: &Head) -> Check {
    slug("hardware_id", &head.hardware_id)?;
    slug("os", &head.os)?;
    text("program_version", &head.program_version, false)?;
    day("exported_unix_day", head.exported_unix_day)
}

pub(super) fn chip(chip: &Chip) -> Check {
    text("vendor", &chip.vendor, true)?;
    text("name", &chip.name, true)?;
    if let Some(ids) = &chip.ids {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b':';
        if ids.is_empty() || ids.len() > MOST_CHARACTERS || !ids.bytes().all(plain) {
            return Err(format!("`ids` is {}, which are no ids of a chip", shown(ids)));
        }
    }
    if let Some(architecture) = &chip.architecture {
        slug("architecture", architecture)?;
    }
    if let Some(cores) = chip.logical_cores {
        count("logical_cores", u64::from(cores), 1, u64::from(MOST_CORES))?;
    }
    if chip.kind == ChipKind::Cpu && !chip.name.is_empty() {
        slug("name", &chip.name)?;
    }
    count("memory_bytes", chip.memory_bytes.unwrap_or(0), 0, MOST_BYTES)
}

pub(super) fn case(case: &Case) -> Check {
    if case.inputs.len() > MOST_INPUTS {
        return Err(format!("{} inputs are more than the {MOST_INPUTS} that are read", case.inputs.len()));
    }
    for input in &case.inputs {
        count("shape", input.shape.len() as u64, 0, MOST_DIMENSIONS as u64)?;
        input.shape.iter().try_for_each(|size| count("shape", *size, 0, MOST_SIZE))?;
    }
    count("batch", case.batch, 0, MOST_SIZE)?;
    count("parameters", case.parameters, 0, MOST_BYTES)?;
    count("weight_bytes", case.weight_bytes, 0, MOST_BYTES)?;
    count("nodes", case.nodes, 0, MOST_NODES)?;
    number("flops", case.flops, 0.0, MOST_OPERATIONS)?;
    number("activation_bytes", case.activation_bytes, 0.0, MOST_OPERATIONS)?;
    let mut classes = BTreeSet::new();
    for class in &case.by_class {
        if !classes.insert(class.of) {
            return Err("`by_class` names a class twice".to_owned());
        }
        count("nodes", class.nodes, 0, MOST_NODES)?;
        number("flops", class.flops, 0.0, MOST_OPERATIONS)?;
        number("bytes", class.bytes, 0.0, MOST_OPERATIONS)?;
    }
    Ok(())
}

pub(super) fn time(time: &Time) -> Check {
    slug("provider", &time.provider)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-=,".contains(&byte);
    if time.target.is_empty() || time.target.len() > MOST_CHARACTERS || !time.target.bytes().all(plain) {
        return Err(format!("`target` is {}, which is no target without its chip", shown(&time.target)));
    }
    text("library_version", &time.library_version, false)?;
    time.driver.as_deref().map_or(Ok(()), |driver| text("driver", driver, false))?;
    day("unix_day", time.unix_day)?;
    count("samples", time.samples, 1, MOST_SAMPLES)?;
    for (name, value) in [("min_ns", time.min_ns), ("median_ns", time.median_ns), ("max_ns", time.max_ns)] {
        duration(name, value)?;
    }
    if !(time.min_ns <= time.median_ns && time.median_ns <= time.max_ns) {
        return Err("`median_ns` is not between `min_ns` and `max_ns`".to_owned());
    }
    if let Some([low, high]) = time.ci95_ns {
        duration("ci95_ns", low)?;
        duration("ci95_ns", high)?;
        if low > high {
            return Err("`ci95_ns` has its ends in the wrong order".to_owned());
        }
    }
    count("session_create_ns", time.session_create_ns, 0, MOST_NS as u64)?;
    count("first_run_ns", time.first_run_ns, 0, MOST_NS as u64)?;
    count("peak_resident_bytes", time.peak_resident_bytes.unwrap_or(0), 0, MOST_BYTES)?;
    let Some(Outputs { max_relative_error, reference_magnitude, .. }) = &time.outputs else { return Ok(()) };
    number("max_relative_error", *max_relative_error, 0.0, f64::MAX)?;
    number("reference_magnitude", *reference_magnitude, 0.0, f64::MAX)
}

fn day(name: &str, value: i64) -> Check {
    if (0..=MOST_DAYS).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}, which is no number of days since 1970"))
    }
}

fn count(name: &str, value: u64, least: u64, most: u64) -> Check {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value}, and it must be from {least} to {most}"))
    }
}

fn number(name: &str, value: f64, least: f64, most: f64) -> Check {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value:e}, and it must be from {least} to {most:e}"))
    }
}

fn duration(name: &str, value: f64) -> Check {
    if (LEAST_NS..=MOST_NS).contains(&value) {
        Ok(())
    } else {
        Err(format!("`{name}` is {value:e}, which is no time from {LEAST_NS} to {MOST_NS:e} nanoseconds"))
    }
}

/// A word of lower-case letters, digits and underscores.
fn slug(name: &str, value: &str) -> Check {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !value.is_empty() && value.len() <= MOST_CHARACTERS && value.bytes().all(plain) {
        Ok(())
    } else {
        let rule = "it must be lower-case letters, digits and underscores";
        Err(format!("`{name}` is {}, and {rule}, at most {MOST_CHARACTERS}", shown(value)))
    }
}

/// Text of a maker: letters and digits of any script, the signs of a keyboard, marks; no control characters, and none
/// that turns the direction of reading.
fn text(name: &str, value: &str, may_be_empty: bool) -> Check {
    let harmless = |character: char| {
        character == ' '
            || character.is_ascii_graphic()
            || character.is_alphanumeric()
            || matches!(character, '®' | '™' | '©' | '°')
    };
    if value.is_empty() && !may_be_empty {
        return Err(format!("`{name}` is empty"));
    }
    if value.chars().count() > MOST_CHARACTERS {
        return Err(format!("`{name}` has more than {MOST_CHARACTERS} characters: {}", shown(value)));
    }
    match value.chars().find(|character| !harmless(*character)) {
        None => Ok(()),
        Some(character) => {
            Err(format!("`{name}` has the character U+{:04X}, which no name has", u32::from(character)))
        }
    }
}

/// The beginning of a text with whatever a terminal would obey as an escape.
pub(super) fn shown(value: &str) -> String {
    const SHOWN: usize = 40;
    let more = if value.chars().count() > SHOWN { "…" } else { "" };
    let begin: String = value.chars().take(SHOWN).collect();
    format!("`{}{more}`", begin.escape_debug())
}
