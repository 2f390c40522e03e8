//! The check of a session's outputs against the reference's, at its first and at its last run.
//!
//! Invariant: a target is compared only with outputs that the reference gives again when it is asked again.

use siliconroute_core::tensor::Tensor;
use siliconroute_core::trial::{Failure, FailureKind, OutputCheck};
use siliconroute_core::{AccuracyClass, OutputDifference, TargetKey};

/// Targets that are taken for right: engines that compute every operator themselves, in the model's own
/// precision, and are tested against the operators' definitions by their makers.
pub(crate) const TRUSTED_REFERENCES: [&str; 2] = ["cpu/ort", "cpu/rten"];

/// Whether outputs of the target called `key` may be what others are compared with.
pub fn is_trusted(key: &TargetKey) -> bool {
    TRUSTED_REFERENCES.contains(&key.base())
}

/// Whether these failures show that the model is at fault: every target refuses it, a trusted one among them.
///
/// A chip's own provider may lack operators, but the trusted engines compute whatever valid model they know.
pub fn all_refuse<'f>(failures: impl IntoIterator<Item = (&'f TargetKey, &'f Failure)>) -> bool {
    let mut trusted = false;
    for (target, failure) in failures {
        if failure.kind != FailureKind::Refused {
            return false;
        }
        trusted |= is_trusted(target);
    }
    trusted
}

/// What a session computed from the same inputs in its first run and, once it was sampled, in its last.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionOutputs {
    pub(super) first: Vec<Tensor>,
    pub(super) last: Vec<Tensor>,
}

impl SessionOutputs {
    /// Whether the session gave the same outputs again, as closely as the strictest class asks.
    fn repeat(&self) -> bool {
        OutputDifference::between(&self.last, &self.first)
            .is_ok_and(|difference| difference.satisfies(AccuracyClass::Exact))
    }
}

/// Compares what the target called `key` computed with the reference's; the worse of both runs counts.
pub(super) fn check_outputs(
    key: &TargetKey,
    outputs: &SessionOutputs,
    reference: Option<&(TargetKey, SessionOutputs)>,
    constant_weights: bool,
) -> OutputCheck {
    let not_compared = |reason: &str| OutputCheck::NotCompared { reason: reason.to_owned() };
    let Some((reference, expected)) = reference else {
        return not_compared("neither cpu/ort nor cpu/rten ran the case beside it");
    };
    if key == reference {
        return OutputCheck::Reference;
    }
    if constant_weights {
        return not_compared("the model's weights are constant");
    }
    if !expected.repeat() {
        return not_compared("the reference's own outputs change from run to run on the same inputs");
    }
    let mut worst: Option<OutputDifference> = None;
    for outputs in [&outputs.first, &outputs.last] {
        match OutputDifference::between(outputs, &expected.first) {
            Err(fault) => return OutputCheck::Faulty { reference: reference.clone(), fault },
            Ok(found) => worst = Some(worst.map_or(found, |worst| worst.or_worse(found))),
        }
    }
    match worst {
        Some(difference) if difference.reference_magnitude > 0.0 => {
            OutputCheck::Compared { reference: reference.clone(), difference }
        }
        _ => not_compared("the reference's outputs are all zero or not finite, so that they prove nothing"),
    }
}
