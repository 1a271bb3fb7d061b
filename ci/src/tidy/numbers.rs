//! Updates the lists of exact numbers: long files, import circles, lines of packages.

use std::fmt::Write;

use crate::circles::circles;
use crate::package::packages;
use crate::tidy::{circles as circle_rule, lines, list, size};
use crate::tree::Tree;

/// Each list with its new text. Comments and reasons stay.
pub fn lists(tree: &Tree) -> Vec<(&'static str, String)> {
    let all = packages(tree);
    let mut long = head(tree, size::LIST);
    for (key, length) in size::long(tree) {
        let _ = writeln!(long, "{key} {length}");
    }
    let mut large = head(tree, circle_rule::LIST);
    for circle in all.iter().flat_map(circles) {
        if circle.len() > circle_rule::MAX_FILES {
            let _ = writeln!(large, "{} {}", circle[0], circle.len());
        }
    }
    let listed = list::entries(tree, lines::LIST);
    let mut bound = head(tree, lines::LIST);
    for package in &all {
        let entry = listed.iter().find(|entry| entry.key == package.name);
        let reason = entry.and_then(|entry| Some(entry.value.split_once(' ')?.1));
        if entry.is_some() || package.source.starts_with(lines::BOUND) {
            let reason = reason.unwrap_or("as the packages were split");
            let _ = writeln!(bound, "{} {} {reason}", package.name, package.lines());
        }
    }
    vec![(size::LIST, long), (circle_rule::LIST, large), (lines::LIST, bound)]
}

/// The comment at the head of a list.
fn head(tree: &Tree, path: &str) -> String {
    let text = tree.get(path).map_or("", |file| file.text.as_str());
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    comments.fold(String::new(), |all, line| all + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_tree_and_reasons_stay() {
        let long = "\n".repeat(301);
        let tree = Tree::of(&[
            ("p/Cargo.toml", "[package]\nname = \"p\""),
            ("p/src/lib.rs", &long),
            (lines::LIST, "# Why.\np 999 a reason\n"),
            (size::LIST, "# Long.\nq.rs 400\n"),
        ]);
        let found = lists(&tree);
        assert_eq!(found[0].1, "# Long.\np/src/lib.rs 301\n");
        assert_eq!(found[1].1, "");
        assert_eq!(found[2].1, "# Why.\np 301 a reason\n");
    }
}
