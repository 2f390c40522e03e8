//! Tables for people.
//!
//! Invariant: nothing is ever cut: on a terminal long cells wrap to its width, elsewhere each row is one line.

use std::fmt::Display;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::visible::visible;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Listing(Table);

/// Starts a table with these columns; names that begin with `#` are aligned to the right.
pub(crate) fn table(columns: &[&str]) -> Listing {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|name| name.trim_start_matches('#')));
    for (index, name) in columns.iter().enumerate() {
        if name.starts_with('#')
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Listing(table)
}

impl Listing {
    /// Adds a row.
    pub(crate) fn add_row<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells.into_iter().map(|cell| visible(&cell.to_string()).into_owned()));
    }

    /// The table as text, for a terminal of `width` columns or for anything else.
    pub(super) fn text(mut self, width: Option<u16>) -> String {
        if let Some(width) = width {
            self.0.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        self.0.to_string()
    }
}

/// The text of an optional value; absence shows as a dash.
pub(crate) fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}
