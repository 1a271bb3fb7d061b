//! Limits with lists of exceptions in `ci/`: long files, lines of packages, import circles. A
//! number in a list only falls.

use std::fmt::Write;

use crate::imports::circles;
use crate::package::packages;
use crate::tidy::Finding;
use crate::tree::Tree;

// Lists of exceptions: one `key value` per line, `#` for comments.

#[derive(Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The exception: a path, or `path::function`.
    pub key: &'a str,
    pub value: &'a str,
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

// Length of files. Longer ones are listed in `ci/long.txt` with their exact length, which can only
// decrease.

const MAX_LINES: usize = 500;
/// The list of exceptions.
pub const LONG: &str = "ci/long.txt";

/// Files over the limit, with their lengths.
pub fn long(tree: &Tree) -> Vec<(&str, usize)> {
    let written = tree.rust().filter(|file| !file.is_generated());
    let measured = written.map(|file| (file.path.as_str(), file.text.lines().count()));
    measured.filter(|(_, length)| *length > MAX_LINES).collect()
}

/// Files over the limit that are not listed with their length.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let (long, listed) = (long(tree), entries(tree, LONG));
    let mut found = stale(LONG, &listed, |key| long.iter().any(|(path, _)| *path == key));
    for (path, length) in long {
        let message = match listed.iter().find(|entry| entry.key == path) {
            None => format!("{length} lines: split it by idea at {MAX_LINES}"),
            Some(entry) => match entry.value.parse::<usize>() {
                Ok(allowed) if allowed == length => continue,
                Ok(allowed) if allowed > length => {
                    format!("now {length} lines: lower {allowed} in {LONG}")
                }
                _ => format!("{length} lines, {} in {LONG}: shorten it", entry.value),
            },
        };
        found.push(Finding::new(path, 1, message));
    }
    found
}

// Lines per package: the packages in `ci/lines.txt` grow only with a reason.
//
// A line of the list has the package, its lines under `src`, and the reason.

pub const LINES: &str = "ci/lines.txt";

/// Packages below this folder must be in the list.
pub const BOUND: &str = "harness/virtual-gpu/";

/// A package can be this number of lines shorter than its entry.
const SLACK: usize = 200;

/// Packages with more lines than listed, or with a listed number that is too high.
pub fn package_lines(tree: &Tree) -> Vec<Finding> {
    let listed = entries(tree, LINES);
    let all = packages(tree);
    let mut found = stale(LINES, &listed, |key| all.iter().any(|one| one.name == key));
    for package in &all {
        let lines = package.lines();
        let entry = listed.iter().find(|entry| entry.key == package.name);
        let Some(entry) = entry else {
            if package.source.starts_with(BOUND) {
                let message = format!("{} {lines} is missing, with a reason", package.name);
                found.push(Finding::new(LINES, 1, message));
            }
            continue;
        };
        let (number, reason) = entry.value.split_once(' ').unwrap_or((entry.value, ""));
        let message = match number.parse::<usize>() {
            _ if reason.is_empty() => format!("{}: write a reason after the number", package.name),
            Ok(allowed) if lines > allowed => format!(
                "{} has {lines} lines, {allowed} allowed: delete code, or raise it with a reason",
                package.name
            ),
            Ok(allowed) if lines + SLACK < allowed => {
                format!("{} has {lines} lines: lower {allowed}", package.name)
            }
            Ok(_) => continue,
            Err(_) => format!("{}: {number:?} is not a number of lines", package.name),
        };
        found.push(Finding::new(LINES, entry.line, message));
    }
    found
}

// Import circles have at most three files. Larger ones are listed in `ci/circles.txt` with their
// exact size, which can only decrease.

/// The largest circle that needs no exception.
pub const MAX_FILES: usize = 3;
/// The list of exceptions.
pub const CIRCLES: &str = "ci/circles.txt";

/// Circles that are too large. The key of an exception is the first file of the circle by name.
pub fn import_circles(tree: &Tree) -> Vec<Finding> {
    let listed = entries(tree, CIRCLES);
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for package in packages(tree) {
        for circle in circles(&package) {
            let size = circle.len();
            if size <= MAX_FILES {
                continue;
            }
            known.push(circle[0]);
            let allowed = listed.iter().find(|entry| entry.key == circle[0]);
            let message = match allowed.map(|entry| (entry.value, entry.value.parse::<usize>())) {
                Some((_, Ok(allowed))) if allowed == size => continue,
                Some((_, Ok(allowed))) if allowed > size => {
                    format!("now {size} files: lower {allowed} in {CIRCLES}")
                }
                Some((allowed, _)) => {
                    format!("{size} files, {allowed} in {CIRCLES}: {}", circle.join(", "))
                }
                None => format!("{size} files import each other: {}", circle.join(", ")),
            };
            found.push(Finding::new(circle[0], 1, message));
        }
    }
    found.extend(stale(CIRCLES, &listed, |key| known.contains(&key)));
    found
}

// Updates the lists of exact numbers: long files, import circles, lines of packages.

/// Each list with its new text. Comments and reasons stay.
pub fn lists(tree: &Tree) -> Vec<(&'static str, String)> {
    let all = packages(tree);
    let mut long_list = head(tree, LONG);
    for (key, length) in long(tree) {
        let _ = writeln!(long_list, "{key} {length}");
    }
    let mut large = head(tree, CIRCLES);
    for circle in all.iter().flat_map(circles) {
        if circle.len() > MAX_FILES {
            let _ = writeln!(large, "{} {}", circle[0], circle.len());
        }
    }
    let listed = entries(tree, LINES);
    let mut bound = head(tree, LINES);
    for package in &all {
        let entry = listed.iter().find(|entry| entry.key == package.name);
        let reason = entry.and_then(|entry| Some(entry.value.split_once(' ')?.1));
        if entry.is_some() || package.source.starts_with(BOUND) {
            let reason = reason.unwrap_or("as the packages were split");
            let _ = writeln!(bound, "{} {} {reason}", package.name, package.lines());
        }
    }
    vec![(LONG, long_list), (CIRCLES, large), (LINES, bound)]
}

fn head(tree: &Tree, path: &str) -> String {
    let text = tree.get(path).map_or("", |file| file.text.as_str());
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    comments.fold(String::new(), |all, line| all + line + "\n")
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

    fn messages(check: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_have_at_most_500_lines() {
        let (fits, long) = ("\n".repeat(500), "\n".repeat(501));
        assert!(messages(file_length, &[("a.rs", &fits)]).is_empty());
        let found = messages(file_length, &[("a.rs", &long)]);
        assert_eq!(found, ["a.rs:1: 501 lines: split it by idea at 500"]);
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
            let found = messages(file_length, &[("a.rs", &long), (LONG, listed)]);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found[0].contains(part), "{found:?}"),
            }
        }
    }

    fn findings(folder: &str, list: &str) -> Vec<String> {
        let manifest = format!("{folder}Cargo.toml");
        let source = format!("{folder}src/lib.rs");
        let text = "\n".repeat(1000);
        let found = package_lines(&Tree::of(&[
            (&manifest, "[package]\nname = \"p\""),
            (&source, &text),
            (LINES, list),
        ]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn growth_slack_and_missing_reasons_are_found() {
        for list in ["p 1000 as split", "p 1200 as split"] {
            assert!(findings(BOUND, list).is_empty(), "{list}");
        }
        assert!(findings("reports/", "").is_empty());
        for (list, expected) in [
            ("", "p 1000 is missing"),
            ("p 999 as split", "1000 lines, 999 allowed"),
            ("p 1201 as split", "lower 1201"),
            ("p 1000", "write a reason"),
            ("p many as split", "is not a number"),
            ("p 1000 a\nq 1 b", "q needs no exception"),
        ] {
            let found = findings(BOUND, list);
            assert!(found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_tree_and_reasons_stay() {
        let long = "\n".repeat(501);
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"p\""),
            ("p/src/lib.rs", &long),
            (super::LINES, "# Why.\np 999 a reason\n"),
            (super::LONG, "# Long.\nq.rs 400\n"),
        ]);
        let found = lists(&tree);
        assert_eq!(found[0].1, "# Long.\np/src/lib.rs 501\n");
        assert_eq!(found[1].1, "");
        assert_eq!(found[2].1, "# Why.\np 501 a reason\n");
    }
}

#[cfg(test)]
mod circles_tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("p/Cargo.toml", "[package]\nname = \"p\"")];
        all.extend_from_slice(files);
        let found = import_circles(&Tree::of(&all));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn three_files_may_import_each_other() {
        let good = [
            ("p/src/a.rs", "use crate::b::X;"),
            ("p/src/b.rs", "use crate::c::X;"),
            ("p/src/c.rs", "use crate::a::X;"),
            ("p/src/d.rs", "use crate::a::X;"),
        ];
        assert!(findings(&good).is_empty());
    }

    #[test]
    fn four_files_may_not_and_exceptions_only_shrink() {
        let bad = [
            ("p/src/a.rs", "use crate::b::X;"),
            ("p/src/b.rs", "use crate::c::X;"),
            ("p/src/c.rs", "use crate::d::X;"),
            ("p/src/d.rs", "use super::a::X;"),
        ];
        let found = findings(&bad);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("p/src/a.rs:1: 4 files import each other"), "{found:?}");
        for (listed, expected) in [
            ("p/src/a.rs 4", None),
            ("p/src/a.rs 5", Some("lower 5")),
            ("p/src/a.rs 3", Some("4 files, 3 in")),
            ("p/src/a.rs 4\np/src/b.rs 9", Some("p/src/b.rs needs no exception")),
        ] {
            let mut all = bad.to_vec();
            all.push((CIRCLES, listed));
            let found = findings(&all);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found[0].contains(part), "{found:?}"),
            }
        }
    }
}
