//! The document: what an output says, before a writer decides how it looks.

use std::borrow::Cow;

use crate::clean;

/// The text of a missing figure; never zero.
pub const MISSING_TEXT: &str = "-";

/// Title of every output for people about a virtual GPU.
pub const VIRTUAL_TITLE: &str =
    "VIRTUAL GPU: predictions of a model, not measurements of NVIDIA hardware";

/// Columns of an output that is no terminal.
pub const PIPED_WIDTH: usize = 120;

/// Width and colour of terminal text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns of the output: no line is longer.
    pub width: usize,
    /// Whether words and headings have colours.
    pub color: bool,
}

impl Look {
    /// The look of a file or a pipe.
    pub const PIPED: Self = Self { width: PIPED_WIDTH, color: false };

    /// The look of a terminal with these columns; of a pipe without.
    pub fn new(width: Option<usize>, color: bool) -> Self {
        Self { width: width.unwrap_or(PIPED_WIDTH), color }
    }
}

impl Default for Look {
    fn default() -> Self {
        Self::PIPED
    }
}

#[derive(Debug, Clone, Default)]
pub struct Page {
    /// One line; without it the blocks begin.
    pub title: String,
    /// What follows, in order.
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
pub enum Block {
    Heading(String),
    /// A statement that a reader needs before any figure.
    Notice(String),
    /// A sentence or paragraph.
    Text(Line),
    Table(Table),
    /// Texts that cells refer to by number, from 1.
    Notes(Vec<String>),
    /// Names, each with its text.
    Facts(Vec<(Cow<'static, str>, String)>),
    /// A chart, which pages have and terminals lack.
    Chart(Chart),
    /// An empty line on a terminal.
    Gap,
}

#[derive(Debug, Clone, Default)]
pub struct Line {
    /// A word before the text, such as a verdict, with its colour.
    pub mark: Option<(String, Paint)>,
    pub text: String,
    /// Columns before its first line and before the others, on a terminal.
    pub margins: [usize; 2],
}

#[derive(Debug, Clone)]
pub struct Chart {
    pub caption: String,
    pub svg: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// That of the text.
    #[default]
    Plain,
    /// Green: as it should be.
    Good,
    /// Cyan: nearly so.
    Fair,
    /// Yellow: in part, or undecided.
    Weak,
    /// Red: not so.
    Bad,
    /// Grey: of no concern.
    Faint,
}

#[derive(Debug, Clone)]
pub struct Table {
    /// Its id; empty without links to it.
    pub id: &'static str,
    /// Its heading; empty without one.
    pub heading: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Whether lines are drawn around its cells.
    pub boxed: bool,
    /// Whether the first column repeats in many rows: on a terminal it becomes a line above them.
    pub grouped: bool,
    /// Whether terminals omit it.
    pub detail: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
}

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, which breaks between words.
    Text,
    /// Numbers: right-aligned, and never broken. Lines below the first are interval and unit.
    Number,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Lines of text, at least one.
    pub lines: Vec<String>,
    pub paint: Paint,
    /// Its class on a page; empty without one.
    pub class: &'static str,
    pub notes: Vec<usize>,
}

impl Page {
    /// A document without blocks.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new() }
    }

    pub fn push(&mut self, block: impl Into<Block>) {
        self.blocks.push(block.into());
    }

    /// Adds a statement that a reader needs before any figure.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.push(Block::Notice(text.into()));
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.push(Line::new(text));
    }

    /// The tables, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
    }
}

impl Line {
    /// A sentence that continues two columns to the right.
    pub fn new(text: impl Into<String>) -> Self {
        Self { mark: None, text: text.into(), margins: [0, 2] }
    }

    /// The same behind these margins of the first line and of the others.
    pub fn indented(self, first: usize, rest: usize) -> Self {
        Self { margins: [first, rest], ..self }
    }

    /// The same behind a word with a colour.
    pub fn marked(self, word: impl Into<String>, paint: Paint) -> Self {
        Self { mark: Some((word.into(), paint)), ..self }
    }
}

impl From<Line> for Block {
    fn from(line: Line) -> Self {
        Self::Text(line)
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl Table {
    /// A table with lines around its cells.
    pub fn new<C: Into<Column>>(
        id: &'static str,
        heading: &str,
        columns: impl IntoIterator<Item = C>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            id,
            heading: heading.to_owned(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
            boxed: true,
            grouped: false,
            detail: false,
        }
    }

    /// A table of texts without lines and heading, as most verbs print it.
    pub fn plain<C: Into<Column>, R: IntoIterator<Item = T>, T: Into<Cell>>(
        columns: impl IntoIterator<Item = C>,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect());
        Self { boxed: false, ..Self::new("", "", columns, rows) }
    }

    pub fn with_heading(self, heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..self }
    }

    /// The same, with its first column as lines above the rows.
    pub fn grouped(self) -> Self {
        Self { grouped: true, ..self }
    }

    /// The same with the columns of these names as numbers.
    pub fn numbers(mut self, names: &[&str]) -> Self {
        let of = self.columns.iter_mut().filter(|one| names.contains(&one.name.as_str()));
        of.for_each(|one| one.kind = Kind::Number);
        self
    }

    /// The same, omitted by terminals.
    pub fn in_detail(self) -> Self {
        Self { detail: true, ..self }
    }

    /// Whether a cell refers to a note.
    pub fn refers_to_notes(&self) -> bool {
        self.rows.iter().flatten().any(|cell| !cell.notes.is_empty())
    }
}

impl Column {
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Text }
    }

    pub fn number(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Number }
    }
}

impl From<&str> for Column {
    fn from(name: &str) -> Self {
        Self::text(name)
    }
}

impl From<String> for Column {
    fn from(name: String) -> Self {
        Self::text(name)
    }
}

impl Cell {
    /// One line of text; `-` if it is empty.
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::lines([text.as_ref()])
    }

    /// The non-empty lines; `-` if all are empty.
    pub fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Self {
        let mut lines: Vec<String> = lines.into_iter().map(|line| clean(line.as_ref())).collect();
        lines.retain(|line| !line.is_empty());
        if lines.is_empty() {
            lines.push(MISSING_TEXT.to_owned());
        }
        Self { lines, paint: Paint::Plain, class: "", notes: Vec::new() }
    }

    /// The same with a colour on terminals and a class on pages.
    pub fn painted(self, paint: Paint, class: &'static str) -> Self {
        Self { paint, class, ..self }
    }

    /// The same with the numbers of the notes that explain it.
    pub fn with_notes(self, notes: Vec<usize>) -> Self {
        Self { notes, ..self }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::lines(text.lines())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::lines(text.lines())
    }
}

/// Notes in the order of their first reference, each once.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

impl Notes {
    /// All of them, in order.
    pub fn into_texts(self) -> Vec<String> {
        self.0
    }

    pub fn number(&mut self, text: &str) -> usize {
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
