//! The comparison as Markdown, for a pull request or a job summary.

use super::html::escape_char;
use super::words::Document;

/// The column that a narrow page leaves out.
const LEFT_OUT: &str = "sessions";

pub(super) fn diff(document: &Document) -> String {
    let mut text = format!("## {}\n", escape(&document.title));
    for notice in &document.notices {
        text += &format!("\n- {}", escape(notice));
    }
    text += "\n";
    for (at, row) in document.rows.iter().enumerate() {
        let columns = row.columns().into_iter().filter(|(name, _)| *name != LEFT_OUT);
        let (names, cells): (Vec<_>, Vec<_>) =
            columns.map(|(name, cell)| (name, escape(cell))).unzip();
        if at == 0 {
            let rule = "---|".repeat(names.len());
            text += &format!("\n| {} |\n|{rule}\n", names.join(" | "));
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    for line in document.doubts.iter().chain(&document.summary) {
        text += &format!("\n{}\n", escape(line));
    }
    text
}

/// The text with Markdown markup escaped.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', c]),
            c => escape_char(c, &mut escaped),
        }
    }
    escaped
}
