//! Lists of exceptions: one `key value` per line, `#` for comments.

use crate::tidy::Finding;
use crate::tree::Tree;

/// One line of a list.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The exception: a path, or `path::function`.
    pub key: &'a str,
    /// The reason or number.
    pub value: &'a str,
    /// Line in the list, from 1.
    pub line: usize,
}

/// The entries of the list at `path`; empty without the file.
pub fn entries<'a>(tree: &'a Tree, path: &str) -> Vec<Entry<'a>> {
    let text = tree.get(path).map_or("", |file| file.text.as_str());
    let lines = text.lines().enumerate();
    let kept = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    kept.map(|(index, line)| {
        let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        Entry { key, value: value.trim(), line: index + 1 }
    })
    .collect()
}

/// Findings for entries without a value and for unneeded entries.
pub fn stale(path: &str, entries: &[Entry<'_>], needed: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut found = Vec::new();
    for entry in entries {
        if entry.value.is_empty() {
            let message = format!("{} has no reason: add one", entry.key);
            found.push(Finding::new(path, entry.line, message));
        }
        if !needed(entry.key) {
            let message = format!("{} needs no exception: remove the line", entry.key);
            found.push(Finding::new(path, entry.line, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_keys_with_values() {
        let tree = Tree::of(&[("l.txt", "# why\n\na/b.rs  two words\nc.rs\n")]);
        let found = entries(&tree, "l.txt");
        assert_eq!((found[0].key, found[0].value, found[0].line), ("a/b.rs", "two words", 3));
        assert_eq!((found[1].key, found[1].value), ("c.rs", ""));
        assert!(entries(&tree, "none.txt").is_empty());
    }

    #[test]
    fn entries_need_a_reason_and_a_use() {
        let tree = Tree::of(&[("l.txt", "a.rs why\nb.rs why\nc.rs\n")]);
        let found = stale("l.txt", &entries(&tree, "l.txt"), |key| key != "b.rs");
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }
}
