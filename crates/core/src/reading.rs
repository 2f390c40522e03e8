//! A value that a machine may not offer.
//!
//! Invariant: absence is data with a reason, never `0`, `NaN` or a silent substitute.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reading from the machine, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The value as read.
    Available(T),
    /// Why the value cannot be read here.
    Unavailable(String),
}

impl<T> Reading<T> {
    /// Marks a reading as absent for `reason`.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into())
    }

    /// Wraps an optional value, with the reason used when there is none.
    pub fn from_option(value: Option<T>, reason: &str) -> Self {
        value.map_or_else(|| Self::unavailable(reason), Self::Available)
    }

    /// The value, where there is one.
    pub fn available(&self) -> Option<&T> {
        match self {
            Self::Available(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// Applies `f`, which may find a reason of its own, to an available value.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Self::Available(value) => f(value),
            Self::Unavailable(reason) => Reading::Unavailable(reason),
        }
    }

    /// Pairs two available values; the reason of the first that is missing counts.
    pub fn zip<U>(self, other: Reading<U>) -> Reading<(T, U)> {
        self.and_then(|value| other.map(|other| (value, other)))
    }

    /// Applies `f` to an available value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Available(value) => Reading::Available(f(value)),
            Self::Unavailable(reason) => Reading::Unavailable(reason),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Reading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Available(value) => value.fmt(f),
            Self::Unavailable(reason) => write!(f, "not available: {reason}"),
        }
    }
}
