//! Length of files. Longer ones are listed in `ci/long.txt` with their exact length, which can only
//! decrease.

use crate::tidy::{Finding, list};
use crate::tree::Tree;

const MAX_LINES: usize = 300;
/// The list of exceptions.
pub const LIST: &str = "ci/long.txt";

/// Files over the limit, with their lengths.
pub fn long(tree: &Tree) -> Vec<(&str, usize)> {
    let written = tree.rust().filter(|file| !file.is_generated());
    let measured = written.map(|file| (file.path.as_str(), file.text.lines().count()));
    measured.filter(|(_, length)| *length > MAX_LINES).collect()
}

/// Files over the limit that are not listed with their length.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let (long, listed) = (long(tree), list::entries(tree, LIST));
    let mut found = list::stale(LIST, &listed, |key| long.iter().any(|(path, _)| *path == key));
    for (path, length) in long {
        let message = match listed.iter().find(|entry| entry.key == path) {
            None => format!("{length} lines: split it by idea at {MAX_LINES}"),
            Some(entry) => match entry.value.parse::<usize>() {
                Ok(allowed) if allowed == length => continue,
                Ok(allowed) if allowed > length => {
                    format!("now {length} lines: lower {allowed} in {LIST}")
                }
                _ => format!("{length} lines, {} in {LIST}: shorten it", entry.value),
            },
        };
        found.push(Finding::new(path, 1, message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_have_at_most_300_lines() {
        let (fits, long) = ("\n".repeat(300), "\n".repeat(301));
        assert!(messages(file_length, &[("a.rs", &fits)]).is_empty());
        let found = messages(file_length, &[("a.rs", &long)]);
        assert_eq!(found, ["a.rs:1: 301 lines: split it by idea at 300"]);
    }

    #[test]
    fn the_list_holds_exact_lengths_and_only_shrinks() {
        let long = "\n".repeat(510);
        let cases = [
            ("a.rs 510\n", None),
            ("a.rs 520\n", Some("lower 520")),
            ("a.rs 509\n", Some("shorten it")),
            ("a.rs many\n", Some("shorten it")),
            ("a.rs 510\nb.rs 600\n", Some("b.rs needs no exception")),
        ];
        for (listed, expected) in cases {
            let found = messages(file_length, &[("a.rs", &long), (LIST, listed)]);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found[0].contains(part), "{found:?}"),
            }
        }
    }
}
