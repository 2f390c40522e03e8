//! Facts of a case as numbers that models can be compared by.
//!
//! Invariant: every trait of any facts is a finite number of ordinary size, or known to be missing.

use crate::model::{CaseFacts, OperatorClass};

use super::work::{Mixture, SortOfWork};

/// Numbers in [`Traits::values`]: the amount of work, and what sort of model it is.
pub(super) const COUNT: usize = 9;

/// Centre and scale of each trait: about the mean and standard deviation over well-known networks.
const SCALES: [(f64, f64); COUNT] = [
    // ln of multiply-adds, of parameters, of activations, of nodes
    (20.0, 1.5),
    (15.0, 1.7),
    (16.3, 0.75),
    (4.7, 0.6),
    // shares of the work: depthwise convolutions, matrix products
    (0.05, 0.05),
    (0.0, 0.2),
    // shares of the nodes: data movement, element-wise, normalisation
    (0.1, 0.12),
    (0.4, 0.13),
    (0.015, 0.025),
];
/// Scales from its centre beyond which a trait tells no more.
const FARTHEST: f64 = 30.0;

/// The facts of a case that decide how alike its times are to others'. A fact that is not known makes times less
/// certain.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaseTraits {
    /// Multiply-adds of a call.
    pub multiply_adds: f64,
    /// Learned values.
    pub parameters: f64,
    /// Values that all nodes write in a call.
    pub activations: Option<f64>,
    /// Nodes that run.
    pub nodes: Option<f64>,
    /// Share of depthwise convolutions in the multiply-adds, 0 to 1.
    pub depthwise_share: Option<f64>,
    /// Share of matrix products in the multiply-adds, 0 to 1.
    pub matrix_share: Option<f64>,
    /// Share of moves without arithmetic in the nodes, 0 to 1.
    pub movement_share: Option<f64>,
    /// Share of element-wise operators in the nodes, 0 to 1.
    pub element_wise_share: Option<f64>,
    /// Share of normalisations in the nodes, 0 to 1.
    pub normalisation_share: Option<f64>,
    /// The work by sort of node; empty when it is not known.
    pub work: Vec<SortOfWork>,
}

impl From<&CaseFacts> for CaseTraits {
    /// Takes the traits from the facts that are counted in a model file.
    fn from(facts: &CaseFacts) -> Self {
        let flops: f64 = facts.by_class.iter().map(|it| it.flops).sum();
        let nodes = facts.nodes.max(1) as f64;
        let share_of_flops = |wanted: &[OperatorClass]| {
            let of = facts.by_class.iter().filter(|it| wanted.contains(&it.class));
            of.map(|it| it.flops).sum::<f64>() / flops.max(1.0)
        };
        let share_of_nodes = |wanted: OperatorClass| {
            let of = facts.by_class.iter().filter(|it| it.class == wanted);
            of.map(|it| it.nodes as f64).sum::<f64>() / nodes
        };
        Self {
            multiply_adds: facts.flops / 2.0,
            parameters: facts.parameters as f64,
            // Activations are fp32 in all but a few models; a factor of two or four is a scale or two.
            activations: Some(facts.activation_bytes / 4.0),
            nodes: Some(nodes),
            depthwise_share: Some(share_of_flops(&[OperatorClass::DepthwiseConv])),
            matrix_share: Some(share_of_flops(&[
                OperatorClass::MatMul,
                OperatorClass::Attention,
                OperatorClass::Recurrent,
            ])),
            movement_share: Some(share_of_nodes(OperatorClass::DataMovement)),
            element_wise_share: Some(share_of_nodes(OperatorClass::ElementWise)),
            normalisation_share: Some(share_of_nodes(OperatorClass::Normalisation)),
            // Facts of a case are kept by class of operator, not by sort of node.
            work: Vec::new(),
        }
    }
}

/// Traits in their scales, with the model that they belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct Traits {
    /// `None` where the fact is not known.
    pub(super) values: [Option<f64>; COUNT],
    /// What the work consists of; `None` where that is not known.
    pub(super) work: Option<Mixture>,
    pub(super) model: usize,
}

impl Traits {
    /// Scales the traits of a case of the model with the number `model`; cases of one model share it.
    ///
    /// Numbers that are not finite, negative or beyond all ordinary size count as the nearest that is.
    pub fn new(model: usize, case: &CaseTraits) -> Self {
        let amounts = [Some(case.multiply_adds), Some(case.parameters), case.activations, case.nodes];
        let shares = [
            case.depthwise_share,
            case.matrix_share,
            case.movement_share,
            case.element_wise_share,
            case.normalisation_share,
        ];
        let raw = amounts.map(|amount| amount.map(|amount| amount.max(1.0).ln())).into_iter().chain(shares);
        let mut values = [None; COUNT];
        for ((value, raw), (centre, scale)) in values.iter_mut().zip(raw).zip(SCALES) {
            *value = raw.map(|raw| {
                let scaled = (raw - centre) / scale;
                if scaled.is_nan() { 0.0 } else { scaled.clamp(-FARTHEST, FARTHEST) }
            });
        }
        Self { values, work: Mixture::new(&case.work), model }
    }

    /// The logarithm of the amount of work, scaled.
    pub(super) fn size(&self) -> f64 {
        self.values[0].unwrap_or(0.0)
    }
}
