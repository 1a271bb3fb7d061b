//! One renderer: a document of headings, sentences, tables and charts, and its writers.
//!
//! A verb builds a [`Page`] and hands it to [`Page::text`], [`Page::markdown`], [`Page::html`] or
//! [`Page::csv`]. The [`Look`] of the output decides width and colour; nothing else does.

mod data;
pub mod fit;
pub mod html;
mod markdown;
mod model;
mod terminal;
#[cfg(test)]
mod tests;
mod words;

pub use data::{csv, json, junit};
pub use markdown::escape as markdown_escape;
pub use model::{
    Block, Cell, Chart, Column, Kind, Line, Look, MISSING_TEXT, Notes, PIPED_WIDTH, Page, Paint,
    Table, VIRTUAL_TITLE,
};
pub use terminal::{bold, painted, table as table_text, trimmed};
pub use words::{clean, list};

impl Page {
    /// The document for a terminal.
    #[must_use]
    pub fn text(&self, look: Look) -> String {
        terminal::page(self, look)
    }

    /// The document in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// The document as one HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The tables as CSV, one after the other, each with its header.
    #[must_use]
    pub fn csv(&self) -> String {
        csv(self.tables())
    }
}

impl Table {
    /// The table alone, for a terminal.
    #[must_use]
    pub fn text(&self, look: Look) -> String {
        terminal::table(self, look) + "\n"
    }
}
