//! A view that is drawn again and again in the same place of a terminal.
//!
//! Invariant: a frame never scrolls: what is beyond the terminal's height is counted in the last line.

use std::io;

use console::Term;

use super::listing::{Listing, VIEW, broken};
use super::visible::visible;

/// A terminal on standard output that holds one frame.
#[derive(Debug)]
pub(crate) struct Screen {
    term: Term,
    size: (u16, u16),
}

impl Screen {
    /// The terminal on standard output; `None` where that is none.
    pub(crate) fn on_standard_output() -> Option<Self> {
        let term = Term::stdout();
        // A size of nothing makes the first frame clear the screen.
        term.is_term().then_some(Self { term, size: (0, 0) })
    }

    /// Draws a frame over the last one: a line, the table, then lines, which wrap.
    pub(crate) fn draw(&mut self, title: &str, listing: &Listing, below: &[String]) -> io::Result<()> {
        let size = self.term.size();
        let (height, width) = (usize::from(size.0), size.1);
        let text = |line: &str| broken(&visible(line), width, VIEW);
        let lines: Vec<String> = text(title)
            .into_iter()
            .chain(listing.view(width))
            .chain(below.iter().flat_map(|line| text(line)))
            .collect();
        if self.size == size {
            self.term.move_cursor_to(0, 0)?;
        } else {
            self.term.clear_screen()?;
            self.size = size;
        }
        for line in fitting(lines, height.saturating_sub(1)) {
            self.term.clear_line()?;
            // A line that the terminal wraps would shift all others.
            self.term.write_line(&console::truncate_str(&line, usize::from(width), "…"))?;
        }
        self.term.clear_to_end_of_screen()
    }
}

/// The lines that fit into `height`, the last of which counts those that do not.
fn fitting(mut lines: Vec<String>, height: usize) -> Vec<String> {
    let height = height.max(2);
    if lines.len() > height {
        let hidden = lines.len() - height + 1;
        lines.truncate(height - 1);
        // The number comes first, so that a narrow terminal shows it.
        lines.push(format!("… {hidden} lines more; `siliconroute top --once` shows all"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let lines = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
        assert_eq!(fitting(lines(3), 3), lines(3));
        let cut = fitting(lines(10), 4);
        assert_eq!(cut.len(), 4);
        assert_eq!((cut[2].as_str(), cut[3].split_whitespace().nth(1)), ("2", Some("7")));
        assert_eq!(fitting(lines(10), 0).len(), 2);
    }
}
