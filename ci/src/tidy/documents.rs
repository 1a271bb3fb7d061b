//! Documents: links and paths of the map exist, and each invariant names its test or rule.

use std::collections::BTreeSet;

use crate::scan::{Kind, tokens};
use crate::tidy::{Finding, RULES};
use crate::tree::Tree;

const MAP: &str = "harness/ARCHITECTURE.md";
const INVARIANTS: &str = "## Invariants";
/// Base folders of the paths of the map.
const BASES: &[&str] = &[".", "harness", "harness/src"];
const ENDINGS: &[&str] = &[".rs", ".toml", ".md", ".sh", ".txt", ".json"];

/// Relative links of every document, and the paths that the map names.
pub fn links(tree: &Tree) -> Vec<Finding> {
    let known = known_paths(tree);
    let mut found = Vec::new();
    for file in tree.files().filter(|file| file.has_extension(&["md"])) {
        let folder = file.path.rfind('/').map_or("", |at| &file.path[..at]);
        for (index, line) in file.text.lines().enumerate() {
            let linked = link_targets(line).filter(|target| !target.contains("://"));
            let targets = linked.filter_map(|target| target.split('#').next());
            for target in targets.filter(|target| !target.is_empty()) {
                if !known.contains(join(folder, target).as_str()) {
                    let message = format!("{target}: no such file in the tree");
                    found.push(Finding::new(&file.path, index + 1, message));
                }
            }
            if file.path != MAP {
                continue;
            }
            for path in quoted(line).filter(|text| is_path(text)) {
                let path = path.split("::").next().unwrap_or(path);
                if !BASES.iter().any(|base| known.contains(join(base, path).as_str())) {
                    let message = format!("{path}: not found below {}", BASES.join(", "));
                    found.push(Finding::new(&file.path, index + 1, message));
                }
            }
        }
    }
    found
}

pub fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, max, prefix) in [
        ("README.md", 150, "" /* every line */),
        ("harness/GLOSSARY.md", 42, "|" /* header, separator and 40 entries */),
    ] {
        let text = tree.get(path).map_or("", |file| file.text.as_str());
        let count = text.lines().filter(|line| line.starts_with(prefix)).count();
        if count > max {
            let message = format!("{count} lines, at most {max}: move details to another document");
            found.push(Finding::new(path, 1, message));
        }
    }
    found
}

/// Every row under `## Invariants` names a test as `file.rs::test`, a rule as `tidy NAME`, or a
/// lint as `clippy NAME`.
pub fn invariants(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.get(MAP) else { return Vec::new() };
    let lines = map.text.lines().enumerate();
    let section = lines.skip_while(|(_, line)| *line != INVARIANTS).skip(1);
    let rows = section
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter(|(_, line)| line.starts_with("| ") && !line.starts_with("| invariant"));
    let mut found = Vec::new();
    for (index, row) in rows {
        let guards: Vec<&str> = quoted(row).filter(|text| is_guard(text)).collect();
        if guards.is_empty() {
            let message =
                "name its test (`file.rs::test`), rule (`tidy NAME`) or lint (`clippy NAME`)";
            found.push(Finding::new(MAP, index + 1, message));
        }
        for guard in guards.into_iter().filter(|guard| !exists(tree, guard)) {
            let message = format!("{guard}: no such test or rule");
            found.push(Finding::new(MAP, index + 1, message));
        }
    }
    found
}

fn is_guard(text: &str) -> bool {
    text.starts_with("tidy ") || text.starts_with("clippy ") || text.contains(".rs::")
}

fn exists(tree: &Tree, guard: &str) -> bool {
    if let Some(lint) = guard.strip_prefix("clippy ") {
        let manifest = tree.get("Cargo.toml").map_or("", |file| file.text.as_str());
        return manifest.lines().any(|line| line == format!("{lint} = \"warn\""));
    }
    if let Some(rule) = guard.strip_prefix("tidy ") {
        return RULES.iter().any(|known| known.name == rule);
    }
    let Some((path, test)) = guard.split_once("::") else { return false };
    let file = tree.get(path).or_else(|| tree.get(&format!("harness/{path}")));
    file.is_some_and(|file| {
        let scanned = tokens(&file.text);
        let mut pairs = scanned.windows(2);
        pairs.any(|pair| pair[0].text == "fn" && pair[1].text == test && pair[1].kind == Kind::Word)
    })
}

/// Every file and every folder above one.
fn known_paths(tree: &Tree) -> BTreeSet<&str> {
    let mut known = BTreeSet::new();
    for file in tree.files() {
        let ends = file.path.match_indices('/').map(|(at, _)| at);
        known.extend(ends.map(|at| &file.path[..at]));
        known.insert(file.path.as_str());
    }
    known
}

/// Targets of `[text](target)`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let parts = line.split("](").skip(1);
    parts.filter_map(|rest| rest.split(')').next())
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether the text names a file or folder; `x` stands for a name that the reader chooses.
fn is_path(text: &str) -> bool {
    let path = text.split("::").next().unwrap_or(text);
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let stem = path.rsplit('/').next().unwrap_or(path);
    let names_file = ENDINGS.iter().any(|ending| path.ends_with(ending)) || path.ends_with('/');
    is_plain
        && names_file
        && path.contains('/')
        && !stem.starts_with("x.")
        && !path.starts_with('/')
}

fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[
            (path, text),
            ("harness/src/a.rs", "#[test]\nfn b() {}"),
            ("reports/README.md", ""),
        ]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_must_exist() {
        for good in [
            "[a](src/a.rs)",
            "[a](../reports/README.md#top) [b](#here) [c](https://example.org/x.md)",
            "`src/a.rs` `harness/src/a.rs::b` `src/` `src/x.rs` `/dev/kmsg` `a b/c.rs`",
        ] {
            assert!(findings(links, MAP, good).is_empty(), "{good}");
        }
        for bad in ["[a](src/b.rs)", "`src/b.rs`", "`gone/`"] {
            assert_eq!(findings(links, MAP, bad).len(), 1, "{bad}");
        }
        assert!(findings(links, "README.md", "`src/b.rs`").is_empty());
        assert_eq!(findings(links, "README.md", "[a](src/a.rs)").len(), 1);
    }

    #[test]
    fn the_readme_and_the_glossary_stay_short() {
        for (path, line, max) in [("README.md", "a\n", 150), ("harness/GLOSSARY.md", "| a |\n", 42)]
        {
            assert!(findings(sizes, path, &line.repeat(max)).is_empty());
            assert_eq!(findings(sizes, path, &line.repeat(max + 1)).len(), 1);
        }
    }

    #[test]
    fn an_invariant_names_its_test_or_rule() {
        let rows =
            |row: &str| format!("{INVARIANTS}\n\n| invariant | held by |\n|---|---|\n{row}\n");
        for good in ["| one | `src/a.rs::b` |", "| one | `tidy flow` |", "text"] {
            assert!(findings(invariants, MAP, &rows(good)).is_empty(), "{good}");
        }
        for bad in ["| one | a test |", "| one | `src/a.rs::c` |", "| one | `tidy none` |"] {
            assert_eq!(findings(invariants, MAP, &rows(bad)).len(), 1, "{bad}");
        }
    }
}
