//! Packages that change under the program, and what else lies in their folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute::doctor::{Health, failure};
use siliconroute::engine_packages::PackageSource;
use siliconroute::event::{Event, Listener, Silent};
use siliconroute::run::Routing;
use siliconroute::up::UpPlan;
use siliconroute::{Error, ErrorKind, Router};
use siliconroute_core::TargetKey;

use crate::simulated::{GPU, Notices, ORT, RTEN, Simulated, key, question};

fn library(simulated: &Simulated, folder: &str) -> PathBuf {
    let name = folder.split_once('-').unwrap().0;
    simulated.home.path().join("packages").join(folder).join(format!("{name}.library"))
}

/// The available targets, and the notices that came with them.
fn available(router: &Router) -> (Vec<TargetKey>, Vec<String>) {
    let mut notices = Notices::default();
    let targets = router.targets(&mut notices).unwrap();
    (targets.discovery.available().map(|found| found.target.key.clone()).collect(), notices.0)
}

/// As long as what it replaces, so that only its bytes tell it apart.
const CHANGED: &str = "SIMULATED";

#[test]
fn a_library_that_changed_after_discovery_is_not_used() {
    for (folder, left) in [("fakegpu-1.0", &[ORT, RTEN][..]), ("onnxruntime-9.9.9", &[RTEN])] {
        let simulated = Simulated::usual();
        assert_eq!(available(&simulated.router()).0, [key(ORT), key(GPU), key(RTEN)]);
        std::fs::write(library(&simulated, folder), CHANGED).unwrap();
        // Also of a discovery that was stored without it.
        for _ in 0..2 {
            let (targets, notices) = available(&simulated.router());
            assert_eq!(targets, left.iter().map(|name| key(name)).collect::<Vec<_>>());
            let name = folder.split_once('-').unwrap().0;
            let advice = format!("its bytes differ (run `siliconroute packages install {name}`)");
            assert!(notices.iter().any(|notice| notice.contains(&advice)), "{notices:?}");
        }
        std::fs::write(library(&simulated, folder), "simulated").unwrap();
        simulated.launcher.forget_calls();
        let (targets, notices) = available(&simulated.router());
        assert_eq!((targets.len(), notices), (3, Vec::new()));
        assert_eq!(simulated.launcher.calls(), [], "its targets are known from before");
    }
}

#[test]
fn a_library_that_changes_while_the_program_runs_is_not_loaded() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let targets = router.targets(&mut Silent).unwrap();
    let learned = router.learn(&targets).unwrap();
    let question = question(&router, "mlp-128w-4l", 1);
    std::fs::write(library(&simulated, "fakegpu-1.0"), CHANGED).unwrap();
    simulated.launcher.forget_calls();
    let open = |target: &str| {
        let routing = Routing { target: Some(key(target)), isolated: true, ..Routing::default() };
        router.open_session(&question.model, &question.case, &targets, &learned, &routing).map(drop)
    };
    open(ORT).unwrap();
    let calls = simulated.launcher.calls().len();
    let error = open(GPU).unwrap_err().to_string();
    assert!(error.contains("not started: the package fakegpu 1.0 was changed"), "{error}");
    assert!(error.contains("run `siliconroute packages install fakegpu`"), "{error}");
    assert_eq!(simulated.launcher.calls().len(), calls);
    std::fs::write(library(&simulated, "fakegpu-1.0"), "simulated").unwrap();
    open(GPU).unwrap();
}

#[test]
fn strays_are_named_for_themselves_and_break_nothing() {
    let simulated = Simulated::usual();
    let folder = simulated.home.path().join("packages");
    let strays = ["foo-1.0", "onnxruntime-9.9.9.partial", "stray.txt"].map(|name| folder.join(name));
    std::fs::create_dir(&strays[0]).unwrap();
    std::fs::create_dir(&strays[1]).unwrap();
    std::fs::write(&strays[2], "").unwrap();
    std::fs::create_dir_all(folder.join(".tmp-dead/tree")).unwrap();
    let router = simulated.router();
    let verified = router.verify_packages(&[], &mut Silent).unwrap();
    assert!(verified.packages.iter().all(|package| package.intact), "{verified:?}");
    assert_eq!((verified.packages.len(), &verified.strays[..]), (2, &strays[..]));
    assert!(!folder.join(".tmp-dead").exists());
    let one = router.verify_packages(&["onnxruntime".to_owned()], &mut Silent).unwrap();
    assert_eq!((one.packages.len(), &one.strays[..]), (1, &strays[1..2]));
    let checks = router.diagnose(&mut Silent).unwrap();
    let of = |health: Health| checks.iter().filter(move |check| check.health == health);
    assert_eq!(of(Health::Broken).count(), 0, "{checks:?}");
    assert_eq!(of(Health::Advice).filter(|check| check.subject == "packages folder").count(), 3);
    let (targets, notices) = available(&router);
    assert_eq!((targets.len(), notices), (3, Vec::new()));
}

#[test]
fn doctor_names_a_changed_package_once_with_what_to_do() {
    let simulated = Simulated::usual();
    std::fs::write(library(&simulated, "fakegpu-1.0"), CHANGED).unwrap();
    let checks = simulated.router().diagnose(&mut Silent).unwrap();
    let broken: Vec<_> = checks.iter().filter(|check| check.health == Health::Broken).collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(broken[0].subject, "package fakegpu 1.0");
    assert_eq!(broken[0].advice.as_deref(), Some("run `siliconroute packages install fakegpu`"));
    let failure = failure(&checks).unwrap();
    assert_eq!(failure.to_string(), "broken: package fakegpu 1.0");
    let verified = simulated.router().verify_packages(&[], &mut Silent).unwrap();
    let failure = verified.failure().unwrap();
    assert_eq!(failure.kind(), ErrorKind::WorkFailed);
    assert!(failure.to_string().ends_with(": fakegpu"), "{failure}");
    assert_eq!(failure.hint(), broken[0].advice);
}

#[test]
fn installing_replaces_a_changed_version_whichever_it_is() {
    let simulated = Simulated::usual();
    std::fs::write(library(&simulated, "onnxruntime-9.9.9"), CHANGED).unwrap();
    let mut notices = Notices::default();
    let outcome = simulated.router().install_package("onnxruntime", PackageSource::Fetch, &mut notices);
    assert!(outcome.unwrap_err().is_unreachable());
    assert_eq!(notices.0, ["onnxruntime was changed since it was installed; replacing it"]);
    assert!(!simulated.home.path().join("packages/onnxruntime-9.9.9").exists());
}

#[test]
fn a_package_that_does_not_fit_is_installed_with_a_warning() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let states = router.package_states();
    for state in states.iter().filter(|state| state.size_bytes.is_some()) {
        let mut notices = Notices::default();
        let error = router.install_package(&state.name, PackageSource::Fetch, &mut notices).unwrap_err();
        assert!(error.is_unreachable(), "{error}");
        let warning =
            state.unfit.iter().map(|unfit| format!("{unfit}; it is installed because it was asked for"));
        assert_eq!(notices.0, warning.collect::<Vec<_>>(), "{}", state.name);
        let hint = error.hint().unwrap();
        assert!(hint.contains(&format!("packages install {} --wheel FILE", state.name)), "{hint}");
    }
    // One of them is for Intel chips, and one for CPUs of other makers.
    if cfg!(all(target_arch = "x86_64", not(target_os = "macos"))) {
        assert!(states.iter().any(|state| state.size_bytes.is_some() && state.unfit.is_some()));
    }
}

#[test]
fn a_wheel_option_is_no_hint_for_a_model() {
    let simulated = Simulated::usual();
    let error = simulated.router().find_model("magika", &mut Silent).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("run again when the network is back"));
}

/// Looks for targets in `router` while another program measures; `meanwhile` runs once that waits.
fn look_while_measuring(
    simulated: &Simulated,
    router: &Router,
    meanwhile: &mut dyn FnMut(),
) -> Result<usize, Error> {
    struct Waiting<'a>(&'a mut dyn FnMut());
    impl Listener for Waiting<'_> {
        fn event(&mut self, event: Event) {
            if matches!(&event, Event::Notice(notice) if notice.contains("another program is measuring")) {
                (self.0)();
            }
        }
    }
    let mut held = simulated.router().home().lock_measuring(|| false).unwrap();
    assert!(held.is_some());
    let mut done = || {
        assert_eq!(simulated.launcher.calls(), [], "nothing was probed while the other one measured");
        meanwhile();
        held = None;
    };
    router.targets(&mut Waiting(&mut done)).map(|targets| targets.discovery.found.len())
}

#[test]
fn targets_are_probed_only_while_nobody_measures() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    assert_eq!(look_while_measuring(&simulated, &router, &mut || {}).unwrap(), 3);
    assert!(!simulated.launcher.calls().is_empty());

    let simulated = Simulated::usual();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let router = Router::open(options).unwrap();
    let outcome = look_while_measuring(&simulated, &router, &mut || cancelled.store(true, Ordering::Relaxed));
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Interrupted);
    assert_eq!(simulated.launcher.calls(), []);
}

#[test]
fn two_programs_probe_the_targets_once() {
    let simulated = Simulated::usual();
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(|| available(&simulated.router()).0);
        [available(&simulated.router()).0, other.join().unwrap()]
    });
    assert_eq!(found[0], found[1]);
    let opened = simulated.launcher.calls().iter().filter(|call| call.request == "open").count();
    assert_eq!(opened, 3);
}

#[test]
fn stopping_a_verification_or_removal_is_an_interruption() {
    let simulated = Simulated::usual();
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::new(AtomicBool::new(true));
    let router = Router::open(options).unwrap();
    let folder = simulated.home.path().join("packages");
    std::fs::create_dir(folder.join("openvino-0.1")).unwrap();
    let lock = std::fs::File::create(folder.join(".lock")).unwrap();
    lock.lock().unwrap();
    for error in [
        router.verify_packages(&[], &mut Silent).unwrap_err(),
        router.remove_package("openvino", &mut Silent).unwrap_err(),
        router.diagnose(&mut Silent).unwrap_err(),
        router.targets(&mut Silent).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    }
}

/// The place of a model of the catalogue in a home that has its own folder of models.
fn catalogue_model(simulated: &Simulated, name: &str) -> PathBuf {
    let models = simulated.home.separate_models();
    let version = &siliconroute::catalogue::Catalogue::embedded().find(name).unwrap().version;
    models.join(format!("{name}-{version}.onnx"))
}

#[test]
fn a_changed_model_is_replaced_where_models_are_fetched_and_named_elsewhere() {
    let simulated = Simulated::usual();
    for name in ["magika", "ocr-cls"] {
        std::fs::write(catalogue_model(&simulated, name), "garbage").unwrap();
    }
    let router = simulated.router();
    let mut notices = Notices::default();
    let error = router.fetch_model("magika", &mut notices).unwrap_err();
    assert_eq!(notices.0, ["magika was changed since it was fetched; replacing it"]);
    assert!(error.to_string().contains("cannot fetch"), "{error}");
    let error = router.find_model("magika", &mut Silent).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("run `siliconroute models fetch magika`"));

    let checks = router.diagnose(&mut Silent).unwrap();
    let broken: Vec<_> = checks.iter().filter(|check| check.health == Health::Broken).collect();
    let subjects: Vec<&str> = broken.iter().map(|check| check.subject.as_str()).collect();
    assert_eq!(subjects, ["model magika", "model ocr-cls"]);
    assert_eq!(broken[1].advice.as_deref(), Some("run `siliconroute models fetch ocr-cls`"));
}

#[test]
fn a_start_offline_gives_a_reason_for_each_model_left_out() {
    let simulated = Simulated::usual();
    for name in ["magika", "ocr-cls"] {
        std::fs::write(catalogue_model(&simulated, name), "garbage").unwrap();
    }
    let mut options = simulated.home.options(&simulated.launcher);
    options.settings.offline = true;
    let report = Router::open(options).unwrap().up(&UpPlan::default(), &mut Silent).unwrap();
    for name in ["magika", "ocr-cls"] {
        let notice = report.notices.iter().find(|notice| notice.starts_with(&format!("the model {name} is")));
        let notice = notice.unwrap_or_else(|| panic!("{:?}", report.notices));
        assert!(notice.contains(&format!("run `siliconroute models fetch {name}`")), "{notice}");
    }
    let rest = report.notices.iter().find(|notice| notice.starts_with("models left out: ")).unwrap();
    assert!(rest.contains("silero-vad") && !rest.contains("magika"), "{rest}");
}

#[test]
fn a_target_whose_package_was_changed_says_so() {
    for (damage, discovered) in [(CHANGED, true), (CHANGED, false), ("of another size", true)] {
        let simulated = Simulated::usual();
        if discovered {
            available(&simulated.router());
        }
        std::fs::write(library(&simulated, "fakegpu-1.0"), damage).unwrap();
        let targets = simulated.router().targets(&mut Silent).unwrap();
        let error = targets.get("npu:1:1@a/fakegpu").unwrap_err();
        let known = discovered && damage == CHANGED;
        // A package that the table does not have is known by its record or by what it once brought.
        if damage == CHANGED {
            assert_eq!(error.kind(), ErrorKind::NothingSuitable);
            let told = "its package fakegpu was changed; run `siliconroute packages install fakegpu`";
            assert!(error.to_string().contains(told), "{error}");
        }
        assert_eq!(targets.get(GPU).unwrap_err().kind() == ErrorKind::NothingSuitable, known);
        assert_eq!(targets.get("npu:1:1@a/qnn").unwrap_err().kind(), ErrorKind::Usage);
    }
    let simulated = Simulated::usual();
    std::fs::write(library(&simulated, "onnxruntime-9.9.9"), "of another size").unwrap();
    let targets = simulated.router().targets(&mut Silent).unwrap();
    for name in [ORT, "cpu/fakegpu"] {
        let error = targets.get(name).unwrap_err();
        assert!(error.to_string().contains("its package onnxruntime was changed"), "{error}");
    }
}
