//! `export --knowledge` and `import --knowledge` between two homes.
//!
//! Invariant: whatever happens to the file, the disk or the program, an import is whole or absent.

use std::path::{Path, PathBuf};

use serde_json::Value;
use siliconroute::knowledge_file::KnowledgeFile;

use crate::program::{MODEL, Sandbox, text};

/// A file of what another home measured.
pub(crate) fn exported() -> (Sandbox, PathBuf) {
    let other = Sandbox::new();
    other.measure();
    let path = other.path("knowledge.jsonl");
    let document = other.document("siliconroute.export/1", &["export", "--knowledge", text(&path)]);
    assert_eq!((&document["cases"], &document["left_out"]), (&1.into(), &0.into()), "{document}");
    assert_eq!(document["bytes"], std::fs::metadata(&path).unwrap().len());
    (other, path)
}

fn origins(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.document("siliconroute.origins/1", &["import", "--list"])["origins"].as_array().unwrap().clone()
}

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn knowledge_of_another_home_is_imported_shown_as_such_and_forgotten() {
    let (_other, path) = exported();
    let here = Sandbox::new();
    here.refuse(3, &["nothing to export", "measured nothing yet"], &["export", "--knowledge", "out.jsonl"]);
    assert!(!here.path("out.jsonl").exists());
    here.refuse(3, &["cpu/rten"], &["route", "-m", MODEL]);

    let import = ["import", "--knowledge", text(&path)];
    let first = here.document("siliconroute.import/1", &import);
    assert_eq!(
        (&first["new"], &first["own"], &first["known_cases"]),
        (&true.into(), &false.into(), &1.into())
    );
    let again = here.document("siliconroute.import/1", &import);
    assert_eq!((&again["new"], &again["origin"]), (&false.into(), &first["origin"]));
    assert!(here.succeed(&import).out.contains("imported already, as origin 1"));
    assert_eq!(origins(&here), [first["origin"].clone()]);

    let route = here.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    assert_eq!(
        (&route["chosen"], &route["candidates"][0]["source"]),
        (&"cpu/rten".into(), &"imported".into())
    );
    assert!(route["reason"].as_str().unwrap().contains("imported from 1 other machine"), "{route}");
    let shown = here.succeed(&["route", "-m", MODEL]).out;
    assert!(shown.contains(" imported "), "{shown}");
    // It is no measurement of this machine, for whatever asks for those.
    here.refuse(3, &["nothing to export"], &["export", "--knowledge", "out.jsonl"]);
    let evaluation = here.document("siliconroute.evaluation/1", &["evaluate", "--stored"]);
    assert_eq!(evaluation["decisions"], Value::Array(Vec::new()));

    here.refuse(2, &["unknown origin `7`", "are: 1"], &["import", "--forget", "7"]);
    let forgotten = here.document("siliconroute.import_forgotten/1", &["import", "--forget", "1"]);
    assert_eq!(forgotten["forgotten"], first["origin"]);
    assert!(origins(&here).is_empty());
    here.refuse(3, &["no measurement"], &["route", "-m", MODEL]);
    here.is_intact();
}

#[test]
fn a_home_that_imports_its_own_file_is_told() {
    let (other, path) = exported();
    let ran = other.succeed(&["import", "--knowledge", text(&path)]);
    assert!(ran.err.contains("this machine's own measurements, which change nothing"), "{}", ran.err);
    let route = other.document("siliconroute.decision/1", &["route", "-m", MODEL]);
    assert_eq!(route["candidates"][0]["source"], "measured");
}

#[test]
fn one_thing_is_asked_for_at_a_time() {
    let sandbox = Sandbox::new();
    for arguments in [
        &["export"][..],
        &["import"],
        &["import", "--list", "--forget", "1"],
        &["import", "--list", "--knowledge", "x"],
    ] {
        sandbox.refuse(2, &[], arguments);
    }
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_what_is_wrong() {
    let (_other, path) = exported();
    let good = std::fs::read(&path).unwrap();
    let here = Sandbox::new();
    let text_of = String::from_utf8(good.clone()).unwrap();
    let foreign = text_of.replacen("knowledge/1", "knowledge/9\\u001b[2J", 1);
    for (name, bytes, part) in [
        ("cut.jsonl", &good[..good.len() - 9], "cut off after line"),
        ("changed.jsonl", text_of.replacen("\"samples\":", "\"samples\":9", 1).as_bytes(), "was changed"),
        ("foreign.jsonl", foreign.as_bytes(), "siliconroute.knowledge/9"),
        ("empty.jsonl", b"", "line 1: "),
        ("table.csv", b"board,candidate\n\x1b[2J,1\n", "line 1: "),
    ] {
        here.write(name, bytes);
        let ran = here.refuse(2, &[name, part, "hint: "], &["import", "--knowledge", name]);
        assert!(!ran.err.contains('\u{1b}'), "{}", ran.err);
    }
    here.refuse(2, &["nowhere.jsonl"], &["import", "--knowledge", "nowhere.jsonl"]);
    here.refuse(2, &["a folder"], &["import", "--knowledge", "."]);
    assert!(origins(&here).is_empty());
}

#[test]
fn an_export_replaces_a_file_in_one_step_and_nothing_else() {
    let (other, path) = exported();
    let first = std::fs::read(&path).unwrap();
    other.succeed(&["export", "--knowledge", text(&path)]);
    assert_eq!(std::fs::read(&path).unwrap(), first, "the same measurements on the same day");
    other.refuse(1, &["cannot write", "a folder"], &["export", "--knowledge", "home"]);
    let nowhere = ["export", "--knowledge", "nowhere/knowledge.jsonl"];
    other.refuse(1, &["cannot write", "hint: make its folder first"], &nowhere);
    assert!(!other.run(&nowhere).err.contains(".siliconroute-"), "a name that the user never gave");
    assert_eq!(names(&other.path(".")), ["home", "knowledge.jsonl"]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_no_half_file_and_no_half_import() {
    let (other, path) = exported();
    let before = std::fs::read(&path).unwrap();
    let ran = crate::disk::run_limited(&other, 0, &["export", "--knowledge", "knowledge.jsonl", "--json"]);
    ran.is_refusal(1, &["cannot write", "knowledge.jsonl"]);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(&other.path(".")), ["home", "knowledge.jsonl"]);

    let here = Sandbox::new();
    here.succeed(&["import", "--list"]);
    let large = here.path("large.jsonl");
    enlarge(&path, &large, 3_000);
    for blocks in [0, 64, 400, 1_000] {
        let ran = crate::disk::run_limited(&here, blocks, &["import", "--knowledge", text(&large), "--json"]);
        ran.is_refusal(4, &["cannot"]);
        assert!(origins(&here).is_empty());
        here.is_intact();
    }
    here.succeed(&["import", "--knowledge", text(&large)]);
    assert_eq!(origins(&here)[0]["sessions"], 3_000);
}

/// Makes a file of so many sessions out of one of few.
fn enlarge(from: &Path, to: &Path, sessions: u64) {
    let (mut file, _) = KnowledgeFile::load(from).unwrap();
    let time = file.times.remove(0);
    file.times = (0..sessions)
        .map(|session| {
            let mut time = time.clone();
            time.session_create_ns = session;
            time
        })
        .collect();
    std::fs::write(to, file.to_bytes().bytes).unwrap();
}

#[test]
fn a_program_killed_while_it_imports_leaves_no_half_import() {
    let (_other, path) = exported();
    let here = Sandbox::new();
    here.succeed(&["import", "--list"]);
    let large = here.path("large.jsonl");
    enlarge(&path, &large, 20_000);
    let log = here.home().join("store.sqlite-wal");
    let mut child = here.start(&["import", "--knowledge", text(&large)]);
    // What does not fit in memory goes to the log before the import is whole.
    let grown = |bytes: u64| std::fs::metadata(&log).is_ok_and(|log| log.len() >= bytes);
    while !grown(1 << 20) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    let killed = !child.wait().unwrap().success();
    let found = origins(&here);
    assert_eq!(found.is_empty(), killed, "{found:?}");
    here.is_intact();
    here.succeed(&["import", "--knowledge", text(&large)]);
    assert_eq!(origins(&here)[0]["sessions"], 20_000);
}
