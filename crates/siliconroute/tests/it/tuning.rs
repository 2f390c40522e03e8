//! The tuning of a simulated machine: measured, kept, read back, and measured anew where it must be.

use std::path::PathBuf;
use std::sync::Arc;

use siliconroute::event::Silent;
use siliconroute::tuning::{Anew, Choice, Policy, Source, Tuned};
use siliconroute::up::UpPlan;
use siliconroute::{ErrorKind, Options, Router};
use siliconroute_core::ChipKey;
use siliconroute_testkit::FakeWorkbench;

use crate::simulated::{Notices, Simulated};

/// A home whose machine has so many cores.
struct Tuneable {
    simulated: Simulated,
    workbench: FakeWorkbench,
}

impl Tuneable {
    fn new(cores: usize) -> Self {
        Self { simulated: Simulated::usual(), workbench: FakeWorkbench::new(cores) }
    }

    fn options(&self) -> Options {
        Options {
            workbench: Arc::new(self.workbench.clone()),
            ..self.simulated.home.options(&self.simulated.launcher)
        }
    }

    fn router(&self) -> Router {
        Router::open(self.options()).unwrap()
    }

    /// Tunes in a new process, so to speak; gives what was told as well.
    #[track_caller]
    fn tune(&self, anew: Anew) -> (Tuned, Vec<String>) {
        let mut notices = Notices::default();
        let tuned = self.router().tune(anew, &mut notices).unwrap();
        (tuned, notices.0)
    }

    fn file(&self) -> PathBuf {
        self.router().tuning_file()
    }

    fn with_setting(&self, line: &str) -> Options {
        std::fs::write(self.simulated.home.path().join("config.toml"), line).unwrap();
        self.options()
    }
}

#[test]
fn a_machine_is_tuned_once_and_read_back() {
    let machine = Tuneable::new(4);
    assert_eq!(machine.router().tuned(), None);
    let (first, told) = machine.tune(Anew::IfNeeded);
    assert_eq!(told, Vec::<String>::new());
    assert_eq!((first.choice.threads.get(), first.choice.policy), (3, Policy::Static));
    assert_eq!((first.source, first.kept_in.clone()), (Source::Measured, Some(machine.file())));
    let tuning = first.tuning.clone().unwrap();
    for policy in Policy::ALL {
        assert!(tuning.measurements.iter().any(|m| m.policy == policy && m.threads.get() == 3), "{policy:?}");
    }
    let router = machine.router();
    let second = router.tune(Anew::IfNeeded, &mut Silent).unwrap();
    assert_eq!((second.source, &second.choice), (Source::Kept, &first.choice));
    assert_eq!(second.tuning, first.tuning);
    assert_eq!(router.tuned(), Some(second));
    assert_eq!(machine.workbench.tunings(), 1);
}

#[test]
fn a_machine_is_measured_anew_on_request() {
    let machine = Tuneable::new(2);
    machine.tune(Anew::IfNeeded);
    let (again, told) = machine.tune(Anew::Always);
    assert_eq!((again.source, told), (Source::Measured, Vec::new()));
    assert_eq!(machine.workbench.tunings(), 2);
    assert_eq!(machine.tune(Anew::IfNeeded).0.tuning, again.tuning);
}

#[test]
fn without_tuning_there_are_four_threads_and_nothing_is_measured() {
    let machine = Tuneable::new(2);
    let router = Router::open(machine.with_setting("autotune = false")).unwrap();
    let tuned = router.tune(Anew::IfNeeded, &mut Silent).unwrap();
    assert_eq!((tuned.source, &tuned.choice), (Source::SwitchedOff, &Choice::untuned()));
    assert_eq!((tuned.choice.threads.get(), tuned.choice.policy), (4, Policy::Static));
    assert_eq!((machine.workbench.tunings(), machine.file().exists()), (0, false));
}

#[test]
fn a_file_that_cannot_be_used_is_told_and_measured_anew() {
    let machine = Tuneable::new(2);
    let check = |bytes: &str, expected: &str, aside: bool| {
        let file = machine.file();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let (tuned, told) = machine.tune(Anew::IfNeeded);
        assert_eq!(tuned.source, Source::Measured);
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        assert_eq!(machine.tune(Anew::IfNeeded).0.source, Source::Kept);
        let put = file.with_extension("json.unusable");
        assert_eq!(std::fs::read_to_string(&put).ok().as_deref(), aside.then_some(bytes), "{expected}");
        drop(std::fs::remove_file(put));
        std::fs::read_to_string(file).unwrap()
    };
    let good = check("{\"half\": ", "damaged and put aside", true);
    let id = machine.router().machine().hardware_id.clone();
    check(&good.replacen(&id, "elsewhere_2c", 1), "of another machine and put aside (`elsewhere_2c`)", true);
    check(&good.replacen("\"method\": 1", "\"method\": 0", 1), "measured by method 0", false);
    check(&good.replacen("\"most_threads\": 16", "\"most_threads\": 3", 1), "with up to 3 threads", false);
}

#[test]
fn a_newer_file_is_left_untouched() {
    let machine = Tuneable::new(2);
    let file = machine.file();
    let newer = "{\"schema\":\"siliconroute.tuning-record/7\"}";
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, newer).unwrap();
    for anew in [Anew::IfNeeded, Anew::Always] {
        let (tuned, told) = machine.tune(anew);
        assert_eq!((tuned.source, tuned.kept_in), (Source::Measured, None));
        assert!(told.last().unwrap().contains("a newer version's file is left untouched"), "{told:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    }
}

#[test]
fn machines_that_share_a_home_keep_their_own_files() {
    let machine = Tuneable::new(2);
    let other = machine.file().with_file_name("arm64_apple_m3_8c_16gh.json");
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "whatever it holds").unwrap();
    let (tuned, told) = machine.tune(Anew::IfNeeded);
    assert_eq!((tuned.source, told), (Source::Measured, Vec::new()));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "whatever it holds");
}

#[test]
fn another_limit_on_the_process_is_measured_anew() {
    let mut machine = Tuneable::new(4);
    assert_eq!(machine.tune(Anew::IfNeeded).0.choice.threads.get(), 3);
    machine.workbench.cores = 2;
    let (tuned, told) = machine.tune(Anew::IfNeeded);
    assert_eq!(tuned.choice.threads.get(), 2);
    assert!(told[0].contains("measured with 4 CPUs, and this process may use 2"), "{told:?}");
}

#[test]
fn the_cap_is_a_setting() {
    let machine = Tuneable::new(4);
    let router = Router::open(machine.with_setting("tuning_threads = 2")).unwrap();
    assert_eq!(router.tune(Anew::IfNeeded, &mut Silent).unwrap().choice.threads.get(), 2);
}

#[test]
fn a_read_only_home_is_tuned_and_keeps_nothing() {
    let machine = Tuneable::new(2);
    machine.router();
    let options = machine.with_setting("read_only = true");
    for _ in 0..2 {
        let mut notices = Notices::default();
        let tuned = Router::open(options.clone()).unwrap().tune(Anew::IfNeeded, &mut notices).unwrap();
        assert_eq!((tuned.source, tuned.choice.threads.get(), tuned.kept_in), (Source::Measured, 2, None));
        assert!(
            notices.0[0].contains("could not be kept")
                && notices.0[0].contains("nothing can be kept in the home"),
            "{:?}",
            notices.0
        );
    }
    assert!(!machine.simulated.home.path().join("runtime").exists());
}

#[test]
fn a_file_in_the_way_is_told_and_the_tuning_used() {
    let machine = Tuneable::new(2);
    std::fs::write(machine.simulated.home.path().join("runtime"), "in the way").unwrap();
    let (tuned, told) = machine.tune(Anew::IfNeeded);
    assert_eq!((tuned.choice.threads.get(), tuned.kept_in), (2, None));
    assert!(told[0].contains("could not be kept") && told[0].contains("runtime"), "{told:?}");
}

#[test]
fn two_programs_at_once_measure_once() {
    let machine = Tuneable::new(2);
    let routers = [machine.router(), machine.router()];
    let turn = routers[0].home().lock_measuring(|| true).unwrap();
    let tuned = std::thread::scope(|scope| {
        let waiting: Vec<_> =
            routers.iter().map(|router| scope.spawn(|| router.tune(Anew::IfNeeded, &mut Silent))).collect();
        drop(turn);
        waiting.into_iter().map(|it| it.join().unwrap().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(machine.workbench.tunings(), 1);
    assert_eq!(tuned[0].tuning, tuned[1].tuning);
}

#[test]
fn work_that_cannot_be_prepared_is_an_error_and_the_start_goes_on() {
    let mut machine = Tuneable::new(2);
    machine.workbench.refusal = Some("no memory".to_owned());
    let error = machine.router().tune(Anew::IfNeeded, &mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
    let report = machine.router().up(&UpPlan::default(), &mut Silent).unwrap();
    assert!(report.notices.iter().any(|notice| notice.contains("no memory")), "{:?}", report.notices);
    assert_eq!(report.tuning, None);
}

#[test]
fn figures_of_the_cpu_are_recorded_with_the_machine() {
    let machine = Tuneable::new(2);
    let router = machine.router();
    let tuned = router.tune(Anew::IfNeeded, &mut Silent).unwrap();
    let id = &router.machine().hardware_id;
    let stored = router.store().chip_figures(&ChipKey::cpu(), id).unwrap();
    let figures: Vec<_> = stored.into_iter().map(|stored| stored.figure).collect();
    assert_eq!((figures.len(), figures), (2, tuned.figures));
}

#[test]
fn a_start_tunes_and_says_so() {
    let machine = Tuneable::new(2);
    let first = machine.router().up(&UpPlan::default(), &mut Silent).unwrap().tuning.unwrap();
    let second = machine.router().up(&UpPlan::default(), &mut Silent).unwrap().tuning.unwrap();
    assert_eq!((first.source, second.source), (Source::Measured, Source::Kept));
    assert_eq!((first.threads.get(), first.policy), (2, Policy::Static));
    assert_eq!(machine.workbench.tunings(), 1);
}
