//! Kernels of known cost: the matrix-vector product, reading memory, and multiply-adds in registers.
//!
//! Invariant: on every instruction set a kernel computes the same sums; they differ by the order of additions alone,
//! and stay within the bound that is stated for each.
//!
//! Reading order: `portable` (what each kernel does), `vector` (the same for any vectors), then one file for each
//! instruction set.

#![expect(unsafe_code, reason = "kernels of an instruction set may run only where it was detected")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;

use crate::instruction_set::{InstructionSet, Set};

/// Chains of dependent multiply-adds in [`Kernels::multiply_add`]: more than latency times units of any core.
const CHAINS: usize = 12;

/// Values, of half a page of 4 KiB, that the vector of a product should lie apart from where a row begins in its page.
///
/// First-level caches find a line by its place in the page, and read two lines of one place more slowly while others
/// come in.
pub const APART: usize = 512;

/// How a kernel walks through memory. Which is best depends on where the data lie and on the processor, and can be
/// measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Prefetch {
    /// One row at a time, nothing asked for ahead: the vector stays in the first-level cache beside a row, which is
    /// best for a matrix in the second-level cache.
    Near,
    /// Four rows at a time, so that each element of the vector is loaded once for all of them.
    Off,
    /// The same, and each row's values are asked for 1 KiB before they are needed.
    Ahead,
}

impl Prefetch {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Near, Self::Off, Self::Ahead];

    /// Chooses for `bytes` that one core reads again and again, and a second-level cache of `l2_bytes` of its own.
    pub fn for_size(bytes: usize, l2_bytes: usize) -> Self {
        if bytes <= l2_bytes { Self::Near } else { Self::Off }
    }

    /// The name, as it stands in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Off => "off",
            Self::Ahead => "ahead",
        }
    }
}

/// The kernels for one instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kernels {
    instructions: InstructionSet,
}

/// What a run of multiply-adds did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MultiplyAdds {
    /// Additions and multiplications.
    pub flops: u64,
    /// A sum over all results, so that they are needed.
    pub sum: f32,
}

/// Calls the kernel of the set that was detected.
macro_rules! on_set {
    ($kernels:expr, $kernel:ident $(::<$($constant:literal),*>)? ($($argument:expr),*)) => {
        match $kernels.instructions.set() {
            Set::Portable => portable::$kernel$(::<$($constant),*>)?($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the value exists, so the instructions were detected.
            Set::Avx2 => unsafe { avx2::$kernel$(::<$($constant),*>)?($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Set::Avx512 => unsafe { avx512::$kernel$(::<$($constant),*>)?($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Set::Neon => unsafe { neon::$kernel$(::<$($constant),*>)?($($argument),*) },
        }
    };
}

impl Kernels {
    /// Returns the kernels for `instructions`.
    pub fn new(instructions: InstructionSet) -> Self {
        Self { instructions }
    }

    /// Returns the kernels for the widest instructions of this processor.
    pub fn detect() -> Self {
        Self::new(InstructionSet::detect())
    }

    /// Which instructions they use.
    pub fn instructions(self) -> InstructionSet {
        self.instructions
    }

    /// Computes `y = A·x` for the rows `A` that `values` holds one after the other.
    ///
    /// `values` are `y.len()` rows of `x.len()` elements. For a matrix in the
    /// second-level cache, `x` is best placed at a multiple of 64 bytes that lies [`APART`] from a row's place in its
    /// page: a load that touches two cache lines, or the line of both at one place of a page, takes up to a quarter
    /// longer. For finite values without overflow, each result differs
    /// from the exact one by at most `γₙ · Σ|aⱼ||xⱼ|` with `n = x.len()`, `γₙ = n·u ÷ (1 − n·u)`, `u = 2⁻²⁴`, whatever
    /// the order of additions, besides `n` units of the smallest number (N. J. Higham, Accuracy and Stability of
    /// Numerical Algorithms, 2nd ed., section 3.1). Without columns, `y` is zero.
    ///
    /// # Errors
    /// When the lengths do not fit together; `y` is then as it was.
    pub fn multiply(
        self,
        values: &[f32],
        x: &[f32],
        y: &mut [f32],
        prefetch: Prefetch,
    ) -> Result<(), ShapeError> {
        check_shape(values.len(), y.len(), x.len())?;
        if x.is_empty() {
            y.fill(0.0);
            return Ok(());
        }
        match prefetch {
            // Eight sums are under way in each case, as many as hide the latency of a multiply-add.
            Prefetch::Near => on_set!(self, multiply_rows::<1, 8, false>(values, x, y)),
            Prefetch::Off => on_set!(self, multiply_rows::<4, 2, false>(values, x, y)),
            Prefetch::Ahead => on_set!(self, multiply_rows::<4, 2, true>(values, x, y)),
        }
        Ok(())
    }

    /// Adds up `values`, at the speed at which they can be read.
    ///
    /// [`Near`](Prefetch::Near) reads one after the other, [`Off`](Prefetch::Off) four streams side by side, and
    /// [`Ahead`](Prefetch::Ahead) one after the other, each asked for before it is needed.
    ///
    /// The result differs from the exact sum by at most `γₙ · Σ|vⱼ|`, with `n` the number of values and `γₙ` as in
    /// [`multiply`](Self::multiply). No value gives 0. As a measure of reading: J. D. `McCalpin`, STREAM, and its kind
    /// that loads only.
    pub fn sum(self, values: &[f32], prefetch: Prefetch) -> f32 {
        match prefetch {
            Prefetch::Near => on_set!(self, sum::<false>(values)),
            Prefetch::Off => on_set!(self, sum_by_four(values)),
            Prefetch::Ahead => on_set!(self, sum::<true>(values)),
        }
    }

    /// Runs `rounds` multiply-adds in each of 12 chains of vectors that stay in registers.
    ///
    /// Lane `j` of `n` lanes in chain `i` starts at `(i·n + j) ÷ 64`, and each round makes `½·v + ¾` of it. The time of
    /// many rounds gives the peak throughput of one core: chains are independent, and more than the multiply-adds
    /// that a core can have under way.
    pub fn multiply_add(self, rounds: u32) -> MultiplyAdds {
        // Not known to the compiler, which would otherwise foresee the result.
        let (factor, term) = std::hint::black_box((0.5, 0.75));
        let sum = on_set!(self, multiply_add(rounds, factor, term));
        let flops = 2 * u64::from(rounds) * (CHAINS * self.lanes()) as u64;
        MultiplyAdds { flops, sum }
    }

    fn lanes(self) -> usize {
        match self.instructions.set() {
            Set::Portable => portable::LANES,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => avx512::LANES,
            #[cfg(target_arch = "aarch64")]
            Set::Neon => neon::LANES,
        }
    }
}

pub(crate) fn check_shape(values: usize, rows: usize, columns: usize) -> Result<(), ShapeError> {
    if rows.checked_mul(columns) == Some(values) { Ok(()) } else { Err(ShapeError { values, rows, columns }) }
}

/// Lengths that do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{values} values are no matrix of {rows} rows and {columns} columns; give one value for each place")]
pub struct ShapeError {
    /// Values of the matrix.
    pub values: usize,
    /// Rows, which is the length of the result.
    pub rows: usize,
    /// Columns, which is the length of the vector.
    pub columns: usize,
}
