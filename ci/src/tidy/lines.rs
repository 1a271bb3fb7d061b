//! Lines per package: the packages in `ci/lines.txt` grow only with a reason.
//!
//! A line of the list has the package, its lines under `src`, and the reason.

use crate::package::packages;
use crate::tidy::{Finding, list};
use crate::tree::Tree;

pub const LIST: &str = "ci/lines.txt";

/// Packages below this folder must be in the list.
pub const BOUND: &str = "harness/virtual-gpu/";

/// A package can be this number of lines shorter than its entry.
const SLACK: usize = 200;

/// Packages with more lines than listed, or with a listed number that is too high.
pub fn package_lines(tree: &Tree) -> Vec<Finding> {
    let listed = list::entries(tree, LIST);
    let all = packages(tree);
    let mut found = list::stale(LIST, &listed, |key| all.iter().any(|one| one.name == key));
    for package in &all {
        let lines = package.lines();
        let entry = listed.iter().find(|entry| entry.key == package.name);
        let Some(entry) = entry else {
            if package.source.starts_with(BOUND) {
                let message = format!("{} {lines} is missing, with a reason", package.name);
                found.push(Finding::new(LIST, 1, message));
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
        found.push(Finding::new(LIST, entry.line, message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(folder: &str, list: &str) -> Vec<String> {
        let manifest = format!("{folder}Cargo.toml");
        let source = format!("{folder}src/lib.rs");
        let text = "\n".repeat(1000);
        let found = package_lines(&Tree::of(&[
            (&manifest, "[package]\nname = \"p\""),
            (&source, &text),
            (LIST, list),
        ]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_package_within_its_number_passes() {
        for list in ["p 1000 as split", "p 1200 as split"] {
            assert!(findings(BOUND, list).is_empty(), "{list}");
        }
        assert!(findings("reports/", "").is_empty());
    }

    #[test]
    fn growth_slack_and_missing_reasons_are_found() {
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
}
