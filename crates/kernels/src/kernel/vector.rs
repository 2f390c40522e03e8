//! The kernels for any vectors; a file for an instruction set says what a vector is and calls the macro.
//!
//! Invariant: loads stay within the slices; what is asked for ahead may lie beyond, which no processor minds.

/// Writes the kernels for the features in `$features`.
///
/// In scope must be `Vector`, `LANES`, and the functions `zero`, `splat`, `load`, `fma`, `add`, `total`, `prefetch`.
macro_rules! vector_kernels {
    ($features:literal) => {
        use crate::kernel::CHAINS;

        /// Values in a cache line of 64 bytes.
        const LINE: usize = 16;
        /// How far ahead of its use a value of the matrix is asked for.
        const AHEAD: usize = 16 * LINE;
        const SUMS: usize = 8;

        /// Works on `ROWS` rows at a time, by steps of `VECTORS` vectors: so many sums of each row are under way.
        #[target_feature(enable = $features)]
        pub(super) fn multiply_rows<const ROWS: usize, const VECTORS: usize, const PREFETCH: bool>(
            values: &[f32],
            x: &[f32],
            y: &mut [f32],
        ) {
            let columns = x.len();
            let (groups, few) = y.as_chunks_mut::<ROWS>();
            let blocks = values.chunks_exact(ROWS * columns);
            let rest = blocks.remainder();
            for (group, block) in groups.iter_mut().zip(blocks) {
                *group = products::<ROWS, VECTORS, PREFETCH>(block, x);
            }
            if ROWS > 1 && !few.is_empty() {
                multiply_rows::<1, VECTORS, PREFETCH>(rest, x, few);
            }
        }

        /// Multiplies the `ROWS` rows of `block` with `x`.
        #[inline]
        #[target_feature(enable = $features)]
        fn products<const ROWS: usize, const VECTORS: usize, const PREFETCH: bool>(
            block: &[f32],
            x: &[f32],
        ) -> [f32; ROWS] {
            const { assert!(VECTORS.is_power_of_two(), "sums are added in pairs") };
            let columns = x.len();
            assert_eq!(block.len(), ROWS * columns, "a block is whole rows");
            let step = VECTORS * LANES;
            let rows: [*const f32; ROWS] =
                std::array::from_fn(|row| block.as_ptr().wrapping_add(row * columns));
            let mut sums = [[zero(); VECTORS]; ROWS];
            let steps_end = columns - columns % step;
            let mut column = 0;
            // Near its end a row gives way to the one that follows the block's last.
            let near_end = if PREFETCH { steps_end.saturating_sub(AHEAD) } else { 0 };
            let next_block = (ROWS - 1) * columns;
            for (end, ahead) in [(near_end, AHEAD), (steps_end, AHEAD + next_block)] {
                while column < end {
                    for vector in 0..VECTORS {
                        let place = column + vector * LANES;
                        // SAFETY: `column + step <= columns`, the length of `x` and of each row.
                        let x = unsafe { load(x.as_ptr().add(place)) };
                        for (row, sum) in rows.iter().zip(&mut sums) {
                            if PREFETCH && place.is_multiple_of(LINE) {
                                prefetch(row.wrapping_add(place + ahead));
                            }
                            // SAFETY: as above.
                            sum[vector] = fma(unsafe { load(row.add(place)) }, x, sum[vector]);
                        }
                    }
                    column += step;
                }
            }
            while columns - column >= LANES {
                // SAFETY: `column + LANES <= columns`.
                let x = unsafe { load(x.as_ptr().add(column)) };
                for (row, sum) in rows.iter().zip(&mut sums) {
                    // SAFETY: as above.
                    sum[0] = fma(unsafe { load(row.add(column)) }, x, sum[0]);
                }
                column += LANES;
            }
            let mut results = [0.0; ROWS];
            for (index, (result, sums)) in results.iter_mut().zip(&mut sums).enumerate() {
                // In pairs, so that no row waits for one addition after the other.
                let mut half = VECTORS / 2;
                while half > 0 {
                    for vector in 0..half {
                        sums[vector] = add(sums[vector], sums[vector + half]);
                    }
                    half /= 2;
                }
                let whole = total(sums[0]);
                let tail = block[index * columns + column..][..columns - column].iter();
                *result = tail.zip(&x[column..]).fold(whole, |sum, (a, x)| a.mul_add(*x, sum));
            }
            results
        }

        #[target_feature(enable = $features)]
        pub(super) fn sum<const PREFETCH: bool>(values: &[f32]) -> f32 {
            let (blocks, rest) = values.as_chunks::<{ SUMS * LANES }>();
            let mut sums = [zero(); SUMS];
            for block in blocks {
                let block = block.as_ptr();
                if PREFETCH {
                    for line in (0..SUMS * LANES).step_by(LINE) {
                        prefetch(block.wrapping_add(SUM_AHEAD + line));
                    }
                }
                for (index, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the block has `SUMS * LANES` values.
                    *sum = add(*sum, unsafe { load(block.add(index * LANES)) });
                }
            }
            let whole = sums.iter().fold(zero(), |whole, sum| add(whole, *sum));
            total(whole) + rest.iter().sum::<f32>()
        }

        /// Adds up four streams side by side, [`STREAM`] values apart, as [`multiply_rows`] reads four rows of a matrix.
        #[target_feature(enable = $features)]
        pub(super) fn sum_by_four(values: &[f32]) -> f32 {
            let blocks = values.chunks_exact(4 * STREAM);
            let rest = blocks.remainder();
            let mut sums = [zero(); SUMS];
            for block in blocks {
                for column in (0..STREAM).step_by(SUMS / 4 * LANES) {
                    for (index, sum) in sums.iter_mut().enumerate() {
                        let place = index % 4 * STREAM + column + index / 4 * LANES;
                        // SAFETY: the column's step divides `STREAM`, and the block has four of those.
                        *sum = add(*sum, unsafe { load(block.as_ptr().add(place)) });
                    }
                }
            }
            let whole = sums.iter().fold(zero(), |whole, sum| add(whole, *sum));
            total(whole) + sum::<false>(rest)
        }

        /// Values of a stream before its place is taken by one further on.
        const STREAM: usize = 4096;

        const _: () = assert!(STREAM % (SUMS / 4 * LANES) == 0, "a stream is whole steps");

        /// How far ahead of its use a value is asked for when all come one after the other.
        const SUM_AHEAD: usize = 64 * LINE;

        #[target_feature(enable = $features)]
        pub(super) fn multiply_add(rounds: u32, factor: f32, term: f32) -> f32 {
            let (factor, term) = (splat(factor), splat(term));
            let starts: [f32; CHAINS * LANES] = std::array::from_fn(|index| index as f32 / 64.0);
            let mut chains = [zero(); CHAINS];
            for (chain, start) in chains.iter_mut().zip(starts.as_chunks::<LANES>().0) {
                // SAFETY: the start has `LANES` values.
                *chain = unsafe { load(start.as_ptr()) };
            }
            for _ in 0..rounds {
                for chain in &mut chains {
                    *chain = fma(*chain, factor, term);
                }
            }
            total(chains.iter().fold(zero(), |whole, chain| add(whole, *chain)))
        }
    };
}
pub(super) use vector_kernels;
