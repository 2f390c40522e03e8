//! How models are named, and how their dimensions are bound.

use siliconroute_store::OpenOptions;

use super::*;
use crate::error::ErrorKind;

/// A fetcher that nothing may ask.
struct NeverAsked;

impl Fetcher for NeverAsked {
    fn fetch(
        &self,
        wheel: &packages::WheelPin,
        _: &Path,
        _: &mut dyn packages::Progress,
    ) -> Result<PathBuf, packages::FetchError> {
        panic!("{wheel:?} is fetched")
    }
}

struct Library {
    folder: tempfile::TempDir,
    store: Store,
}

impl Library {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store.sqlite"), &OpenOptions::default()).unwrap();
        Self { folder, store }
    }

    fn models(&self) -> Models<'_> {
        Models {
            folder: self.folder.path().to_owned(),
            scratch: None,
            store: &self.store,
            now_unix_ms: 0,
            offline: true,
        }
    }

    fn resolve(&self, reference: &str) -> Result<KnownModel, ModelError> {
        self.models().resolve(reference, &NeverAsked, &mut packages::Silent)
    }
}

#[test]
fn a_reference_is_a_file_a_synthetic_name_or_a_name_of_the_catalogue() {
    #[track_caller]
    fn check(reference: &str, kind: &str) {
        let found = match parse_reference(reference) {
            Ok(Origin::File(path)) => {
                assert!(path.is_absolute());
                "file"
            }
            Ok(Origin::Synthetic(_)) => "synthetic",
            Ok(Origin::Catalogue(_)) => "catalogue",
            Err(ModelError::Unknown { .. }) => "unknown",
            Err(_) => "error",
        };
        assert_eq!(found, kind, "{reference}");
    }
    check("model.onnx", "file");
    check("folder/model", "file");
    check("folder\\model", "file");
    check("mlp-256w-4l", "synthetic");
    check("./mlp-256w-4l", "file");
    check("magika", "catalogue");
    check("magica", "unknown");
    check("", "unknown");
    check("mlp-0w-4l", "unknown");
}

#[test]
fn a_generated_model_is_written_once_and_remembered() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    assert!(model.synthetic && model.path.is_file());
    assert_eq!(model.facts.batch_dimension(), Some("batch"));
    let written = std::fs::metadata(&model.path).unwrap().modified().unwrap();
    let again = library.resolve("mlp-64w-2l").unwrap();
    assert_eq!(again.facts, model.facts);
    assert_eq!(std::fs::metadata(&model.path).unwrap().modified().unwrap(), written);
    let (size, modified) = file_stamp(&model.path).unwrap();
    assert!(library.store.model_by_file(&model.path, size, modified).unwrap().is_some());
}

#[test]
fn a_batch_that_has_no_place_is_refused() {
    let library = Library::new();
    let mut model = library.resolve("mlp-64w-2l").unwrap();
    let case = |model: &KnownModel, batch| {
        library.models().case(model, &Given { batch: Some(batch), ..Given::default() })
    };
    model.facts.inputs[0].shape.clear();
    model.facts.free_dimensions.clear();
    let refusal = case(&model, 4).unwrap_err();
    assert!(refusal.to_string().ends_with("no batch dimension: its first input `input` is a scalar"));
    assert!(refusal.hint().is_some_and(|hint| hint.contains("leave out --batch")));
    assert!(!matches!(case(&model, 1), Err(ModelError::NoBatch { .. })), "one is what it works on");
    model.facts.inputs.clear();
    assert!(matches!(case(&model, 2).unwrap_err(), ModelError::NoBatch { batch: 2, .. }));
    model.facts.inputs = library.resolve("mlp-64w-2l").unwrap().facts.inputs;
    model.facts.inputs[0].shape[0] = Dimension::Fixed(3);
    let refusal = case(&model, 4).unwrap_err();
    assert!(matches!(refusal, ModelError::FixedBatch { fixed: 3, .. }));
    assert!(refusal.hint().is_some_and(|hint| hint.contains("leave out --batch")));
}

#[test]
fn the_first_cases_of_a_model_need_no_second_look_at_its_file() {
    let library = Library::new();
    let model = library.resolve("mlp-8w-2l").unwrap();
    std::fs::remove_file(&model.path).unwrap();
    let of = |batch| Given { batch: Some(batch), ..Given::default() };
    let shaped = Given { shapes: [("input".to_owned(), vec![5, 8])].into(), ..Given::default() };
    let batches: Vec<u64> = [of(1), of(3), shaped]
        .iter()
        .map(|given| library.models().case(&model, given).unwrap().facts.batch)
        .collect();
    assert_eq!(batches, [1, 3, 5]);
}

#[test]
fn a_changed_file_is_read_anew() {
    let library = Library::new();
    let path = library.folder.path().join("own.onnx");
    let write = |width| {
        SyntheticModel::new(siliconroute_onnx::SyntheticFamily::Mlp, width, 1).write(&path).unwrap();
    };
    write(32);
    let reference = path.display().to_string();
    let before = library.resolve(&reference).unwrap();
    write(48);
    let after = library.resolve(&reference).unwrap();
    assert_eq!((before.name.as_str(), before.synthetic), ("own", false));
    assert_ne!(before.facts.id, after.facts.id);
}

#[test]
fn offline_a_model_that_is_not_here_is_not_fetched() {
    let error = Library::new().resolve("magika").unwrap_err();
    assert!(matches!(error, ModelError::Offline(_)), "{error}");
    assert_eq!(error.kind(), ErrorKind::NothingSuitable);
    assert!(error.hint().unwrap().contains("--offline"));
}

#[test]
fn dimensions_are_bound_by_batch_or_shape_and_default_to_one() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    let shape = |sizes: &[u64]| BTreeMap::from([("input".to_owned(), sizes.to_vec())]);
    let bind = |given: &Given| library.models().case(&model, given);
    let batch = |given: &Given| bind(given).unwrap().facts.batch;
    assert_eq!(batch(&Given::default()), 1);
    assert_eq!(batch(&Given { batch: Some(7), ..Given::default() }), 7);
    assert_eq!(batch(&Given { shapes: shape(&[5, 64]), ..Given::default() }), 5);
    for wrong in [shape(&[5, 63]), shape(&[5]), shape(&[0, 64]), BTreeMap::from([("x".to_owned(), vec![1])])]
    {
        let error = bind(&Given { shapes: wrong, ..Given::default() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
    }
    assert!(bind(&Given { batch: Some(0), ..Given::default() }).is_err());
    assert!(bind(&Given { batch: Some(u64::MAX), ..Given::default() }).is_err());
}

#[test]
fn the_same_bindings_are_the_same_case() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    let case =
        |batch| library.models().case(&model, &Given { batch: Some(batch), ..Given::default() }).unwrap();
    assert_eq!(case(2), case(2));
    assert_ne!(case(2).id, case(3).id);
    assert!((case(3).facts.flops / case(1).facts.flops - 3.0).abs() < 1e-9);
    assert_eq!(library.store.cases().unwrap().len(), 3);
}

/// Makes what the store knows of a model and its case look counted by an earlier method.
fn make_stale(library: &Library, model: &KnownModel, case: &Case) -> Case {
    let mut facts = model.facts.clone();
    (facts.method_version, facts.parameters) = (METHOD_VERSION - 1, 1);
    let record = ModelRecord {
        facts: &facts,
        name: &model.name,
        path: None,
        licence: None,
        source: Some("synthetic"),
    };
    library.store.record_model(&record, 0).unwrap();
    let mut stale = case.clone();
    (stale.facts.method_version, stale.facts.flops) = (METHOD_VERSION - 1, 1.0);
    library.store.record_case(&stale, 0).unwrap();
    stale
}

#[test]
fn facts_that_another_method_counted_are_counted_anew_where_they_are_used() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    let case = library.models().case(&model, &Given::default()).unwrap();
    make_stale(&library, &model, &case);
    assert_eq!(library.resolve("mlp-64w-2l").unwrap().facts, model.facts);
    assert_eq!(library.models().case(&model, &Given::default()).unwrap(), case);
    assert_eq!(library.store.cases().unwrap(), [case]);
    assert_eq!(library.store.model(model.facts.id).unwrap().unwrap().facts, model.facts);
}

#[test]
fn recorded_cases_are_counted_anew_while_their_file_is_the_same() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    let case = library.models().case(&model, &Given::default()).unwrap();
    let stale = make_stale(&library, &model, &case);
    let mut cases = [stale.clone()];
    library.models().recount(&mut cases).unwrap();
    assert_eq!(cases.as_slice(), std::slice::from_ref(&case));
    assert_eq!(library.store.cases().unwrap(), cases);
    let known = library.store.model(model.facts.id).unwrap().unwrap();
    assert_eq!((known.facts, known.source.as_deref()), (model.facts.clone(), Some("synthetic")));

    make_stale(&library, &model, &case);
    SyntheticModel::new(siliconroute_onnx::SyntheticFamily::Mlp, 32, 1).write(&model.path).unwrap();
    let mut cases = [stale.clone()];
    library.models().recount(&mut cases).unwrap();
    assert_eq!(cases.as_slice(), std::slice::from_ref(&stale), "the file holds another model");
    std::fs::remove_file(&model.path).unwrap();
    library.models().recount(&mut cases).unwrap();
    assert_eq!(cases, [stale], "the file is gone");
}

#[test]
fn a_changed_model_of_the_catalogue_is_told_from_one_that_is_not_there() {
    let library = Library::new();
    let model = Catalogue::embedded().find("magika").unwrap();
    let path = library.models().catalogue_path(model);
    let resolve = || library.resolve("magika").unwrap_err();
    assert!(matches!(resolve(), ModelError::Offline(_)));
    assert!(library.models().damage("magika", &packages::Silent).unwrap().is_none());

    let check = |finding: &str| {
        let error = resolve();
        assert!(error.to_string().contains(finding), "{error}");
        assert_eq!(error.hint().as_deref(), Some("run `siliconroute models fetch magika`"));
        assert_eq!(error.kind(), ErrorKind::WorkFailed);
        assert!(library.models().damage("magika", &packages::Silent).unwrap().is_some());
    };
    for bytes in [&b"garbage"[..], b""] {
        std::fs::write(&path, bytes).unwrap();
        check(&format!("it has {} bytes instead of {}", bytes.len(), model.member.size_bytes));
        assert!(!library.models().is_here("magika"));
    }
    std::fs::File::create(&path).unwrap().set_len(model.member.size_bytes).unwrap();
    check("its bytes differ from the pinned hash");
    let sound = library.resolve("mlp-64w-2l").unwrap();
    std::fs::copy(sound.path, &path).unwrap();
    check("instead of");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    check("a folder, not a file");
}

#[test]
fn a_changed_synthetic_model_says_how_it_is_made_anew() {
    let library = Library::new();
    let model = library.resolve("mlp-64w-2l").unwrap();
    std::fs::write(&model.path, "garbage").unwrap();
    let error = library.resolve("mlp-64w-2l").unwrap_err();
    assert!(matches!(error, ModelError::Changed { .. }), "{error}");
    assert_eq!(error.hint().as_deref(), Some("run `siliconroute models generate mlp-64w-2l`"));
}
