//! Tables for people: columns that line up, whatever the width of the characters.

use unicode_width::UnicodeWidthStr;

use crate::output::harmless;

/// A table with a heading.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// One cell: a text, and how it is painted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

/// The few colours of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Paint {
    /// As the terminal has it.
    #[default]
    Plain,
    /// Well.
    Good,
    /// Under way, or waiting for somebody.
    Waiting,
    /// Failed.
    Bad,
    /// Of less weight.
    Faint,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\u{1b}[32m",
            Self::Waiting => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
            Self::Faint => "\u{1b}[2m",
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    /// The text in one line, harmless for a terminal.
    fn from(text: T) -> Self {
        let text = harmless(text.as_ref()).split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text, paint: Paint::Plain }
    }
}

impl Cell {
    /// A painted text.
    pub(crate) fn painted(text: &str, paint: Paint) -> Self {
        Self { paint, ..Self::from(text) }
    }

    /// The text, shortened to `width` columns.
    pub(crate) fn short(text: &str, width: usize) -> Self {
        let mut cell = Self::from(text);
        if cell.text.width() > width {
            while cell.text.width() >= width && cell.text.pop().is_some() {}
            cell.text.push('…');
        }
        cell
    }
}

impl Table {
    /// An empty table.
    pub(crate) fn new(heading: impl Into<Vec<&'static str>>) -> Self {
        Self { heading: heading.into(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<Cell>>) {
        self.rows.push(cells.into());
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The table as text, each row one line. Columns without a single text are left out.
    pub(crate) fn text(&self, color: bool) -> String {
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.width());
            cells.max().filter(|width| *width > 0)
        };
        let mut columns = Vec::new();
        for (column, heading) in self.heading.iter().enumerate() {
            if let Some(width) = width_of(column) {
                columns.push((column, width.max(heading.width())));
            }
        }
        let heading: Vec<Cell> = self.heading.iter().map(|text| Cell::painted(text, Paint::Faint)).collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            write_row(&mut text, row, &columns, color);
        }
        text
    }
}

fn write_row(text: &mut String, row: &[Cell], columns: &[(usize, usize)], color: bool) {
    let mut gap = 0;
    for &(column, width) in columns {
        let Some(cell) = row.get(column) else { break };
        if !cell.text.is_empty() {
            text.extend(std::iter::repeat_n(' ', gap));
            gap = 0;
            if color && cell.paint != Paint::Plain {
                text.push_str(cell.paint.code());
                text.push_str(&cell.text);
                text.push_str("\u{1b}[0m");
            } else {
                text.push_str(&cell.text);
            }
        }
        gap += width - cell.text.width().min(width) + 2;
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = Table::new(["ID", "NONE", "STATE", "WHY"]);
        table.row(["日本".into(), "".into(), Cell::painted("ready", Paint::Good), "".into()]);
        table.row(["long-one".into(), "".into(), "failed".into(), "refused\n\u{1b}[31mnow".into()]);
        assert_eq!(table.text(false), "ID        STATE   WHY\n日本      ready\nlong-one  failed  refused [31mnow\n");
        assert!(table.text(true).contains("\u{1b}[32mready\u{1b}[0m\n"));
    }

    #[test]
    fn long_texts_are_cut_at_their_width() {
        assert_eq!(Cell::short("abcdef", 4).text, "abc…");
        assert_eq!(Cell::short("abcd", 4).text, "abcd");
    }
}
