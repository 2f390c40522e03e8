//! The kernels in plain Rust, in a form that compilers turn into whatever vectors the target always has.
//!
//! Invariant: safe code alone. Products are rounded before they are added, since a fused multiply-add without the
//! instruction is a slow call.

use super::CHAINS;

pub(super) const LANES: usize = 8;

type Lanes = [f32; LANES];

pub(super) fn multiply_rows<const ROWS: usize, const VECTORS: usize, const PREFETCH: bool>(
    values: &[f32],
    x: &[f32],
    y: &mut [f32],
) {
    let columns = x.len();
    let mut groups = y.chunks_exact_mut(ROWS);
    let mut blocks = values.chunks_exact(ROWS * columns);
    for (group, block) in groups.by_ref().zip(blocks.by_ref()) {
        let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &block[row * columns..][..columns]);
        group.copy_from_slice(&products(rows, x));
    }
    for (result, row) in groups.into_remainder().iter_mut().zip(blocks.remainder().chunks_exact(columns)) {
        [*result] = products([row], x);
    }
}

/// Multiplies some rows with `x`; all have its length.
fn products<const ROWS: usize>(rows: [&[f32]; ROWS], x: &[f32]) -> [f32; ROWS] {
    let mut sums = [[0.0; LANES]; ROWS];
    let (whole, rest) = x.as_chunks::<LANES>();
    let rows = rows.map(<[f32]>::as_chunks::<LANES>);
    for (index, x) in whole.iter().enumerate() {
        for (sum, (row, _)) in sums.iter_mut().zip(&rows) {
            add_product(sum, &row[index], x);
        }
    }
    std::array::from_fn(|index| {
        let tail: f32 = rows[index].1.iter().zip(rest).map(|(a, x)| a * x).sum();
        sums[index].iter().sum::<f32>() + tail
    })
}

#[inline]
fn add_product(sum: &mut Lanes, a: &Lanes, x: &Lanes) {
    for lane in 0..LANES {
        sum[lane] += a[lane] * x[lane];
    }
}

pub(super) fn sum<const PREFETCH: bool>(values: &[f32]) -> f32 {
    const SUMS: usize = 4;
    let mut sums = [[0.0; LANES]; SUMS];
    let (blocks, rest) = values.as_chunks::<{ SUMS * LANES }>();
    for block in blocks {
        for (sum, part) in sums.iter_mut().zip(block.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                sum[lane] += part[lane];
            }
        }
    }
    sums.as_flattened().iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// Compilers and processors make of one stream what they would of four.
pub(super) fn sum_by_four(values: &[f32]) -> f32 {
    sum::<false>(values)
}

pub(super) fn multiply_add(rounds: u32, factor: f32, term: f32) -> f32 {
    let mut chains: [Lanes; CHAINS] =
        std::array::from_fn(|chain| std::array::from_fn(|lane| (chain * LANES + lane) as f32 / 64.0));
    for _ in 0..rounds {
        for value in chains.as_flattened_mut() {
            *value = *value * factor + term;
        }
    }
    chains.as_flattened().iter().sum()
}
