//! Which vector instructions this processor has, of those that there are kernels for.
//!
//! Invariant: a value other than `Portable` is made by detection alone, so that having one is proof enough to call its
//! kernels.

use std::fmt;

/// Vector instructions that kernels are written for, proven to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstructionSet(Set);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Set {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl InstructionSet {
    /// What every processor has.
    pub const PORTABLE: Self = Self(Set::Portable);

    /// Finds all sets of this processor, the widest first; the last is always portable.
    pub fn detect_all() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                found.push(Self(Set::Avx512));
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                found.push(Self(Set::Avx2));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            found.push(Self(Set::Neon));
        }
        found.push(Self::PORTABLE);
        found
    }

    /// Finds the widest set of this processor.
    pub fn detect() -> Self {
        Self::detect_all().first().copied().unwrap_or(Self::PORTABLE)
    }

    /// The name, as it stands in tables and files.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "neon",
        }
    }

    pub(crate) fn set(self) -> Set {
        self.0
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
