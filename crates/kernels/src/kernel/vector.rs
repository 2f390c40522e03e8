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
            let mut blocks = values.chunks_exact(ROWS * columns);
            let mut groups = y.chunks_exact_mut(ROWS);
            for (group, block) in groups.by_ref().zip(blocks.by_ref()) {
                group.copy_from_slice(&products::<ROWS, VECTORS, PREFETCH>(block, x));
            }
            let rows = blocks.remainder().chunks_exact(columns);
            for (result, row) in groups.into_remainder().iter_mut().zip(rows) {
                [*result] = products::<1, VECTORS, PREFETCH>(row, x);
            }
        }

        /// Multiplies the `ROWS` rows of `block` with `x`.
        #[inline]
        #[target_feature(enable = $features)]
        fn products<const ROWS: usize, const VECTORS: usize, const PREFETCH: bool>(
            block: &[f32],
            x: &[f32],
        ) -> [f32; ROWS] {
            let columns = x.len();
            assert_eq!(block.len(), ROWS * columns, "a block is whole rows");
            let step = VECTORS * LANES;
            let rows: [*const f32; ROWS] =
                std::array::from_fn(|row| block.as_ptr().wrapping_add(row * columns));
            let mut sums = [[zero(); VECTORS]; ROWS];
            let steps_end = columns - columns % step;
            let mut column = 0;
            // Near its end a row gives way to the one that follows the block's last.
            let near_end = steps_end.saturating_sub(AHEAD);
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
            for (index, (result, sum)) in results.iter_mut().zip(&sums).enumerate() {
                let whole = total(sum.iter().fold(zero(), |whole, sum| add(whole, *sum)));
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
