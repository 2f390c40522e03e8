//! What the work of a call consists of: its nodes by class, window, pack, length and size, and how alike two models are in that.
//!
//! Invariant: likeness is a product of vectors, so that it is a covariance over any models.
//!
//! The time of a model is the sum of its nodes' times. Where a node of some sort takes `r` times as long as on a
//! reference, the logarithm of the sum is that of the reference plus, to first order, the mean of `ln r` weighted by
//! the shares of the reference's time: linear in the shares. Sorts that are near one another behave alike, so each
//! share counts for the neighbouring sorts too.

use std::collections::BTreeMap;

use crate::model::OperatorClass;

/// Multiply-adds that the reference does in the time in which it moves a byte.
const MULTIPLY_ADDS_PER_BYTE: f64 = 8.0;
/// How alike sorts are of which one looks at a single place and the other at more, where equal ones are 1.
const ANY_WINDOW: f64 = 0.2;
/// How alike sorts are of which one fills packs of channels and the other does not.
const ANY_PACK: f64 = 0.5;
/// How much of a share counts for the sorts with half and twice the multiply-adds for each value.
const TO_NEXT_LENGTH: f64 = 0.5;
/// The same for the sorts that write half and twice as many values.
const TO_NEXT_SIZE: f64 = 1.0;
/// Mean square distance of well-known networks from their mean: what is expected of an unknown one.
const TYPICAL_SQUARE: f64 = 0.52;
/// Sorts of a model that are told apart; the ones with the least share are left out.
const MOST_SORTS: usize = 256;

/// The work of all nodes of one sort in a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SortOfWork {
    /// The class of the operator.
    pub class: OperatorClass,
    /// Side of the square of places that a convolution makes a value from; 1 of any other node.
    pub window: u8,
    /// Whether their channels fill packs; `None` where it is not known.
    pub pack: Option<Pack>,
    /// Binary logarithm of the multiply-adds for each value that a node writes, rounded down; 0 where there are none.
    pub length: u8,
    /// Binary logarithm of the values that a node writes, rounded down.
    pub size: u8,
    /// Multiply-adds of these nodes.
    pub multiply_adds: f64,
    /// Bytes that they read and write, weights included.
    pub bytes: f64,
}

/// Whether the channels that a node reads, and those that it writes, fill packs of [`Pack::CHANNELS`].
///
/// Engines keep values of neighbouring channels side by side, as many as a register is wide, and compute them together;
/// channels that fill no pack take slower paths (ncnn developer guide, "element packing": packs of 1, 4 and 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pack {
    /// They do not, or nothing is known to be a channel.
    Open,
    /// They do.
    Full,
}

impl Pack {
    /// Channels of a full pack: of half precision in the registers of mobile chips, of single precision in those of AVX.
    pub const CHANNELS: u64 = 8;
}

/// What is told of packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Packs {
    /// Not told apart.
    Any,
    /// Not known: alike among themselves, so that models without packs are compared as if there were none.
    Unknown,
    Of(Pack),
}

/// The places that nodes make a value from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Window {
    /// Not told apart.
    Any,
    Single,
    Several,
}

/// Class, window, pack, length and size.
type Sort = (OperatorClass, Window, Packs, i16, i16);

/// Shares of a reference's time by sort, spread over neighbouring sorts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mixture(Vec<(Sort, f64)>);

impl Mixture {
    /// The mixture of `work`; `None` of no work. Amounts that are negative or not finite count as none.
    pub(super) fn new(work: &[SortOfWork]) -> Option<Self> {
        let mut times: Vec<(&SortOfWork, f64)> = work
            .iter()
            .map(|it| {
                let time = (it.multiply_adds / MULTIPLY_ADDS_PER_BYTE).max(it.bytes);
                let time = if time.is_finite() { time.clamp(0.0, 1e30) } else { 0.0 };
                (it, time)
            })
            .collect();
        times.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        times.truncate(MOST_SORTS);
        let whole: f64 = times.iter().map(|(_, time)| time).sum();
        if whole <= 0.0 {
            return None;
        }
        let mut spread: BTreeMap<Sort, f64> = BTreeMap::new();
        for (it, time) in times {
            let share = time / whole;
            let window = if it.window > 1 { Window::Several } else { Window::Single };
            let pack = it.pack.map_or(Packs::Unknown, Packs::Of);
            for (window, to_window) in told_apart(Window::Any, window, ANY_WINDOW) {
                for (pack, to_pack) in told_apart(Packs::Any, pack, ANY_PACK) {
                    for (longer, to_length) in [(-1, TO_NEXT_LENGTH), (0, 1.0), (1, TO_NEXT_LENGTH)] {
                        for (larger, to_size) in [(-1, TO_NEXT_SIZE), (0, 1.0), (1, TO_NEXT_SIZE)] {
                            let (length, size) = (i16::from(it.length) + longer, i16::from(it.size) + larger);
                            let part = share * to_window * to_pack * to_length * to_size;
                            *spread.entry((it.class, window, pack, length, size)).or_default() += part;
                        }
                    }
                }
            }
        }
        Some(Self(spread.into_iter().collect()))
    }

    /// The product of two mixtures.
    fn product(&self, other: &Self) -> f64 {
        let mut sum = 0.0;
        let mut others = other.0.iter().peekable();
        for (sort, share) in &self.0 {
            while others.next_if(|(it, _)| it < sort).is_some() {}
            if let Some((_, of_other)) = others.next_if(|(it, _)| it == sort) {
                sum += share * of_other;
            }
        }
        sum
    }

    /// The mean of mixtures.
    fn mean(mixtures: &[&Self]) -> Self {
        let mut sum: BTreeMap<Sort, f64> = BTreeMap::new();
        for (sort, share) in mixtures.iter().flat_map(|it| &it.0) {
            *sum.entry(*sort).or_default() += share / mixtures.len() as f64;
        }
        Self(sum.into_iter().collect())
    }
}

/// What sorts that are alike by `alike` have in common, and what is `own` to one of them, with the weight of each.
fn told_apart<T>(any: T, own: T, alike: f64) -> [(T, f64); 2] {
    [(any, alike.sqrt()), (own, (1.0 - alike).sqrt())]
}

/// How alike models are in what their work consists of, apart from their mean.
#[derive(Debug, Clone)]
pub(super) struct Likeness {
    /// Of each model, the product with the mean.
    with_mean: Vec<f64>,
    square_of_mean: f64,
    /// Models whose work is known; with fewer than two of them there is no mean to differ from.
    known: usize,
}

impl Likeness {
    /// Prepares to compare `mixtures`.
    pub(super) fn of(mixtures: &[Option<&Mixture>]) -> Self {
        let known: Vec<&Mixture> = mixtures.iter().copied().flatten().collect();
        let mean = Mixture::mean(&known);
        let with_mean = mixtures.iter().map(|it| it.map_or(0.0, |it| it.product(&mean))).collect();
        Self { with_mean, square_of_mean: mean.product(&mean), known: known.len() }
    }

    /// The product of the deviations of two models from the mean, where 1 is the typical square.
    ///
    /// A model whose work is not known is as far from the mean as is typical, in a direction of its own.
    pub(super) fn at(
        &self,
        left: (usize, Option<&Mixture>),
        right: (usize, Option<&Mixture>),
        same: bool,
    ) -> f64 {
        match (left.1, right.1) {
            (Some(a), Some(b)) if self.known > 1 => {
                let product = a.product(b) - self.with_mean[left.0] - self.with_mean[right.0];
                (product + self.square_of_mean) / TYPICAL_SQUARE
            }
            (Some(_), None) | (None, Some(_)) => 0.0,
            _ => f64::from(u8::from(same)),
        }
    }
}
