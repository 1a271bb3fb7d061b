//! Tables, their cells and their notes.

use gpubench_record::{Estimate, OutcomeKind};

use super::figures::MISSING_TEXT;
pub(super) use crate::text::clean;

/// One table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its id.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) heading: String,
    /// The headings of its columns.
    pub(super) columns: Vec<String>,
    /// Its rows, each with a cell for every column.
    pub(super) rows: Vec<Vec<Cell>>,
    /// Whether the terminal format omits it.
    pub(super) detail: bool,
    /// Whether it is the last table with notes: the notes follow it.
    pub(super) last_with_notes: bool,
}

impl Table {
    /// A table of the given rows.
    pub(super) fn new(
        id: &'static str,
        heading: &str,
        columns: Vec<String>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let heading = heading.to_owned();
        let rows = rows.into_iter().collect();
        Self { id, heading, columns, rows, detail: false, last_with_notes: false }
    }

    /// The same table, omitted by the terminal format.
    pub(super) fn in_detail(self) -> Self {
        Self { detail: true, ..self }
    }

    pub(super) fn refers_to_notes(&self) -> bool {
        let mut cells = self.rows.iter().flatten();
        cells.any(|cell| matches!(cell, Cell::Outcome { notes, .. } if !notes.is_empty()))
    }
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Lines of text.
    Text(Vec<String>),
    /// A level and its word.
    Level(Vec<String>),
    /// A figure, with its unit if the heading does not name it.
    Figure {
        /// The figure, if there is one.
        estimate: Option<Estimate>,
        /// The unit to print beside it.
        unit: Option<String>,
    },
    /// An outcome with the notes that explain it.
    Outcome {
        /// The outcome.
        kind: OutcomeKind,
        /// Numbers of its notes.
        notes: Vec<usize>,
    },
}

impl Cell {
    /// One line of text; `-` if it is empty.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self::lines([text.as_ref()])
    }

    /// The non-empty lines; `-` if all are empty.
    pub(super) fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Self {
        Self::Text(filled(lines))
    }

    /// A level and its word; `-` without both.
    pub(super) fn level(level: Option<&str>, word: Option<&str>) -> Self {
        Self::Level(filled([level, word].into_iter().flatten()))
    }
}

fn filled<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().map(|line| clean(line.as_ref())).collect();
    lines.retain(|line| !line.is_empty());
    if lines.is_empty() {
        lines.push(MISSING_TEXT.to_owned());
    }
    lines
}

/// Notes in the order of their first reference, each once.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// All of them, in order.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.0
    }

    /// The number of a note.
    pub(super) fn number(&mut self, text: &str) -> usize {
        let text = clean(text);
        match self.0.iter().position(|known| *known == text) {
            Some(index) => index + 1,
            None => {
                self.0.push(text);
                self.0.len()
            }
        }
    }
}
