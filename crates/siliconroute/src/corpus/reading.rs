//! Boards and models from their tables.
//!
//! Invariant: every candidate of a [`Board`] has a time for every of its models.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as NotOneOf;
use siliconroute_core::OperatorClass;
use siliconroute_core::transfer::{CaseTraits, Kind, Observations, Pack, Row, SortOfWork};

use crate::table_file::{Table, TableError, TableRow};
use crate::wording::counted;

use super::{kind_of, known};

/// Models that a candidate must have to take part.
const LEAST_MODELS: usize = 8;
/// Columns of model facts beyond the basic ones.
const FURTHER_FACTS: [&str; 8] = [
    "nodes",
    "activations_m",
    "depthwise_share",
    "matrix_share",
    "movement_share",
    "element_wise_share",
    "normalisation_share",
    WORK,
];
/// Column of the work by sort of node: `class:window:pack:length:size:multiply-adds:bytes` of each, the last two in millions.
/// Tables written before packs were told apart lack the pack.
const WORK: &str = "work";
/// The largest number of sorts of one model.
const MOST_SORTS: usize = 1_000;
/// The largest number of models.
const MOST_MODELS: usize = 1_000;

/// A model as public descriptions have it.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicModel {
    /// Its name in the boards' table.
    pub name: String,
    /// Its facts.
    pub traits: CaseTraits,
}

/// The times of one board.
#[derive(Debug, Clone)]
pub struct Board {
    /// Its name.
    pub name: String,
    /// Candidates in the order of the table.
    pub candidates: Vec<String>,
    /// Positions of the models that all candidates have, in the order of the models' table.
    pub models: Vec<usize>,
    /// Times in milliseconds, by candidate and then as in `models`.
    pub times_ms: Vec<Vec<f64>>,
    /// Every time of the candidates that take part, also of models that some of them lack.
    pub(super) all: Observations,
}

/// All boards and models.
#[derive(Debug)]
pub struct Corpus {
    /// The models.
    pub models: Vec<PublicModel>,
    /// The boards with something to choose.
    pub boards: Vec<Board>,
    /// What was left out, in sentences.
    pub notes: Vec<String>,
}

/// Rows of one board: candidates in order, each with its times by model.
type Rows = Vec<(String, BTreeMap<usize, f64>)>;

impl Corpus {
    /// Reads both tables.
    ///
    /// # Errors
    /// When a file cannot be read, lacks a column, or has a cell that is wrong; the error says where.
    pub fn load(boards: &Path, models: &Path) -> Result<Self, TableError> {
        let models = Table::load(models, &["model", "gmacs", "params_m"])?;
        let boards = Table::load(boards, &["board", "candidate", "model", "mean_ms"])?;
        let mut corpus = Self::of_tables(&boards, &models)?;
        if let Some(recognised) = known::complete(&mut corpus.models)? {
            corpus.notes.push(recognised);
        }
        Ok(corpus)
    }

    pub(super) fn of_tables(boards: &Table, models: &Table) -> Result<Self, TableError> {
        let mut notes = Vec::new();
        let models = public_models(models, &mut notes)?;
        let position: BTreeMap<&str, usize> =
            models.iter().enumerate().map(|(index, model)| (model.name.as_str(), index)).collect();
        let mut names: Vec<String> = Vec::new();
        let mut rows: BTreeMap<String, Rows> = BTreeMap::new();
        for row in boards.rows() {
            let (board, candidate) = (row.word("board")?, row.word("candidate")?);
            if kind_of(candidate).is_none() {
                return Err(row.wrong("candidate", "does not begin with `cpu/`, `gpu/` or `npu/`"));
            }
            let Some(&model) = position.get(row.word("model")?) else {
                return Err(row.wrong("model", "is not in the models' table"));
            };
            let time = row.number("mean_ms", 1e-6..=1e9)?;
            let of_board = rows.entry(board.to_owned()).or_insert_with(|| {
                names.push(board.to_owned());
                Vec::new()
            });
            let index = of_board.iter().position(|(name, _)| name == candidate).unwrap_or_else(|| {
                of_board.push((candidate.to_owned(), BTreeMap::new()));
                of_board.len() - 1
            });
            if of_board[index].1.insert(model, time).is_some() {
                return Err(row.wrong("model", "stands there twice for this board and candidate"));
            }
        }
        let mut found = Vec::new();
        for name in names {
            let candidates = rows.remove(&name).unwrap_or_default();
            match board(name, candidates) {
                Ok(board) => found.push(board),
                Err(note) => notes.push(note),
            }
        }
        if found.is_empty() {
            let reason = format!(
                "holds no board with two candidates of {LEAST_MODELS} models or more: there is nothing to choose"
            );
            return Err(boards.nothing(reason));
        }
        Ok(Self { models, boards: found, notes })
    }
}

pub(super) fn public_models(table: &Table, notes: &mut Vec<String>) -> Result<Vec<PublicModel>, TableError> {
    let missing: Vec<&str> = FURTHER_FACTS.into_iter().filter(|column| !table.has(column)).collect();
    if !missing.is_empty() {
        notes.push(format!(
            "the models' table lacks {}: predictions are less certain, and their intervals wider",
            missing.join(", ")
        ));
    }
    let further = |row: &TableRow<'_>, column: &'static str, most: f64| {
        table.has(column).then(|| row.number(column, 0.0..=most)).transpose()
    };
    let mut models: Vec<PublicModel> = Vec::new();
    for row in table.rows() {
        let name = row.word("model")?;
        if models.iter().any(|model| model.name == name) {
            return Err(row.wrong("model", "stands there twice"));
        }
        if models.len() == MOST_MODELS {
            return Err(row.wrong("model", format!("is one too many: at most {MOST_MODELS} are compared")));
        }
        let traits = CaseTraits {
            multiply_adds: row.number("gmacs", 1e-6..=1e9)? * 1e9,
            parameters: row.number("params_m", 0.0..=1e9)? * 1e6,
            activations: further(&row, "activations_m", 1e9)?.map(|millions| millions * 1e6),
            nodes: further(&row, "nodes", 1e9)?,
            depthwise_share: further(&row, "depthwise_share", 1.0)?,
            matrix_share: further(&row, "matrix_share", 1.0)?,
            movement_share: further(&row, "movement_share", 1.0)?,
            element_wise_share: further(&row, "element_wise_share", 1.0)?,
            normalisation_share: further(&row, "normalisation_share", 1.0)?,
            work: if table.has(WORK) { work(&row)? } else { Vec::new() },
        };
        models.push(PublicModel { name: name.to_owned(), traits });
    }
    Ok(models)
}

/// Reads the sorts of work of a model.
fn work(row: &TableRow<'_>) -> Result<Vec<SortOfWork>, TableError> {
    let sorts: Vec<&str> = row.word(WORK)?.split_whitespace().take(MOST_SORTS + 1).collect();
    if sorts.len() > MOST_SORTS {
        return Err(row.wrong(WORK, format!("has more than {MOST_SORTS} sorts")));
    }
    let read = |text: &&str| {
        let wrong = || {
            row.wrong(
                WORK,
                format!("has `{}`, no class:window:pack:length:size:amount:amount", shortened(text)),
            )
        };
        sort_of_work(text).ok_or_else(wrong)
    };
    sorts.iter().map(read).collect()
}

fn sort_of_work(text: &str) -> Option<SortOfWork> {
    let parts: Vec<&str> = text.splitn(8, ':').collect();
    let (class, window, pack, amounts) = match parts[..] {
        [class, window, pack, ref amounts @ ..] if amounts.len() == 4 => (class, window, Some(pack), amounts),
        [class, window, ref amounts @ ..] if amounts.len() == 4 => (class, window, None, amounts),
        _ => return None,
    };
    let class: Result<_, NotOneOf> = OperatorClass::deserialize(class.into_deserializer());
    let window = window.parse::<u8>().ok().filter(|window| *window > 0)?;
    let pack = match pack {
        None => None,
        Some("1") => Some(Pack::Open),
        Some("8") => Some(Pack::Full),
        Some(_) => return None,
    };
    let logarithm = |text: &str| text.parse::<u8>().ok().filter(|logarithm| *logarithm < 64);
    let millions = |text: &str| text.parse::<f64>().ok().filter(|amount| (0.0..=1e12).contains(amount));
    Some(SortOfWork {
        class: class.ok()?,
        window,
        pack,
        length: logarithm(amounts[0])?,
        size: logarithm(amounts[1])?,
        multiply_adds: millions(amounts[2])? * 1e6,
        bytes: millions(amounts[3])? * 1e6,
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Joins the rows of a board, or says why it takes no part.
fn board(name: String, candidates: Rows) -> Result<Board, String> {
    let candidates: Rows = candidates.into_iter().filter(|(_, times)| times.len() >= LEAST_MODELS).collect();
    if candidates.len() < 2 {
        return Err(format!("{name}: fewer than two candidates with {LEAST_MODELS} models, left out"));
    }
    let mut common: BTreeSet<usize> = candidates[0].1.keys().copied().collect();
    common.retain(|model| candidates.iter().all(|(_, times)| times.contains_key(model)));
    if common.len() < 3 {
        let models = counted(common.len(), "model");
        return Err(format!("{name}: only {models} that all candidates have, left out"));
    }
    let models: Vec<usize> = common.into_iter().collect();
    let times_ms =
        candidates.iter().map(|(_, times)| models.iter().map(|model| times[model]).collect()).collect();
    let kinds = candidates.iter().map(|(name, _)| kind_of(name).unwrap_or(Kind::Accelerator)).collect();
    let rows = candidates.iter().enumerate().flat_map(|(candidate, (_, times))| {
        times.iter().map(move |(&model, time)| Row { candidate, model, time_ns: time * 1e6 })
    });
    let all = Observations { kinds, rows: rows.collect() };
    let candidates = candidates.into_iter().map(|(name, _)| name).collect();
    Ok(Board { name, candidates, models, times_ms, all })
}
