//! Two programs on one home.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use siliconroute::event::{Event, Listener};
use siliconroute::up::UpPlan;
use siliconroute::{Error, Router};

use crate::simulated::{DECIDED, LEARNED, Notices, Simulated};

#[test]
fn the_second_of_two_starts_waits_and_finds_everything_known() {
    let simulated = Simulated::usual();
    let start = || {
        let mut notices = Notices::default();
        let report = simulated.router().up(&UpPlan::default(), &mut notices).unwrap();
        (report, notices.0)
    };
    let ((first, _), (second, _)) = std::thread::scope(|scope| {
        let other = scope.spawn(start);
        (start(), other.join().unwrap())
    });
    assert_eq!(simulated.trials().len(), 3 * (LEARNED + DECIDED));
    let mut measured = [first.measured_trials, second.measured_trials];
    measured.sort_unstable();
    assert_eq!(measured, [0, 3 * (LEARNED + DECIDED)]);
    assert_eq!(first.evaluation, second.evaluation);
}

#[test]
fn a_start_that_has_nothing_to_measure_waits_for_nobody() {
    let simulated = Simulated::usual();
    simulated.up();
    let router = simulated.router();
    let held = router.home().lock_measuring(|| false).unwrap();
    assert!(held.is_some());
    let mut notices = Notices::default();
    let report = router.up(&UpPlan::default(), &mut notices).unwrap();
    assert_eq!(report.measured_trials, 0);
    assert!(!notices.0.iter().any(|notice| notice.contains("waiting")), "{:?}", notices.0);
}

#[test]
fn waiting_is_said_once_and_can_be_stopped() {
    let simulated = Simulated::usual();
    let _held = simulated.router().home().lock_measuring(|| false).unwrap();
    let cancelled = Arc::new(AtomicBool::new(false));
    let mut options = simulated.home.options(&simulated.launcher);
    options.cancelled = Arc::clone(&cancelled);
    let mut impatient = StopWhenWaiting { notices: 0, cancelled };
    let error = Router::open(options).unwrap().up(&UpPlan::default(), &mut impatient).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(impatient.notices, 1);
    assert!(simulated.trials().is_empty());
}

struct StopWhenWaiting {
    notices: usize,
    cancelled: Arc<AtomicBool>,
}

impl Listener for StopWhenWaiting {
    fn event(&mut self, event: Event) {
        if matches!(&event, Event::Notice(notice) if notice.contains("another program is measuring")) {
            self.notices += 1;
            self.cancelled.store(true, Ordering::Relaxed);
        }
    }
}
