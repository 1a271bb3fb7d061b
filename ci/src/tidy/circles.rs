//! Import circles have at most three files. Larger ones are listed in `ci/circles.txt` with their
//! exact size, which can only decrease.

use crate::circles::circles;
use crate::package::packages;
use crate::tidy::{Finding, list};
use crate::tree::Tree;

/// The largest circle that needs no exception.
pub const MAX_FILES: usize = 3;
/// The list of exceptions.
pub const LIST: &str = "ci/circles.txt";

/// Circles that are too large. The key of an exception is the first file of the circle by name.
pub fn import_circles(tree: &Tree) -> Vec<Finding> {
    let listed = list::entries(tree, LIST);
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
                    format!("now {size} files: lower {allowed} in {LIST}")
                }
                Some((allowed, _)) => {
                    format!("{size} files, {allowed} in {LIST}: {}", circle.join(", "))
                }
                None => format!("{size} files import each other: {}", circle.join(", ")),
            };
            found.push(Finding::new(circle[0], 1, message));
        }
    }
    found.extend(list::stale(LIST, &listed, |key| known.contains(&key)));
    found
}

#[cfg(test)]
mod tests {
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
            all.push((LIST, listed));
            let found = findings(&all);
            match expected {
                None => assert!(found.is_empty(), "{found:?}"),
                Some(part) => assert!(found[0].contains(part), "{found:?}"),
            }
        }
    }
}
