//! What knowledge says of times that were not measured.
//!
//! Invariant: what is kept of a known case is what the predictor would say of it anew.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Cell, Exclusion, Knowledge, TargetEntry, TargetIndex, Verdict};
use crate::decide::{Prediction, Source};
use crate::identity::{CaseId, ModelId};
use crate::model::{Case, OperatorClass};
use crate::predict::{Learning, Measured, PredictedTime, Predictor, Started, WakingCurve};
use crate::statistics::{self, Interval};
use crate::target::TargetKey;
use crate::workload::Workload;

/// Standard normal quantile of a two-sided 95 % interval.
const NORMAL_95: f64 = 1.959_963_984_540_054;

/// What the session of a trial took to start.
#[derive(Debug, Clone, PartialEq)]
pub struct StartFacts {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// Time to create the session.
    pub create_ns: f64,
    /// Time of its first inference.
    pub first_run_ns: f64,
}

/// A time after another rest than the usual one.
#[derive(Debug, Clone, PartialEq)]
pub struct RestFacts {
    /// The target.
    pub target: TargetKey,
    /// The case.
    pub case: CaseId,
    /// The rest before.
    pub rest_ns: f64,
    /// The time of one inference.
    pub time_ns: f64,
}

impl From<PredictedTime> for Prediction {
    fn from(predicted: PredictedTime) -> Self {
        let PredictedTime { time_ns, interval, basis } = predicted;
        Self { time_ns, interval, source: Source::Predicted(basis) }
    }
}

impl Knowledge {
    /// The time of a case that was not measured on `target`; `None` where nothing tells it.
    pub fn predicted(&self, case: &Case, target: TargetIndex, workload: Workload) -> Option<Prediction> {
        let index = usize::from(target.0);
        match self.predictions.get(&case.id) {
            Some(row) => row.get(index)?[workload.index()],
            None => self.predictor.predict(case, index, workload).map(Prediction::from),
        }
    }

    /// How `target` wakes, where rests of several lengths were measured on it, or else on the machine's targets together.
    pub fn waking(&self, target: TargetIndex) -> Option<&WakingCurve> {
        self.waking.get(usize::from(target.0))?.as_ref()
    }

    /// What `usual`, the time after the usual rest, becomes after another one; the same where no curve is known.
    ///
    /// The time moves between the sustained one and `usual`, or beyond it after longer rests.
    pub(crate) fn after_rest(
        &self,
        case: &Case,
        target: TargetIndex,
        usual: Prediction,
        rest_ns: f64,
    ) -> Prediction {
        let Some(curve) = self.waking(target) else { return usual };
        let measured = self.estimate(case.id, target, Workload::Sustained).map(|it| it.time_ns);
        let predicted = || self.predicted(case, target, Workload::Sustained).map(|it| it.time_ns);
        let Some(sustained_ns) = measured.or_else(predicted) else { return usual };
        let added = (usual.time_ns - sustained_ns).max(0.0);
        let time_ns = usual.time_ns + (curve.share(rest_ns) - 1.0) * added;
        let Interval { low, high } = usual.interval;
        // The usual time's own interval moves along; what the curve may be off by comes on top.
        let scale = time_ns / usual.time_ns;
        let off_by = (NORMAL_95 * curve.spread * added / time_ns).min(1.0);
        let widened = |end: f64| (end / usual.time_ns).ln().hypot(off_by).exp();
        let interval = Interval {
            low: scale * usual.time_ns / widened(low),
            high: scale * usual.time_ns * widened(high),
        };
        Prediction { time_ns, interval, ..usual }
    }

    /// The time of `case` on `target` in `workload`, measured or predicted.
    pub fn expected_ns(&self, case: &Case, target: TargetIndex, workload: Workload) -> Option<f64> {
        self.row(case).expected_ns(target, workload)
    }

    /// What is known of the times of `case`, looked up once for all targets.
    pub(crate) fn row<'k>(&'k self, case: &'k Case) -> CaseRow<'k> {
        let predictions = self.predictions.get(&case.id).map(AsRef::as_ref);
        CaseRow { knowledge: self, case, cells: self.cells(case.id), predictions }
    }

    /// What makes a failure of `target` on an untried case likely; `None` where nothing does.
    pub(crate) fn doubt(&self, case: &Case, target: TargetIndex) -> Option<&Exclusion> {
        let doubts = self.doubts.get(usize::from(target.0))?;
        case.facts.by_class.iter().find_map(|work| doubts[work.class as usize].as_ref())
    }

    /// The same from the law of the target alone, as if the model had never been measured.
    pub fn predicted_by_law(
        &self,
        case: &Case,
        target: TargetIndex,
        workload: Workload,
    ) -> Option<Prediction> {
        self.predictor.predict_by_law(case, usize::from(target.0), workload).map(Prediction::from)
    }

    /// What predicts times.
    pub fn predictor(&self) -> &Predictor {
        &self.predictor
    }
}

/// What is known of the times of one case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaseRow<'k> {
    knowledge: &'k Knowledge,
    case: &'k Case,
    cells: Option<&'k [Cell]>,
    predictions: Option<&'k [[Option<Prediction>; 3]]>,
}

impl CaseRow<'_> {
    /// The time on `target` in `workload`, measured or predicted.
    pub(crate) fn expected_ns(&self, target: TargetIndex, workload: Workload) -> Option<f64> {
        let (index, of) = (usize::from(target.0), workload.index());
        if let Some(measured) = self.cells.and_then(|row| row.get(index)?.times[of].as_ref()) {
            return Some(measured.time_ns);
        }
        let predicted = match self.predictions {
            Some(row) => row.get(index)?[of],
            None => self.knowledge.predicted(self.case, target, workload),
        };
        predicted.map(|predicted| predicted.time_ns)
    }

    /// What it takes to wake `target` up: what a rest adds to its time; 0 where that is not known.
    pub(crate) fn waking_ns(&self, target: TargetIndex) -> f64 {
        let [rested, running] =
            [Workload::IdleLoaded, Workload::Sustained].map(|workload| self.expected_ns(target, workload));
        rested.zip(running).map_or(0.0, |(rested, running)| (rested - running).max(0.0))
    }
}

/// What speaks against a target for cases that were not tried, by class of operators.
pub(super) type Doubts = [Option<Exclusion>; OperatorClass::COUNT];

/// Finds the classes of operators that each target never ran.
///
/// Crashes, hangs and lack of memory may pass and say nothing of a class; refusals and models that ran elsewhere do.
pub(super) fn doubts(
    cases: &[Case],
    verdicts: &HashMap<CaseId, Box<[Verdict]>>,
    targets: usize,
) -> Vec<Doubts> {
    let mut ran = vec![[false; OperatorClass::COUNT]; targets];
    let mut failed = vec![[(); OperatorClass::COUNT].map(|()| BTreeSet::new()); targets];
    for case in cases {
        let Some(row) = verdicts.get(&case.id) else { continue };
        for (target, verdict) in row.iter().enumerate() {
            let refused = matches!(&verdict.failed, Some(Exclusion::Failed(it)) if !it.kind.is_transient());
            for work in &case.facts.by_class {
                ran[target][work.class as usize] |= verdict.succeeded;
                if refused {
                    failed[target][work.class as usize].insert(case.model);
                }
            }
        }
    }
    let of_target = |(ran, failed): ([bool; OperatorClass::COUNT], [BTreeSet<ModelId>; _])| {
        std::array::from_fn(|index| {
            let class = OperatorClass::ALL[index];
            let models = failed[index].len() as u32;
            // Of one that never ran anything, nothing is known that would tell the class from the rest.
            (ran.contains(&true) && !ran[index] && models > 0)
                .then_some(Exclusion::ExpectedToFail { class, models })
        })
    };
    std::iter::zip(ran, failed).map(of_target).collect()
}

/// Learns from the measured cases among `cases`.
pub(super) fn learn(
    targets: &[TargetEntry],
    cases: &[Case],
    cells: &HashMap<CaseId, Box<[Cell]>>,
    starts: &[StartFacts],
    index: &HashMap<TargetKey, usize>,
) -> Predictor {
    let by_id: HashMap<CaseId, &Case> = cases.iter().map(|case| (case.id, case)).collect();
    let mut learning = Learning {
        fits: targets.iter().map(|entry| entry.fits.each_ref().map(Option::as_ref)).collect(),
        ..Learning::default()
    };
    // In the order of identities, so that equal knowledge predicts equal times to the last digit.
    let mut measured: Vec<(&CaseId, &Box<[Cell]>)> = cells.iter().collect();
    measured.sort_by_key(|(case, _)| **case);
    for (case, row) in measured {
        let Some(&case) = by_id.get(case) else { continue };
        for (target, cell) in row.iter().enumerate() {
            for workload in Workload::ALL {
                if let Some(estimate) = &cell.times[workload.index()] {
                    let time_ns = estimate.time_ns;
                    learning.measured.push(Measured { target, case, workload, time_ns });
                }
            }
        }
    }
    let mut by_place: BTreeMap<(usize, CaseId), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for start in starts {
        if let Some(&target) = index.get(&start.target) {
            let (create, first_run) = by_place.entry((target, start.case)).or_default();
            create.push(start.create_ns);
            first_run.push(start.first_run_ns);
        }
    }
    for ((target, case), (create, first_run)) in by_place {
        if let (Some(&case), Some(create_ns), Some(first_run_ns)) =
            (by_id.get(&case), statistics::median(&create), statistics::median(&first_run))
        {
            learning.started.push(Started { target, case, create_ns, first_run_ns });
        }
    }
    Predictor::learn(&learning)
}

/// The least that the usual rest must add, as a share of the sustained time, to tell how it comes about.
const LEAST_ADDED: f64 = 0.1;

/// How each target wakes.
pub(super) fn waking(
    rests: &[RestFacts],
    cells: &HashMap<CaseId, Box<[Cell]>>,
    index: &HashMap<TargetKey, usize>,
) -> Vec<Option<WakingCurve>> {
    let mut shares: Vec<Vec<(f64, f64)>> = vec![Vec::new(); index.len()];
    for rest in rests {
        let Some(&target) = index.get(&rest.target) else { continue };
        let times = |workload: Workload| {
            Some(cells.get(&rest.case)?[target].times[workload.index()].as_ref()?.time_ns)
        };
        if let (Some(sustained), Some(usual)) = (times(Workload::Sustained), times(Workload::IdleLoaded))
            && usual > sustained * (1.0 + LEAST_ADDED)
        {
            shares[target].push((rest.rest_ns, (rest.time_ns - sustained) / (usual - sustained)));
        }
    }
    let pooled = WakingCurve::fit(&shares.concat());
    shares.iter().map(|own| WakingCurve::fit(own).or(pooled)).collect()
}

/// Predictions for all cases, targets and workloads that were not measured.
pub(super) fn predict_known(
    predictor: &Predictor,
    cases: &[Case],
    cells: &HashMap<CaseId, Box<[Cell]>>,
    targets: usize,
) -> HashMap<CaseId, Box<[[Option<Prediction>; 3]]>> {
    let of_case = |case: &Case| {
        let measured = cells.get(&case.id);
        let of_target = |target: usize| {
            Workload::ALL.map(|workload| {
                let cell = measured.and_then(|row| row[target].times[workload.index()].as_ref());
                let predict = || predictor.predict(case, target, workload).map(Prediction::from);
                if cell.is_some() { None } else { predict() }
            })
        };
        (case.id, (0..targets).map(of_target).collect())
    };
    cases.iter().map(of_case).collect()
}
