//! Rules about lines of text: module docs, width, unfinished marks, paths and hosts.

use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

const MAX_COLUMNS: usize = 100;

/// Extensions of source files; manifests and prose may have longer lines.
const SOURCE_EXTENSIONS: &[&str] = &["rs", "cu", "cuh", "h", "c", "sh", "py"];

/// Marks of unfinished work, in halves, so that this file does not contain them.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

const MACHINE_ROOTS: &[&str] = &["home", "Users", "root", "work", "workspace", "farm", "builds"];

/// Names that would override the registry in the user's configuration.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi.org/", "simple"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
    concat!("--index", "-url"),
    concat!("--extra-index", "-url"),
];

/// Every Rust file starts with a `//!` comment; inner attributes may precede it.
pub fn module_doc(tree: &Tree) -> Vec<Finding> {
    let undocumented = tree.rust().filter(|file| !opens_with_doc(&file.text));
    let message = "start the file with a //! comment that describes it";
    undocumented.map(|file| Finding::new(&file.path, 1, message)).collect()
}

fn opens_with_doc(text: &str) -> bool {
    let lines = text.lines().map(str::trim_end);
    let mut in_attribute = false;
    for line in lines.filter(|line| !line.is_empty()) {
        if let Some(doc) = line.strip_prefix("//!") {
            return !doc.trim().is_empty();
        }
        if !in_attribute && !line.starts_with("#![") {
            return false;
        }
        in_attribute = !line.ends_with(']');
    }
    false
}

/// At most 100 columns.
pub fn columns(tree: &Tree) -> Vec<Finding> {
    let written =
        tree.files().filter(|file| file.has_extension(SOURCE_EXTENSIONS) && !file.is_generated());
    by_line(written, |line| {
        let width = line.chars().count();
        (width > MAX_COLUMNS).then(|| format!("{width} columns: break the line at {MAX_COLUMNS}"))
    })
}

/// No marks of unfinished work.
pub fn marks(tree: &Tree) -> Vec<Finding> {
    let sources = tree.files().filter(|file| file.has_extension(SOURCE_EXTENSIONS));
    by_line(sources, |line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mark = words.find(|word| MARKS.contains(word))?;
        Some(format!("{mark}: finish it, or document the limit"))
    })
}

/// No absolute path of a particular machine.
pub fn machine_paths(tree: &Tree) -> Vec<Finding> {
    by_line(checked_text(tree), |line| {
        let root = MACHINE_ROOTS.iter().find(|root| names_root(line, root))?;
        Some(format!("absolute path below /{root}: take it from an argument or the environment"))
    })
}

fn names_root(line: &str, root: &str) -> bool {
    let needle = format!("/{root}/");
    line.match_indices(&needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        // After a word it is part of a relative path.
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"_.}~-*".contains(c))
    })
}

/// No registry host or index option outside lock files.
pub fn registry_hosts(tree: &Tree) -> Vec<Finding> {
    by_line(checked_text(tree), |line| {
        let host = REGISTRY_HOSTS.iter().find(|host| line.contains(**host))?;
        Some(format!("{host}: leave the registry to the user's configuration"))
    })
}

fn checked_text(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files().filter(|file| !file.has_extension(&["lock"]))
}

fn by_line<'a>(
    files: impl Iterator<Item = &'a SourceFile>,
    judge: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(message) = judge(line) {
                found.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        let found = check(&Tree::of(&[(path, text)]));
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn files_start_with_a_description() {
        let good = ["//! Job.\nfn a() {}", "#![expect(\n    x,\n    y\n)]\n//! Job.", "\n//! Job."];
        for text in good {
            assert!(lines(module_doc, "a.rs", text).is_empty(), "{text}");
        }
        for text in ["fn a() {}", "//!\nfn a() {}", "", "#![x]\nuse a;\n//! b"] {
            assert_eq!(lines(module_doc, "a.rs", text), [1], "{text}");
        }
        assert!(lines(module_doc, "a.py", "x").is_empty());
    }

    #[test]
    fn lines_end_at_column_100() {
        let (fits, long) = ("é".repeat(100), "e".repeat(101));
        assert!(lines(columns, "a.rs", &fits).is_empty());
        assert_eq!(lines(columns, "a.rs", &format!("\n{long}")), [2]);
        assert_eq!(lines(columns, "a.cu", &long), [1]);
        assert!(lines(columns, "a.md", &long).is_empty());
        let generated = format!("// {}\n{long}", concat!("@", "generated"));
        assert!(lines(columns, "a.rs", &generated).is_empty());
    }

    #[test]
    fn marks_are_whole_words() {
        for mark in MARKS {
            assert_eq!(lines(marks, "a.rs", &format!("\n// {mark}: later")), [2]);
            assert!(lines(marks, "a.sh", &format!("mktemp a.{mark}{mark}")).is_empty());
        }
    }

    #[test]
    fn machine_paths_begin_at_the_root() {
        for root in MACHINE_ROOTS {
            let path = format!("/{root}/user/file");
            assert_eq!(lines(machine_paths, "a.md", &path), [1]);
            assert_eq!(lines(machine_paths, "a.toml", &format!("p = \"{path}\"")), [1]);
            assert!(lines(machine_paths, "a.md", &format!("the ..{path}")).is_empty());
            assert!(lines(machine_paths, "a.md", &format!("x{path}")).is_empty());
            assert!(lines(machine_paths, "Cargo.lock", &path).is_empty());
        }
        assert!(lines(machine_paths, "a.md", "/proc/self/task /dev/shm/x").is_empty());
    }

    #[test]
    fn registries_are_the_users_setting() {
        for host in REGISTRY_HOSTS {
            assert_eq!(lines(registry_hosts, "a.sh", &format!("pip x {host} y")), [1]);
            assert!(lines(registry_hosts, "uv.lock", host).is_empty());
        }
        assert!(lines(registry_hosts, "README.md", "from crates.io or PyPI").is_empty());
    }
}
