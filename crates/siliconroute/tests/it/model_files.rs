//! A model file that changes while it is measured.

use std::path::PathBuf;

use siliconroute::campaign::Sampling;
use siliconroute::event::{Event, Listener, Silent};
use siliconroute::measure::{Job, Order};
use siliconroute_core::trial::Purpose;
use siliconroute_store::TrialFilter;

use crate::simulated::{RTEN, SUSTAINED, Simulated, key, question};

/// Puts another model into the file once it is being measured, and keeps the notices.
struct Replacing {
    file: PathBuf,
    other: PathBuf,
    notices: Vec<String>,
}

impl Listener for Replacing {
    fn event(&mut self, event: Event) {
        match event {
            Event::Step(_) => drop(std::fs::copy(&self.other, &self.file).unwrap()),
            Event::Notice(notice) => self.notices.push(notice),
            _ => {}
        }
    }
}

#[test]
fn nothing_is_kept_of_a_model_whose_file_changed_while_it_was_measured() {
    let simulated = Simulated::usual();
    let router = simulated.router();
    let [first, other] =
        ["mlp-64w-2l", "mlp-64w-3l"].map(|name| question(&router, name, 1).model.path.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.onnx");
    std::fs::copy(first, &file).unwrap();
    let mut listener = Replacing { file: file.clone(), other, notices: Vec::new() };
    let targets = router.targets(&mut Silent).unwrap();
    let asked = question(&router, file.to_str().unwrap(), 1);
    let job = Job { model: asked.model, case: asked.case, workload: SUSTAINED, targets: vec![key(RTEN)] };
    let sampling = Sampling::default();
    let order = Order::new(Purpose::Bench, &sampling);
    let measured = router.measure(&[job], &targets, &order, &mut listener).unwrap();
    assert!(measured.trials.is_empty());
    assert!(router.store().trial_summaries(&TrialFilter::default()).unwrap().is_empty());
    assert!(listener.notices.iter().any(|notice| notice.contains("changed while")), "{:?}", listener.notices);
}
