//! The tables that macOS answers with, as plain data.
//!
//! Invariant: a value of another type than asked for counts as absent.

use std::collections::BTreeMap;

/// A value in a table of macOS.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Number(i64),
    Flag(bool),
    Text(String),
    Table(Table),
}

/// Values by their keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table(pub(crate) BTreeMap<String, Value>);

impl Table {
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        match self.0.get(key)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.0.get(key)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn table(&self, key: &str) -> Option<&Self> {
        match self.0.get(key)? {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }
}
