//! The page of messages of the book: every text of an error type and of a waiver has an entry, and
//! every entry a text.
//!
//! `...` of an entry stands for what the program puts in.

use std::collections::{BTreeMap, BTreeSet};

use crate::package::product_tokens;
use crate::scan::{Kind, reads};
use crate::tidy::Finding;
use crate::tree::Tree;

const PAGE: &str = "reports/book/src/troubleshooting.md";
/// Packages whose errors and waivers reach a user.
const ROOMS: &[&str] = &["harness/", "kernels/", "reports/", "workloads/"];
/// Texts of programs of others, of estimators without a user, and of tests.
const OTHERS: &[&str] = &["harness/virtual-gpu/", "harness/stats/", "reports/sample-records/"];
/// What stands before a text.
const OPENERS: &[&str] = &["# [ error (", "waived (", "waived ( format ! ("];
/// A text with fewer letters only passes another one on.
const LETTERS_MIN: usize = 8;

/// Messages without an entry, and entries without a message.
pub fn explained(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let is_room = |path: &str| ROOMS.iter().any(|room| path.starts_with(room));
    let is_other = |path: &str| OTHERS.iter().any(|other| path.starts_with(other));
    let mut messages = BTreeMap::new();
    for file in tree.rust().filter(|file| is_room(&file.path) && !is_other(&file.path)) {
        if file.path.contains("/tests/") || file.path.ends_with("tests.rs") {
            continue;
        }
        let scanned = product_tokens(&file.text);
        for at in 0..scanned.len() {
            for opener in OPENERS.iter().filter(|opener| reads(&scanned, at, opener)) {
                let text = scanned.get(at + opener.split(' ').count());
                if let Some(text) = text.filter(|text| text.kind == Kind::Literal) {
                    messages.insert(shown(text.text), (file.path.as_str(), text.line));
                }
            }
        }
    }
    messages
        .retain(|text, _| text.chars().filter(char::is_ascii_alphabetic).count() >= LETTERS_MIN);
    let mut found = Vec::new();
    let entries = entries(&page.text);
    let listed: BTreeSet<&str> = entries.iter().map(|(text, _)| *text).collect();
    for (text, (path, line)) in &messages {
        if !listed.contains(text.as_str()) {
            found.push(Finding::new(path, *line, format!("`{text}` has no entry in {PAGE}")));
        }
    }
    for (text, line) in entries.iter().filter(|(text, _)| !messages.contains_key(*text)) {
        found.push(Finding::new(PAGE, *line, format!("no message reads `{text}`")));
    }
    found
}

/// First cells of the tables that are one text, with their lines.
fn entries(page: &str) -> Vec<(&str, usize)> {
    let lines = page.lines().enumerate();
    let text = |line| str::strip_prefix(line, "| `").and_then(|rest| rest.split_once("` |"));
    lines.filter_map(|(index, line)| text(line).map(|(text, _)| (text, index + 1))).collect()
}

/// A literal as a user sees it, with `...` for what is put in.
fn shown(literal: &str) -> String {
    let mut text = String::new();
    let inside = literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let mut rest = inside.unwrap_or(literal).chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' if rest.peek() == Some(&'\n') => {
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
            }
            '\\' => text.extend(rest.next()),
            '{' => {
                while rest.next().is_some_and(|next| next != '}') {}
                if !text.ends_with("...") {
                    text.push_str("...");
                }
            }
            next => text.push(next),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_has_an_entry_and_every_entry_a_message() {
        let source = "#[error(\"nothing {a}{b} of \\\n   \\\"x\\\"\")] fn f() { \
                      waived(format!(\"{c} is not there\")); waived(\"none at all\") }";
        let all = "| `nothing ... of \"x\"` | a |\n| `... is not there` | a |\n\
                   | `none at all` | a |\n";
        for (page, wanted) in [
            (all.to_owned(), 0),
            (all.replace("none at all", "some at all"), 2),
            (all.replace("| `... is not there` | a |\n", ""), 1),
            (format!("{all}| `what nothing says` | a |\n"), 1),
        ] {
            let found = explained(&Tree::of(&[(PAGE, &page), ("harness/src/a.rs", source)]));
            assert_eq!(found.len(), wanted, "{page}: {found:?}");
        }
    }
}
