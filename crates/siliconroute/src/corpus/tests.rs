//! A corpus on paper, and what is refused of one.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use siliconroute_core::transfer::{Observations, Pack, SortOfWork};

use super::*;
use crate::evaluation::ROUTER;
use crate::event::Silent;
use crate::table_file::Table;

const MODELS: &str = "model,gmacs,params_m,input\n";
const BOARDS: &str = "board,candidate,model,min_ms,mean_ms,max_ms\n";

fn table(text: &str, required: &[&'static str]) -> Table {
    Table::parse(Path::new("table.csv"), text.as_bytes(), required).unwrap()
}

/// Ten models, each twice the work of the one before.
fn models() -> String {
    (0..10).fold(MODELS.to_owned(), |mut text, index| {
        let work = 0.05 * f64::from(1 << index);
        writeln!(text, "m{index},{work},{},224x224x3", 1.0 + f64::from(index)).unwrap();
        text
    })
}

/// Times in proportion to the work: the CPU at `speed`, the GPU ten times as fast after 10 ms.
fn board(name: &str, speed: f64, models: std::ops::Range<u32>) -> String {
    models.fold(String::new(), |mut text, index| {
        let work = 0.05 * f64::from(1_u32 << index);
        let (cpu, gpu) = (100.0 * work / speed, 10.0 + 10.0 * work / speed);
        writeln!(text, "\"{name}\",cpu/t1,m{index},{cpu},{cpu},{cpu}").unwrap();
        writeln!(text, "\"{name}\",gpu/g0,m{index},{gpu},{gpu},{gpu}").unwrap();
        text
    })
}

fn corpus() -> Corpus {
    let boards = format!("{BOARDS}{}{}", board("one, of two", 1.0, 0..10), board("other", 2.0, 0..10));
    Corpus::of_tables(&table(&boards, &[]), &table(&models(), &[])).unwrap()
}

fn evaluation(corpus: &Corpus, task: Task) -> Evaluation {
    let facts = Prior::of_facts(corpus.models.iter().enumerate().map(traits).collect());
    let judge = |board| tasks::judge(corpus, &facts, board, task, &|| false).unwrap();
    let judged = (0..corpus.boards.len()).map(judge);
    Evaluation::of(judged.flatten().collect())
}

#[test]
fn every_task_decides_for_every_model_of_every_board() {
    let corpus = corpus();
    for task in [Task::ZeroShot, Task::OneShot, Task::Fleet] {
        let evaluation = evaluation(&corpus, task);
        assert_eq!(evaluation.decisions.len(), 20);
        assert_eq!(evaluation.decisions[0].id, "one, of two: m0");
        let score = &evaluation.strategies[ROUTER];
        assert!(score.total == 20 && score.wins >= 15, "{}: {score:?}", task.name());
        let granted = |d: &&CheckedDecision| d.source.values().filter(|it| *it == "measured").count() == 1;
        let granted = evaluation.decisions.iter().filter(granted).count();
        assert_eq!(granted, if task == Task::OneShot { 20 } else { 0 });
        assert_eq!(evaluation.prediction_fitted.total, 40 - granted);
    }
}

#[test]
fn what_was_decided_before_a_stop_is_judged() {
    for decided in [0, 1, 7, 10] {
        let one = format!("{BOARDS}{}", board("one", 1.0, 0..10));
        let one = Corpus::of_tables(&table(&one, &[]), &table(&models(), &[])).unwrap();
        // Looks that say go on: one before the board, and one before each model.
        let looks = AtomicUsize::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) > decided;
        let stopped = evaluate_boards(one, Task::ZeroShot, &stop, &mut Silent).unwrap().evaluation;
        assert_eq!((stopped.decisions.len(), stopped.interrupted), (decided, decided < 10));
        assert_eq!(stopped.strategies[ROUTER].total, decided);
    }
}

#[test]
fn a_left_out_time_changes_nothing_that_is_predicted_of_it() {
    let predicted = |corpus: &Corpus, task| {
        let evaluation = evaluation(corpus, task);
        let it = &evaluation.decisions[4];
        (it.predicted_ms.clone(), it.strategies.clone())
    };
    for task in [Task::ZeroShot, Task::Fleet] {
        let before = predicted(&corpus(), task);
        let mut changed = corpus();
        changed.boards[0].times_ms.iter_mut().for_each(|times| times[4] *= 3.0);
        let of_board = |board: &mut Board| {
            let rows = board.all.rows.iter_mut().filter(|row| row.model == 4);
            rows.for_each(|row| row.time_ns *= 3.0);
        };
        of_board(&mut changed.boards[0]);
        let after = predicted(&changed, task);
        assert_eq!(before.1, after.1);
        for (key, time) in before.0 {
            assert!((time / after.0[&key] - 1.0).abs() < 1e-6, "{}: {key}", task.name());
        }
    }
}

#[test]
fn boards_without_a_choice_and_candidates_with_few_models_are_left_out() {
    let few = board("few", 1.0, 0..7);
    let mut uneven = board("uneven", 1.0, 0..9);
    uneven.push_str("uneven,cpu/t1,m9,1,1,1\n");
    uneven.push_str("uneven,cpu/t2,m0,1,1,1\n");
    let boards = format!("{BOARDS}{few}{uneven}");
    let corpus = Corpus::of_tables(&table(&boards, &[]), &table(&models(), &[])).unwrap();
    assert_eq!(corpus.boards.len(), 1);
    let board = &corpus.boards[0];
    assert_eq!((board.candidates.len(), board.models.len()), (2, 9));
    assert_eq!(board.all, Observations { kinds: board.all.kinds.clone(), rows: board.all.rows.clone() });
    assert_eq!(board.all.rows.len(), 19, "a model that one candidate lacks still tells of the other");
    assert!(corpus.notes.iter().any(|note| note.starts_with("few: fewer than two candidates")));
    assert!(corpus.notes[0].contains("lacks nodes, activations_m"), "{:?}", corpus.notes);
    assert!(corpus.notes[0].contains("normalisation_share, work"), "{:?}", corpus.notes);
}

#[test]
fn what_true_times_would_reach_rests_on_times_that_stand_twice() {
    // The same GPU beside two numbers of threads, `apart` times as slow in every other model.
    let corpus = |apart: f64, twin: &str| {
        let boards = ["one", "two", "three"].iter().fold(BOARDS.to_owned(), |text, name| {
            (0..10).fold(text + &board(name, 1.0, 0..10), |mut text, index| {
                let gpu = 10.0 + 0.5 * f64::from(1_u32 << index);
                let ms = if index % 2 == 0 { gpu } else { gpu * apart };
                writeln!(text, "{name},gpu/{twin},m{index},{ms},{ms},{ms}").unwrap();
                text
            })
        });
        Corpus::of_tables(&table(&boards, &[]), &table(&models(), &[])).unwrap()
    };
    let exact = reachable::simulate(&corpus(1.0, "t4/g0"));
    let exact = *exact.available().unwrap();
    assert_eq!((exact.pairs, exact.median_difference_pct), (30, 0.0));
    assert_eq!((exact.within_2_pct, exact.mean_regret_pct), (100.0, 0.0));
    let rough = *reachable::simulate(&corpus(1.2, "t4/g0")).available().unwrap();
    assert!((90.0..99.0).contains(&rough.within_2_pct) && rough.mean_regret_pct > 0.1, "{rough:?}");
    let other = reachable::simulate(&corpus(1.2, "t4/g1"));
    assert!(
        matches!(&other, Reading::Unavailable(reason) if reason.starts_with("0 times stand")),
        "{other:?}"
    );
}

#[test]
fn the_facts_of_the_public_networks_are_whole() {
    let text = include_str!("../../../../data/board_models.csv");
    let models = table(text, &["model", "gmacs", "params_m", "input", "nodes"]);
    let names: Vec<&str> = models.rows().map(|row| row.text("model")).collect();
    assert_eq!(names.len(), 27);
    let name =
        |text: String, index: usize| text.replace(&format!(",m{index},"), &format!(",{},", names[index]));
    let boards = (0..8).fold(board("b", 1.0, 0..8), name);
    let corpus = Corpus::of_tables(&table(&format!("{BOARDS}{boards}"), &[]), &models).unwrap();
    assert_eq!(corpus.notes, [""; 0]);
    let by_name = |name: &str| &corpus.models.iter().find(|model| model.name == name).unwrap().traits;
    // Published: 15.5 billion multiply-adds and 138 million parameters; 0.3 billion and 3.5 million.
    let (vgg, mobile) = (by_name("vgg16"), by_name("mobilenet_v2"));
    assert!((vgg.multiply_adds / 15.5e9 - 1.0).abs() < 0.01 && (vgg.parameters / 138.4e6 - 1.0).abs() < 0.01);
    assert!(
        (mobile.multiply_adds / 0.3e9 - 1.0).abs() < 0.02 && (mobile.parameters / 3.5e6 - 1.0).abs() < 0.01
    );
}

#[test]
fn says_where_a_table_is_wrong() {
    let cases = [
        ("b,tpu/1,m0,1,1,1\n", "line 2, column `candidate`: `tpu/1` does not begin with"),
        ("b,cpu/1,m0,1,1,1\nb,cpu/1,x,1,1,1\n", "line 3, column `model`: `x` is not in the models' table"),
        ("b,cpu/1,m0,1,0,1\n", "line 2, column `mean_ms`: `0` is not between"),
        ("b,cpu/1,m0,1,NaN,1\n", "line 2, column `mean_ms`: `NaN` is not between"),
        ("b,cpu/1,m0,1,,1\n", "line 2, column `mean_ms`: `` is empty"),
        (",cpu/1,m0,1,1,1\n", "line 2, column `board`: `` is empty"),
        ("b,cpu/1,m0,1,1,1\nb,cpu/1,m0,1,1,1\n", "line 3, column `model`: `m0` stands there twice"),
        ("", "there is nothing to choose"),
    ];
    for (rows, expected) in cases {
        let boards = table(&format!("{BOARDS}{rows}"), &[]);
        let error = Corpus::of_tables(&boards, &table(&models(), &[])).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let cases = [
        ("m0,much,1,x\n", "line 2, column `gmacs`: `much` is no number"),
        ("m0,1,1,x\nm0,1,1,x\n", "line 3, column `model`: `m0` stands there twice"),
        ("m0,-1,1,x\n", "column `gmacs`: `-1` is not between"),
    ];
    for (rows, expected) in cases {
        let models = table(&format!("{MODELS}{rows}"), &[]);
        let error = Corpus::of_tables(&table(BOARDS, &[]), &models).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn says_which_sort_of_work_is_wrong() {
    let cases = [
        ("", "line 2, column `work`: `` is empty"),
        ("conv:1:1:2:3", "has `conv:1:1:2:3`, no class:window:pack:length:size:amount:amount"),
        ("conv:1:8:1:2:3:4:5", "has `conv:1:8:1:2:3:4:5`"),
        ("conv:1:2:1:2:3:4", "has `conv:1:2:1:2:3:4`"),
        ("conv:1::1:2:3:4", "has `conv:1::1:2:3:4`"),
        ("conv:1:1:2:3:4 cow:1:1:2:3:4", "has `cow:1:1:2:3:4`"),
        ("conv:0:1:2:3:4", "has `conv:0:1:2:3:4`"),
        ("conv:256:1:2:3:4", "has `conv:256:1:2:3:4`"),
        ("conv:1:64:2:3:4", "has `conv:1:64:2:3:4`"),
        ("conv:1:1:-2:3:4", "has `conv:1:1:-2:3:4`"),
        ("conv:1:1:2:-3:4", "has `conv:1:1:2:-3:4`"),
        ("conv:1:1:2:3:NaN", "has `conv:1:1:2:3:NaN`"),
    ];
    for (work, expected) in cases {
        let models = table(&format!("model,gmacs,params_m,work\nm0,1,1,{work}\n"), &[]);
        let error = Corpus::of_tables(&table(BOARDS, &[]), &models).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let many = "conv:1:1:2:3:4 ".repeat(1_001);
    let models = table(&format!("model,gmacs,params_m,work\nm0,1,1,{many}\n"), &[]);
    let error = Corpus::of_tables(&table(BOARDS, &[]), &models).unwrap_err();
    assert!(error.to_string().contains("more than 1000 sorts"), "{error}");
}

#[test]
fn reads_sorts_of_work_with_and_without_packs() {
    let models = table("model,gmacs,params_m,work\nm0,1,1,conv:3:8:5:14:8:3 mat_mul:1:6:15:9:2\n", &[]);
    let found = reading::public_models(&models, &mut Vec::new()).unwrap();
    let of = |it: &SortOfWork| (it.window, it.pack, it.length, it.size, it.multiply_adds, it.bytes);
    let found: Vec<_> = found[0].traits.work.iter().map(of).collect();
    assert_eq!(found, [(3, Some(Pack::Full), 5, 14, 8e6, 3e6), (1, None, 6, 15, 9e6, 2e6)]);
}

#[test]
fn a_file_that_is_no_table_is_refused() {
    let parse = |text: &[u8]| Table::parse(Path::new("t.csv"), text, &["board", "mean_ms"]).map(|_| ());
    let cases: [(&[u8], &str); 5] = [
        (b"", "lacks the column `board`"),
        (b"board,time\n", "lacks the column `mean_ms`; its columns are: board, time"),
        (b"board,mean_ms\nb\n", "is no table"),
        (b"board,mean_ms\nb,\xff\n", "is no table"),
        (b"\x00\x01\x02", "lacks the column `board`"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        parse(b"\xef\xbb\xbfboard , mean_ms\r\nb,1\r\n").is_ok(),
        "a byte order mark and spaces are fine"
    );
}
