//! The document in Markdown with tables, for a pull request, a job summary or a wiki.

use crate::clean;
use crate::model::{Block, Cell, Kind, Page, Table};

pub(crate) fn page(page: &Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    if !page.title.is_empty() {
        parts.push(format!("# {}", escape(&page.title)));
    }
    for block in &page.blocks {
        match block {
            Block::Heading(text) => parts.push(format!("## {}", escape(text))),
            Block::Notice(text) => parts.push(format!("**{}**", escape(text))),
            Block::Text(line) => {
                let mark = line.mark.as_ref().map(|(word, _)| format!("**{}** ", escape(word)));
                parts.push(mark.unwrap_or_default() + &escape(&line.text));
            }
            Block::Table(of) => {
                if !of.heading.is_empty() {
                    parts.push(format!("## {}", escape(&of.heading)));
                }
                parts.push(table(of));
            }
            Block::Notes(notes) => {
                let items = notes.iter().zip(1..);
                let items = items.map(|(note, number)| format!("{number}. {}", escape(note)));
                parts.push("Notes:".to_owned());
                parts.push(items.collect::<Vec<_>>().join("\n"));
            }
            Block::Facts(facts) => {
                let items = facts.iter().map(|(name, text)| format!("- {name}: {}", escape(text)));
                parts.push(items.collect::<Vec<_>>().join("\n"));
            }
            Block::Chart(_) | Block::Gap => {}
        }
    }
    parts.join("\n\n") + "\n"
}

fn table(table: &Table) -> String {
    let columns: Vec<String> = table.columns.iter().map(|one| escape(&one.name)).collect();
    let rules = table.columns.iter().map(|one| match one.kind {
        Kind::Text => "---|",
        Kind::Number => "---:|",
    });
    let mut lines =
        vec![format!("| {} |", columns.join(" | ")), format!("|{}", rules.collect::<String>())];
    lines.extend(table.rows.iter().map(|row| {
        let cells = row.iter().zip(&table.columns).map(|(one, column)| cell(one, column.kind));
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    }));
    lines.join("\n")
}

fn cell(cell: &Cell, kind: Kind) -> String {
    let lines: Vec<String> = cell.lines.iter().map(|line| escape(line)).collect();
    let text = lines.join(if kind == Kind::Number { " " } else { "<br>" });
    if cell.notes.is_empty() {
        return text;
    }
    let notes: Vec<String> = cell.notes.iter().map(usize::to_string).collect();
    format!("{text} (note {})", notes.join(", "))
}

pub fn escape(text: &str) -> String {
    let text = clean(text);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}
