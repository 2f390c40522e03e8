//! What meters said of the targets' energy, for knowledge.
//!
//! Invariant: only what could be told from rest becomes a fact, and each fact keeps the scope of its meter.

use std::collections::HashMap;

use siliconroute_core::Reading;
use siliconroute_core::decide::{Decision, Fired};
use siliconroute_core::energy::estimate_by_scope;
use siliconroute_core::knowledge::EnergyFacts;
use siliconroute_store::{StoredTrial, TrialFilter, TrialId};

use crate::error::Error;
use crate::router::{Router, Targets};

impl Router {
    /// What can be done where `decision` wanted energy or power that nobody has measured; `None` where it did not. Asks
    /// the machine's meters, which takes milliseconds.
    pub fn energy_advice(&self, decision: &Decision<'_>) -> Option<String> {
        let wanted =
            |fired: &Fired| matches!(fired, Fired::EnergyUnknown { .. } | Fired::PowerUnchecked { .. });
        decision.fired.iter().any(wanted).then(|| {
            let mut meters = (self.meters)(&self.present_chips());
            let readings = meters.read();
            let reasons: Vec<String> = readings
                .iter()
                .filter_map(|reading| match &reading.value {
                    Reading::Available(_) => None,
                    Reading::Unavailable(reason) => Some(format!("{}: {reason}", reading.meter.name)),
                })
                .chain(meters.absence())
                .collect();
            if reasons.len() < readings.len() {
                return "`siliconroute bench --energy` measures what targets draw".to_owned();
            }
            format!(
                "no energy counter of this machine can be read ({}); where a chip tells its power, or on battery, \
                 `siliconroute bench --energy` measures what targets draw",
                reasons.join("; ")
            )
        })
    }

    /// The energies that the honest ones of `trials` measured; `filter` lets at least these pass.
    pub(super) fn energies(
        &self,
        filter: &TrialFilter,
        trials: &[StoredTrial],
    ) -> Result<Vec<EnergyFacts>, Error> {
        let honest: HashMap<TrialId, &StoredTrial> = trials
            .iter()
            .filter(|trial| trial.suspect.is_none() && trial.preparation.is_usual() && trial.outcome.is_ok())
            .map(|trial| (trial.id, trial))
            .collect();
        let mut facts = Vec::new();
        for (id, run) in self.store.energy_runs(filter)? {
            let Some(trial) = honest.get(&id) else { continue };
            let of = |estimate| EnergyFacts::of(trial.target.clone(), trial.case, trial.workload, estimate);
            facts.extend(estimate_by_scope(&run).iter().map(of));
        }
        Ok(facts)
    }
}

/// What the energy of targets without settings says of the tuned ones in their place, as far as those have none of
/// their own.
pub(super) fn lend_energies(targets: &Targets, energies: &[EnergyFacts]) -> Vec<EnergyFacts> {
    let mut lent = Vec::new();
    for replaced in &targets.replaced {
        let own = |facts: &EnergyFacts| {
            let same = |it: &&EnergyFacts| it.case == facts.case && it.workload == facts.workload;
            energies.iter().filter(same).any(|it| it.target == replaced.by && it.scope == facts.scope)
        };
        let of_plain = energies.iter().filter(|it| it.target == replaced.plain.target.key && !own(it));
        lent.extend(of_plain.map(|facts| EnergyFacts { target: replaced.by.clone(), ..facts.clone() }));
    }
    lent
}
