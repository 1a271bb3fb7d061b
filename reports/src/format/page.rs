//! A page of tables that are no report of a record, such as the claims ledger: as text, Markdown or
//! CSV.

use std::io::Write;

use super::layout::wrap_words;
use super::parts::{Cell, Table, clean};
use super::rfc4180::WriterBuilder;
use super::{RenderError, RenderOptions, draw, markdown};

/// A page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// One line.
    pub title: String,
    /// Statements before the tables.
    pub notices: Vec<String>,
    /// The tables.
    pub tables: Vec<PageTable>,
}

/// A table of text.
#[derive(Debug, Clone)]
pub struct PageTable {
    /// Its heading.
    pub heading: String,
    /// The headings of its columns.
    pub columns: Vec<String>,
    /// Its rows, each with a text for every column.
    pub rows: Vec<Vec<String>>,
}

impl PageTable {
    fn drawn(&self) -> Table {
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        Table::new("page", &self.heading, self.columns.clone(), rows)
    }
}

impl Page {
    /// The page for a terminal.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn text(&self, options: &RenderOptions, out: &mut dyn Write) -> Result<(), RenderError> {
        let width = options.width.unwrap_or(usize::MAX);
        for line in std::iter::once(&self.title).chain(&self.notices) {
            for line in wrap_words(&clean(line), width, ["", ""]) {
                writeln!(out, "{line}")?;
            }
        }
        for table in &self.tables {
            writeln!(out)?;
            for line in wrap_words(&clean(&table.heading), width, ["", ""]) {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "{}", draw::draw(&table.drawn(), options))?;
        }
        Ok(())
    }

    /// The page in Markdown.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn markdown(&self, out: &mut dyn Write) -> Result<(), RenderError> {
        writeln!(out, "# {}", markdown::escape(&self.title))?;
        for notice in &self.notices {
            writeln!(out, "\n**{}**", markdown::escape(notice))?;
        }
        for table in &self.tables {
            markdown::write_table(out, &table.drawn())?;
        }
        Ok(())
    }

    /// The tables as CSV, one after the other, each with its header.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn csv(&self, out: &mut dyn Write) -> Result<(), RenderError> {
        let mut lines = WriterBuilder::new()
            .terminator(super::rfc4180::Terminator::CRLF)
            .flexible(true)
            .from_writer(out);
        for table in &self.tables {
            lines.write_record(&table.columns)?;
            for row in &table.rows {
                lines.write_record(row)?;
            }
        }
        Ok(lines.flush()?)
    }
}
