//! How domain values stand in columns: row ids, JSON documents, names of variants, seeds.
//!
//! Invariant: nothing is written that could not be read back.

use std::fmt;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::StrDeserializer;

macro_rules! row_id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                value.as_i64().map(Self)
            }
        }
    )*};
}

row_id! {
    /// A host as it was at one time.
    HostId,
    /// A target with one version of its provider.
    TargetId,
    /// A campaign.
    CampaignId,
    /// A trial.
    TrialId,
    /// A decision.
    DecisionId,
    /// A verification of a decision.
    VerificationId,
    /// A file that was imported.
    OriginId,
}

/// A JSON document of a type.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

/// A value that cannot be kept, and why.
#[derive(Debug, thiserror::Error)]
#[error("a value cannot be kept as JSON")]
struct Unstorable(#[source] serde_json::Error);

impl<T: Serialize + DeserializeOwned> ToSql for Json<&T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let failure = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(Unstorable(error)));
        let text = serde_json::to_string(self.0).map_err(failure)?;
        // JSON turns infinity and NaN into null without a word, and a number cannot be read from that.
        serde_json::from_str::<T>(&text).map_err(failure)?;
        Ok(ToSqlOutput::Owned(Value::Text(text)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// The stable name of a variant.
#[derive(Debug)]
pub(crate) struct Name<T>(pub(crate) T);

impl<T: Serialize> ToSql for Name<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let failure = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(Unstorable(error)));
        match serde_json::to_value(&self.0).map_err(failure)? {
            serde_json::Value::String(name) => Ok(ToSqlOutput::Owned(Value::Text(name))),
            other => Err(rusqlite::Error::ToSqlConversionFailure(format!("`{other}` is not a name").into())),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Name<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let name = StrDeserializer::<serde::de::value::Error>::new(value.as_str()?);
        T::deserialize(name).map(Self).map_err(FromSqlError::other)
    }
}

/// 64 bits, stored as the signed number with the same bits.
#[derive(Debug)]
pub(crate) struct Seed(pub(crate) u64);

impl ToSql for Seed {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for Seed {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(|signed| Self(signed.cast_unsigned()))
    }
}

#[cfg(test)]
mod tests;
