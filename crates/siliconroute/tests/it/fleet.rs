//! Knowledge that travels between homes: what leaves, what it is good for, and that it is never taken for one's own.

use std::path::{Path, PathBuf};

use siliconroute::event::Silent;
use siliconroute::fleet::ImportedOrigin;
use siliconroute::knowledge_file::KnowledgeFile;
use siliconroute::{Error, Router};
use siliconroute_core::decide::{Context, Source, decide};
use siliconroute_core::energy::NOT_MEASURED;
use siliconroute_core::trial::{Failure, FailureKind, Preparation, Purpose, Trial};
use siliconroute_core::{Chip, ChipKey, ChipKind, ModelFacts, Reading};
use siliconroute_store::{ModelRecord, NewCampaign};
use siliconroute_testkit::TimeLaw;

use crate::simulated::{GPU, ORT, RTEN, SUSTAINED, Simulated, key, question};

/// A case that a start measures.
const MODEL: &str = "mlp-128w-4l";

/// The usual machine with every time longer by a factor.
fn slower(factor: f64) -> Simulated {
    let law = |law: TimeLaw| TimeLaw {
        overhead_ns: law.overhead_ns * factor,
        ns_per_flop: law.ns_per_flop * factor,
        ns_per_byte: law.ns_per_byte * factor,
    };
    let simulated = Simulated::usual();
    for name in [ORT, GPU, RTEN] {
        simulated.launcher.change(name, |fake| fake.law = law(fake.law));
    }
    simulated
}

fn export(simulated: &Simulated, name: &str) -> PathBuf {
    let path = simulated.home.path().join(name);
    let exported = simulated.router().export_knowledge(&path).unwrap();
    assert_eq!((exported.left_out, exported.first_fault), (0, None));
    assert!(exported.sessions >= exported.cases && exported.cases > 0);
    path
}

#[track_caller]
fn import(simulated: &Simulated, path: &Path) -> ImportedOrigin {
    simulated.router().import_knowledge(path).unwrap()
}

/// Where the predictions for a target come from, in the case of the usual model; `None` without one.
fn source(router: &Router, target: &str) -> Option<Source> {
    let case = question(router, MODEL, 1).case;
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let query = router.query(&case, &siliconroute::run::Routing::default());
    let decision = decide(&learned.knowledge, &query, &Context::default());
    let target = learned.knowledge.find(&key(target)).unwrap();
    decision.prediction(target).map(|prediction| prediction.source)
}

/// Changes a knowledge file as another machine might have written it.
fn rewrite(path: &Path, change: impl FnOnce(&mut KnowledgeFile)) {
    let (mut file, _) = KnowledgeFile::load(path).unwrap();
    change(&mut file);
    std::fs::write(path, file.to_bytes().bytes).unwrap();
}

#[test]
fn what_another_machine_measured_is_expected_here_until_this_one_measures() {
    let (other, here) = (slower(1.25), Simulated::usual());
    other.started();
    let imported = import(&here, &export(&other, "knowledge.jsonl"));
    assert!(imported.new && !imported.own);
    let router = here.router();
    for target in [ORT, GPU, RTEN] {
        assert_eq!(
            source(&router, target),
            Some(Source::Imported { machines: 1, assumed: true }),
            "{target}"
        );
    }
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    assert!(
        learned.trials.is_empty() && learned.knowledge.known_cases() == 0,
        "no measurement of this machine"
    );
    let case = question(&router, MODEL, 1).case;
    let ort = learned.knowledge.find(&key(ORT)).unwrap();
    let class = router.query(&case, &siliconroute::run::Routing::default()).accuracy;
    let told = *learned.knowledge.imported(case.id, ort, SUSTAINED, class).unwrap();

    here.up();
    let router = here.router();
    assert!(matches!(source(&router, ORT), Some(Source::Measured { .. })));
    let learned = router.learn(&router.targets(&mut Silent).unwrap()).unwrap();
    let own = learned.knowledge.estimate(case.id, ort, SUSTAINED).unwrap();
    assert!((told.time_ns / own.time_ns - 1.25).abs() < 0.05, "{told:?} {own:?}");
    assert!(told.interval.low < own.time_ns && own.time_ns < told.interval.high);
}

#[test]
fn the_same_file_twice_and_forgetting_it_leave_no_trace() {
    let (other, here) = (slower(1.25), Simulated::usual());
    other.started();
    let path = export(&other, "knowledge.jsonl");
    let first = import(&here, &path);
    let again = import(&here, &path);
    assert_eq!((again.new, &again.origin), (false, &first.origin));
    let router = here.router();
    assert_eq!(source(&router, GPU), Some(Source::Imported { machines: 1, assumed: true }));
    assert_eq!(router.forget_knowledge(&first.origin.id.to_string()).unwrap(), first.origin);
    assert_eq!(source(&router, GPU), None);
    for number in ["1", "x", "-1", "99999999999999999999"] {
        let refused = router.forget_knowledge(number).unwrap_err();
        assert!(matches!(&refused, Error::Usage(text) if text.contains("there is none")), "{refused}");
    }
}

#[test]
fn files_of_one_machine_count_as_one_and_files_of_two_as_two() {
    let (other, third, here) = (slower(1.25), slower(1.5), Simulated::usual());
    other.started();
    let early = export(&other, "early.jsonl");
    // A later file of the machine has all that the first one has, and more.
    other.launcher.change(ORT, |fake| fake.law.overhead_ns += 1.0);
    let router = other.router();
    let asked = question(&router, "mlp-64w-2l", 1);
    let job = siliconroute::measure::Job {
        model: asked.model,
        case: asked.case,
        workload: SUSTAINED,
        targets: vec![key(ORT)],
    };
    let targets = router.targets(&mut Silent).unwrap();
    let sampling = router.sampling();
    let order = siliconroute::measure::Order::new(Purpose::Learn, &sampling);
    router.measure(&[job], &targets, &order, &mut Silent).unwrap();
    let late = export(&other, "late.jsonl");
    assert!(import(&here, &early).origin.times < import(&here, &late).origin.times);
    assert_eq!(source(&here.router(), ORT), Some(Source::Imported { machines: 1, assumed: true }));
    third.started();
    import(&here, &export(&third, "third.jsonl"));
    assert_eq!(source(&here.router(), ORT), Some(Source::Imported { machines: 2, assumed: false }));
}

#[test]
fn hardware_of_another_kind_or_another_library_tells_nothing() {
    let (other, here) = (slower(1.25), Simulated::usual());
    other.started();
    let path = export(&other, "knowledge.jsonl");
    rewrite(&path, |file| {
        file.hardware_id = "arm64_other_chip_64c_512gh".to_owned();
        for time in &mut file.times {
            let target = &mut time.target;
            if target.chip.kind == ChipKind::Cpu {
                target.chip.name = "other_chip".to_owned();
            }
        }
    });
    let imported = import(&here, &path);
    assert_eq!(imported.origin.hardware_id, "arm64_other_chip_64c_512gh");
    assert_ne!(here.router().machine().hardware_id, imported.origin.hardware_id);
    // The other home's processor is another one, its graphics chip is not.
    let router = here.router();
    assert_eq!((source(&router, ORT), source(&router, RTEN)), (None, None));
    assert_eq!(source(&router, GPU), Some(Source::Imported { machines: 1, assumed: true }));
    router.forget_knowledge(&imported.origin.id.to_string()).unwrap();
    rewrite(&path, |file| {
        file.times.iter_mut().for_each(|time| time.target.library_version.push_str(".1"));
    });
    import(&here, &path);
    assert_eq!(source(&router, GPU), None);
}

#[test]
fn a_machine_learns_nothing_from_its_own_file() {
    let here = Simulated::usual();
    here.started();
    let imported = import(&here, &export(&here, "knowledge.jsonl"));
    assert!(imported.new && imported.own);
    let learned = here.router().learn(&here.router().targets(&mut Silent).unwrap()).unwrap();
    for question in [question(&here.router(), MODEL, 1), question(&here.router(), MODEL, 8)] {
        for target in [ORT, GPU, RTEN] {
            let target = learned.knowledge.find(&key(target)).unwrap();
            let class = siliconroute_core::AccuracyClass::Relaxed;
            assert_eq!(learned.knowledge.imported(question.case.id, target, SUSTAINED, class), None);
        }
    }
}

#[test]
fn an_empty_home_has_nothing_to_export_and_writes_nothing() {
    let here = Simulated::usual();
    let path = here.home.path().join("knowledge.jsonl");
    let refused = here.router().export_knowledge(&path).unwrap_err();
    assert_eq!(refused.kind(), siliconroute::ErrorKind::NothingSuitable);
    assert!(refused.to_string().contains("measured nothing yet"), "{refused}");
    assert!(!path.exists());
}

/// What must never leave, each of its own kind.
const PLANTED: [&str; 12] = [
    "planted-host",
    "planted-user",
    "/srv/planted/models",
    "SN-PLANTED-0001",
    "192.168.77.42",
    "02:42:ac:11:00:02",
    "planted-model.onnx",
    "GPU-5f2c0f70-planted",
    "planted-producer",
    "planted-input",
    "planted-source",
    "planted.example.org",
];

/// Everything planted in one text.
fn planted() -> String {
    PLANTED.join(" ")
}

/// Records a machine, a chip, a target, a model and trials that hold what must not leave wherever there is text.
fn plant(router: &Router, chip_key: &str) {
    let store = router.store();
    let hardware_id = &router.machine().hardware_id;
    let facts = serde_json::json!({"hostname": planted(), "kernel_version": planted()}).to_string();
    let host = store.record_host(hardware_id, &facts, 0).unwrap();
    let mut chip = Chip {
        key: ChipKey(chip_key.to_owned()),
        kind: ChipKind::Gpu,
        vendor: "Maker".to_owned(),
        name: chip_key.to_owned(),
        identity: siliconroute_core::chip::ChipIdentity::default(),
        memory_bytes: Some(1 << 30),
        software: false,
        driver: Some(planted()),
    };
    chip.identity.uuid = Some(planted());
    chip.identity.instance = Some(planted());
    store.record_chips(&[chip.clone()], 0).unwrap();
    let known = store.models().unwrap().remove(0);
    let facts = ModelFacts {
        producer: Some(planted()),
        operators: [(planted(), 1)].into(),
        free_dimensions: vec![planted()],
        ..known.facts
    };
    let path = PathBuf::from(planted());
    let name = planted();
    let record = ModelRecord {
        facts: &facts,
        name: &name,
        path: Some(&path),
        licence: Some(&name),
        source: Some(&name),
    };
    store.record_model(&record, 0).unwrap();
    let mut case = store.cases().unwrap().into_iter().find(|case| case.model == facts.id).unwrap();
    case.facts.assumptions = vec![planted()];
    case.facts.inputs.iter_mut().for_each(|input| input.name = planted());
    case.facts.index_limits = [(planted(), 7)].into();
    store.record_case(&case, 0).unwrap();
    let target = siliconroute_core::Target {
        key: siliconroute_core::TargetKey(format!("{chip_key}/webgpu")),
        provider: siliconroute_core::ProviderName("webgpu".to_owned()),
        provider_version: "1.0".to_owned(),
        chip: chip.key,
        chip_kind: ChipKind::Gpu,
        options: [(planted(), planted())].into(),
    };
    let target_id = store.record_target(&target, 0).unwrap();
    let plan = serde_json::json!({ "plan": planted() }).to_string();
    let campaign = NewCampaign {
        host: Some(host),
        purpose: Purpose::Learn,
        seed: 1,
        program_version: "planted-user",
        program_commit: Some("planted-user"),
        started_unix_ms: 0,
        plan: &plan,
    };
    let campaign = store.begin_campaign(&campaign).unwrap();
    let measured = store.trial_summaries(&siliconroute_store::TrialFilter::default()).unwrap();
    let good = measured.iter().find(|trial| trial.case == case.id && trial.outcome.is_ok()).unwrap();
    let mut measurement = store.trial(good.id).unwrap().unwrap().outcome.unwrap();
    measurement.session_create_ns += 1;
    measurement.placement = Reading::unavailable(planted());
    measurement.energy = Reading::unavailable(NOT_MEASURED);
    measurement.peak_resident_bytes = Reading::unavailable(planted());
    let trial = |outcome, suspect| Trial {
        target: target.key.clone(),
        case: case.id,
        workload: SUSTAINED,
        preparation: Preparation::Running,
        purpose: Purpose::Learn,
        started_unix_ms: 1_700_000_000_000,
        order_seed: 1,
        input_seed: 2,
        conditions: serde_json::json!({"host": planted(), "addresses": PLANTED}).to_string(),
        suspect,
        outcome,
    };
    store.record_trial(campaign, target_id, &trial(Ok(measurement.clone()), None)).unwrap();
    store.record_trial(campaign, target_id, &trial(Ok(measurement), Some(planted()))).unwrap();
    let failure = Failure::new(FailureKind::Crashed, planted());
    store.record_trial(campaign, target_id, &trial(Err(failure), None)).unwrap();
}

#[test]
fn nothing_of_a_person_leaves_with_the_measurements() {
    let here = Simulated::usual();
    here.up();
    let path = export(&here, "before.jsonl");
    let before = KnowledgeFile::load(&path).unwrap().0;
    plant(&here.router(), "gpu:10de:9999@GPU-5f2c0f70-planted");
    let path = export(&here, "planted-model.onnx.jsonl");
    let (file, _) = KnowledgeFile::load(&path).unwrap();
    assert_eq!(file.times.len(), before.times.len() + 1, "the planted trial itself leaves");
    let chip = &file.times.iter().find(|time| time.target.chip.ids.as_deref() == Some("10de:9999")).unwrap();
    assert_eq!((chip.target.chip.name.as_str(), chip.target.target.as_str()), ("", "webgpu"));
    let bytes = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    let home = here.home.path().display().to_string();
    for secret in PLANTED.map(str::to_owned).into_iter().chain([home]) {
        let escaped = secret.replace('\\', "\\\\");
        assert!(!bytes.contains(&secret) && !bytes.contains(&escaped), "{secret} leaves");
    }
    assert!(!bytes.to_lowercase().contains("planted"));
    assert!(!bytes.contains(MODEL) && !bytes.contains("0000:01:00.0"), "names and places stay");
}
