//! Tables for people.
//!
//! Invariant: nothing is ever cut: on a terminal long cells wrap to its width, and where that is too little for
//! the columns each row becomes a list of its cells; elsewhere each row is one line.

use std::fmt::Display;

use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::visible::visible;

/// Characters that a column needs so that its words can still be read, and those between two columns.
const LEAST_COLUMN: usize = 5;
const BETWEEN_COLUMNS: usize = 3;

/// Characters that a grid of any number of columns needs: in fewer, names of sensors and targets fall to pieces.
const NARROWEST_GRID: usize = 28;
/// Words up to how many characters are not cut, tried in this order; what is longer, such as a path or a digest, may be.
const KEPT_WHOLE: [usize; 6] = [40, 30, 24, 18, 12, LEAST_COLUMN];

/// A terminal narrower than [`WIDE`] rather shows a list than words of this length in pieces.
const LONG_WORD: usize = 18;

/// Columns of a terminal that is wide enough for a table of many columns.
const WIDE: u16 = 100;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Listing {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    name: String,
    alignment: CellAlignment,
}

/// Starts a table with these columns; names that begin with `#` are aligned to the right.
pub(crate) fn table(columns: &[&str]) -> Listing {
    let column = |name: &&str| match name.strip_prefix('#') {
        Some(name) => Column { name: name.to_owned(), alignment: CellAlignment::Right },
        None => Column { name: (*name).to_owned(), alignment: CellAlignment::Left },
    };
    Listing { columns: columns.iter().map(column).collect(), rows: Vec::new() }
}

impl Listing {
    /// Adds a row.
    pub(crate) fn add_row<T: Display>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| visible(&cell.to_string()).into_owned()).collect());
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as text, for a terminal of `width` columns or for anything else.
    pub(super) fn text(&self, width: Option<u16>) -> String {
        let Some(width) = width else { return self.grid(None, &[]) };
        if usize::from(width) < NARROWEST_GRID {
            return self.records(width);
        }
        let fitting = KEPT_WHOLE.into_iter().find_map(|longest| {
            let least = self.least_widths(longest.min(usize::from(width) / 2));
            let all: usize = least.iter().map(|least| least + BETWEEN_COLUMNS).sum();
            (all < usize::from(width)).then_some((longest, least))
        });
        match fitting {
            Some((longest, least)) if longest >= LONG_WORD || width >= WIDE => self.grid(Some(width), &least),
            _ => self.records(width),
        }
    }

    /// The table as lines for a view of `width` columns: a grid, or where that is too narrow each row as its cells, which
    /// are set apart by colons and wrap.
    pub(super) fn view(&self, width: u16) -> Vec<String> {
        if usize::from(width) >= NARROWEST_GRID {
            return self.text(Some(width)).lines().map(str::to_owned).collect();
        }
        self.rows.iter().flat_map(|cells| broken(&cells.join(": "), width, VIEW)).collect()
    }

    /// The characters that each column needs so that no word of up to `longest` characters is cut.
    fn least_widths(&self, longest: usize) -> Vec<usize> {
        let longest_in = |text: &str| {
            let words = text.split_whitespace().map(|word| word.chars().count());
            words.filter(|&count| count <= longest).max().unwrap_or(0)
        };
        let of_column = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(String::as_str);
            let words = cells.chain([column.name.as_str()]).map(longest_in);
            words.max().unwrap_or(0).max(LEAST_COLUMN)
        };
        self.columns.iter().enumerate().map(of_column).collect()
    }

    /// The table as HTML.
    pub(crate) fn html(&self) -> String {
        let class = |column: &Column| match column.alignment {
            CellAlignment::Right => " class=\"number\"",
            _ => "",
        };
        let row = |tag: &str, cells: &mut dyn Iterator<Item = &String>| {
            let cells = self
                .columns
                .iter()
                .zip(cells)
                .map(|(column, cell)| format!("<{tag}{}>{}</{tag}>", class(column), escape_html(cell)));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let head = row("th", &mut self.columns.iter().map(|column| &column.name));
        let body: String = self.rows.iter().map(|cells| row("td", &mut cells.iter())).collect();
        format!("<table>\n{head}{body}</table>\n")
    }

    fn grid(&self, width: Option<u16>, least: &[usize]) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(self.columns.iter().map(|column| &column.name));
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(shown) = table.column_mut(index) {
                shown.set_cell_alignment(column.alignment);
            }
        }
        for row in &self.rows {
            table.add_row(row);
        }
        fit(&mut table, width);
        for (index, least) in least.iter().enumerate() {
            if let Some(shown) = table.column_mut(index) {
                // With a space on either side.
                let least = u16::try_from(least + 2).unwrap_or(u16::MAX);
                shown.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        table.to_string()
    }

    /// Each row as lines of a column's name and its cell.
    fn records(&self, width: u16) -> String {
        let record = |row: &Vec<String>| {
            let mut table = Table::new();
            table.load_style(NOTHING);
            for (column, cell) in self.columns.iter().zip(row) {
                table.add_row([&column.name, cell]);
            }
            fit(&mut table, Some(width));
            table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
        };
        self.rows.iter().map(record).collect::<Vec<_>>().join("\n\n")
    }
}

/// What is done with the lines of a text that is too long for one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breaking {
    /// What every line but the first begins with.
    pub(super) indent: &'static str,
    /// Whether a word that no line holds is cut; else it stands in a line of its own, longer than the others.
    pub(super) cuts_words: bool,
}

/// Prose, whose paths and commands stay whole.
pub(super) const PARAGRAPH: Breaking = Breaking { indent: "", cuts_words: false };

/// A line of a view, of which nothing may lie beyond the screen.
pub(super) const VIEW: Breaking = Breaking { indent: " ", cuts_words: true };

/// `text` in lines of `width` columns, broken between its words.
pub(super) fn broken(text: &str, width: u16, breaking: Breaking) -> Vec<String> {
    let (mut lines, room) = (vec![String::new()], usize::from(width).max(2));
    for word in text.split_whitespace() {
        let mut word = word;
        loop {
            let line = lines.last_mut().expect("there is always a line");
            let begun = !line.trim().is_empty();
            let used = console::measure_text_width(line) + usize::from(begun);
            if used + console::measure_text_width(word) <= room || (!begun && !breaking.cuts_words) {
                if begun {
                    line.push(' ');
                }
                line.push_str(word);
                break;
            }
            if !begun {
                let mut end = 0;
                for (at, character) in word.char_indices() {
                    let next = at + character.len_utf8();
                    if used + console::measure_text_width(&word[..next]) > room && at > 0 {
                        break;
                    }
                    end = next;
                }
                line.push_str(&word[..end]);
                word = &word[end..];
                if word.is_empty() {
                    break;
                }
            }
            lines.push(breaking.indent.to_owned());
        }
    }
    lines
}

/// Text as it stands between tags.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn fit(table: &mut Table, width: Option<u16>) {
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
}

/// The text of an optional value; absence shows as a dash.
pub(crate) fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}
