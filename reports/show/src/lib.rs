//! One renderer: a document of headings, sentences, tables and charts, and its writers.
//!
//! A verb builds a [`Page`] and hands it to [`Page::text`], [`Page::markdown`], [`Page::html`] or
//! [`Page::csv`]. The [`Look`] of the output decides width and colour; nothing else does.

mod data;
pub mod fit;
pub mod html;
mod labels;
mod markdown;
mod model;
mod terminal;
#[cfg(test)]
mod tests;

use gpubench_record::acts;

pub use data::{csv, inert, json, junit};
pub use fit::wrap_words;
pub use labels::Labels;
pub use markdown::escape as markdown_escape;
pub use model::{
    Block, Cell, Chart, Column, Kind, Line, Look, MISSING_TEXT, Notes, PIPED_WIDTH, Page, Paint,
    Table, VIRTUAL_TITLE,
};
pub use terminal::{bold, painted, table as table_text, trimmed};

/// A bound in so many decimals, rounded away from its figure (`sign` is 1 for an upper one): a
/// printed interval contains the computed one.
pub fn outwards(bound: f64, sign: f64, decimals: usize) -> String {
    let near = format!("{bound:.decimals$}");
    let printed: f64 = near.parse().unwrap_or(bound);
    if (bound - printed) * sign > 0.0 {
        let step = 10_f64.powi(-i32::try_from(decimals).unwrap_or(0));
        return format!("{:.decimals$}", printed + sign * step);
    }
    near
}

impl Page {
    pub fn text(&self, look: Look) -> String {
        terminal::page(self, look)
    }

    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// The document as one HTML page.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The tables as CSV, one after the other, each with its header.
    pub fn csv(&self) -> String {
        csv(self.tables())
    }
}

impl Table {
    /// The table alone, for a terminal.
    pub fn text(&self, look: Look) -> String {
        terminal::table(self, look) + "\n"
    }
}

/// Replaces characters that act, so that text of a record cannot control a terminal or hide.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect()
}

/// `a`, `a and b`, `a, b and c`; with `or` as the last word likewise.
pub fn list<T: AsRef<str>>(items: &[T], last_word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [first @ .., last] => {
            let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
            format!("{} {last_word} {}", first.join(", "), last.as_ref())
        }
    }
}
