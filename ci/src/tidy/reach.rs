//! Dead files: every Rust file is a cargo target or a module of one.

use std::collections::BTreeSet;

use crate::package::{manifest, product_tokens};
use crate::scan::{Kind, Token, closing, reads, tokens};
use crate::tidy::lists::{BOUND, entries, stale};
use crate::tidy::{Finding, crates};
use crate::tree::{SourceFile, Tree};

pub fn dead_files(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    let mut waiting = targets(tree);
    while let Some(path) = waiting.pop() {
        let Some(file) = tree.get(&path).filter(|_| !reached.contains(&path)) else { continue };
        reached.insert(path);
        waiting.extend(declared(file));
    }
    let dead = tree.rust().filter(|file| !reached.contains(&file.path));
    let message = "no module declares this file, and it is not a target: declare it or delete it";
    dead.map(|file| Finding::new(&file.path, 1, message)).collect()
}

/// The root files of every target of every package.
fn targets(tree: &Tree) -> Vec<String> {
    let manifests = tree.files().filter_map(manifest);
    let mut roots = Vec::new();
    for (folder, manifest) in manifests {
        let paths = crates::target_paths(&manifest);
        roots.extend(paths.into_iter().map(|path| format!("{folder}{path}")));
        let found = tree.rust().filter(|file| {
            let inside = file.path.strip_prefix(folder.as_str());
            inside.is_some_and(is_found_by_cargo)
        });
        roots.extend(found.map(|file| file.path.clone()));
    }
    roots
}

fn is_found_by_cargo(path: &str) -> bool {
    if ["build.rs", "src/lib.rs", "src/main.rs"].contains(&path) {
        return true;
    }
    let folders = ["src/bin/", "tests/", "benches/", "examples/"];
    let mut inside = folders.iter().filter_map(|folder| path.strip_prefix(folder));
    inside.any(|rest| match rest.split_once('/') {
        None => true,
        Some((_, file)) => file == "main.rs",
    })
}

fn declared(file: &SourceFile) -> Vec<String> {
    let scanned = tokens(&file.text);
    let mut found = Vec::new();
    walk(&scanned, &children_folder(&file.path), &mut found);
    let (own_folder, _) = split(&file.path);
    for at in 0..scanned.len() {
        let included = reads(&scanned, at, "include ! (").then(|| literal(&scanned, at + 3));
        let moved = reads(&scanned, at, "# [ path =").then(|| literal(&scanned, at + 4));
        found.extend(included.or(moved).flatten().map(|path| join(own_folder, path)));
    }
    found
}

/// Modules declared in `scanned`, with files in `folder`; inline modules add a folder.
fn walk(scanned: &[Token<'_>], folder: &str, found: &mut Vec<String>) {
    let mut at = 0;
    while at < scanned.len() {
        let name = scanned.get(at + 1).map_or("", |token| token.text);
        if reads(scanned, at, "mod") && reads(scanned, at + 2, "{") {
            let end = closing(scanned, at + 2);
            walk(&scanned[at + 3..end], &format!("{folder}{name}/"), found);
            at = end;
        } else if reads(scanned, at, "mod") && reads(scanned, at + 2, ";") {
            declare(name, folder, found);
        } else if reads(scanned, at, "catalogue ! {") || reads(scanned, at, "catalogue ! (") {
            // The macro of catalogues declares every module in its list.
            let end = closing(scanned, at + 2);
            let words = scanned[at + 3..end].iter();
            for word in words.filter(|token| token.kind == Kind::Word) {
                declare(word.text, folder, found);
            }
            at = end;
        }
        at += 1;
    }
}

fn declare(name: &str, folder: &str, found: &mut Vec<String>) {
    found.push(format!("{folder}{name}.rs"));
    found.push(format!("{folder}{name}/mod.rs"));
}

fn children_folder(path: &str) -> String {
    let (folder, file) = split(path);
    let of_targets = ["src/bin/", "tests/", "benches/", "examples/"];
    // Single-file targets and build scripts have modules in their own folder.
    let in_source = folder.contains("src/") && !folder.ends_with("src/bin/");
    let in_targets = of_targets.iter().any(|end| folder.ends_with(end));
    let is_target = !in_source && (in_targets || file == "build.rs");
    match file.trim_end_matches(".rs") {
        "mod" | "lib" | "main" => folder.to_owned(),
        _ if is_target => folder.to_owned(),
        name => format!("{folder}{name}/"),
    }
}

fn split(path: &str) -> (&str, &str) {
    path.split_at(path.rfind('/').map_or(0, |at| at + 1))
}

fn literal<'a>(scanned: &[Token<'a>], at: usize) -> Option<&'a str> {
    scanned.get(at)?.text.strip_prefix('"')?.strip_suffix('"')
}

/// `folder` and a relative path as one path, with `..` resolved.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

// Limits of rooms: the coordinator has no CUDA context, and the pure rooms do no I/O.

/// The coordinator's product code.
const COORDINATOR: &[&str] = &["harness/src/", "harness/host/src/", "harness/run/src/"];

/// Items of the driver layer for the coordinator: names and data, no calls.
const DRIVER_DATA: &[&str] = &["CATALOGUE", "AllocKind", "LOOKUP_ENV", "Lookup", "driver"];

/// Rooms of pure functions.
const PURE: &[&str] = &["harness/catalogue/src/", "harness/plan/src/", "harness/judge/src/"];

/// Modules of `std` that do I/O.
const IO_MODULES: &[&str] = &["env", "fs", "io", "net", "process", "thread"];

/// Only tenants open a CUDA context: the coordinator uses only data of the driver layer.
pub fn coordinator(tree: &Tree) -> Vec<Finding> {
    let is_of_coordinator = |path: &str| COORDINATOR.iter().any(|room| path.starts_with(room));
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| is_of_coordinator(&file.path)) {
        let scanned = product_tokens(&file.text);
        for at in (0..scanned.len()).filter(|at| reads(&scanned, *at, "gpubench_kernels ::")) {
            for name in path_names(&scanned, at + 2) {
                if !DRIVER_DATA.contains(&name.text) {
                    let message = format!("{}: only tenants call the driver", name.text);
                    found.push(Finding::new(&file.path, name.line, message));
                }
            }
        }
    }
    found
}

/// Pure rooms do no I/O; clippy knows who reads a clock.
pub fn pure(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/");
    let is_pure = |path: &str| PURE.iter().any(|room| path.starts_with(room)) && !is_test(path);
    for file in tree.rust().filter(|file| is_pure(&file.path)) {
        let scanned = product_tokens(&file.text);
        for at in (0..scanned.len()).filter(|at| reads(&scanned, *at, "std ::")) {
            for name in path_names(&scanned, at + 2).take(1) {
                if IO_MODULES.contains(&name.text) {
                    let message = format!("std::{}: pass the value in", name.text);
                    found.push(Finding::new(&file.path, name.line, message));
                }
            }
        }
    }
    found
}

/// Ways to open a file, which wait for ever at a pipe and have no bound.
const OPENS: [&str; 5] = [
    "fs :: read (",
    "fs :: read_to_string (",
    "File :: open (",
    "File :: options (",
    "OpenOptions :: new (",
];
/// The files with such calls, how many, and what they open.
pub const OPENED: &str = "ci/opens.txt";

/// What a user names is opened by `record/src/regular_file.rs`. Every other place that opens a file
/// is listed, with what it opens.
pub fn opens(tree: &Tree) -> Vec<Finding> {
    let is_product = |path: &str| {
        path.contains("/src/")
            && !path.starts_with("ci/")
            && !path.starts_with(BOUND)
            && !path.ends_with("tests.rs")
    };
    let count = |text: &str| {
        let scanned = product_tokens(text);
        let opens = |at: &usize| OPENS.iter().any(|call| reads(&scanned, *at, call));
        (0..scanned.len()).filter(opens).count()
    };
    let files = tree.rust().filter(|file| is_product(&file.path) && !file.path.contains("/tests/"));
    let all: Vec<(&str, usize)> = files
        .map(|file| (file.path.as_str(), count(&file.text)))
        .filter(|(_, count)| *count > 0)
        .collect();
    let listed = entries(tree, OPENED);
    let mut found = stale(OPENED, &listed, |key| all.iter().any(|(path, _)| *path == key));
    for (path, count) in all {
        let entry = listed.iter().find(|entry| entry.key == path);
        let allowed = entry.and_then(|entry| entry.value.split_once(' '));
        if allowed.and_then(|(number, _)| number.parse().ok()) != Some(count) {
            let message = format!(
                "{count} calls open a file: use regular_file, or write {path} {count} and what is \
                 opened into {OPENED}"
            );
            found.push(Finding::new(path, 1, message));
        }
    }
    found
}

/// Names of the path at `at`, including names in braces.
fn path_names<'t, 'a>(scanned: &'t [Token<'a>], at: usize) -> impl Iterator<Item = &'t Token<'a>> {
    let mut end = at;
    while let Some(token) = scanned.get(end) {
        end = match token.text {
            "{" if reads(scanned, end - 1, "::") => closing(scanned, end),
            "::" => end + 1,
            _ if token.kind == Kind::Word && (end == at || reads(scanned, end - 1, "::")) => {
                end + 1
            }
            _ => break,
        };
    }
    let end = end.min(scanned.len());
    scanned[at.min(end)..end].iter().filter(|token| token.kind == Kind::Word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("p/Cargo.toml", "[package]\nname = \"p\"\n");

    fn dead(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![MANIFEST];
        all.extend_from_slice(files);
        let found = dead_files(&Tree::of(&all));
        found.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn declared_files_are_alive() {
        // A manifest names targets.
        let manifest = "[package]\nname = \"q\"\nbuild = \"b.rs\"\n[[bin]]\nname = \"x\"\n\
                        path = \"tool/x.rs\"\n";
        let alive: [&[(&str, &str)]; 12] = [
            &[("q/Cargo.toml", manifest), ("q/b.rs", ""), ("q/tool/x.rs", "")],
            &[
                ("p/src/lib.rs", "mod tests;"),
                ("p/src/tests/mod.rs", "mod a;"),
                ("p/src/tests/a.rs", "mod b;"),
                ("p/src/tests/a/b.rs", ""),
            ],
            &[
                ("p/tests/it/main.rs", "mod a;"),
                ("p/tests/it/a.rs", "mod b;"),
                ("p/tests/it/a/b.rs", ""),
            ],
            &[("p/src/lib.rs", "mod a;"), ("p/src/a.rs", "")],
            &[("p/src/lib.rs", "pub mod a;"), ("p/src/a/mod.rs", "mod b;"), ("p/src/a/b.rs", "")],
            &[("p/src/main.rs", "mod a;"), ("p/src/a.rs", "mod b;"), ("p/src/a/b.rs", "")],
            &[("p/src/lib.rs", "mod a { mod b; }"), ("p/src/a/b.rs", "")],
            &[
                ("p/src/lib.rs", "catalogue! { dyn T: a, b }"),
                ("p/src/a.rs", ""),
                ("p/src/b.rs", ""),
            ],
            &[("p/src/lib.rs", "#[path = \"x/y.rs\"] mod a;"), ("p/src/x/y.rs", "")],
            &[("p/src/lib.rs", "include!(\"../x.rs\");"), ("p/x.rs", "")],
            &[("p/tests/t.rs", "mod common;"), ("p/tests/common/mod.rs", "")],
            &[("p/build.rs", ""), ("p/benches/b.rs", ""), ("p/examples/e/main.rs", "")],
        ];
        for files in alive {
            assert!(dead(files).is_empty(), "{files:?}");
        }
    }

    #[test]
    fn undeclared_files_are_dead() {
        let cases: [&[(&str, &str)]; 5] = [
            &[("p/src/lib.rs", "// mod a;"), ("p/src/a.rs", "")],
            &[("p/src/lib.rs", "const A: &str = \"mod a;\";"), ("p/src/a.rs", "")],
            &[("p/src/lib.rs", "mod b;"), ("p/src/a.rs", "")],
            &[("p/tests/t.rs", ""), ("p/tests/common/a.rs", "")],
            &[("q/src/lib.rs", "")],
        ];
        for files in cases {
            assert_eq!(dead(files), [files[files.len() - 1].0], "{files:?}");
        }
    }

    fn count(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn the_coordinator_uses_data_of_the_driver_layer_only() {
        let path = "harness/run/src/a.rs";
        for good in [
            "use gpubench_kernels::driver::{AllocKind, Lookup};",
            "for kernel in gpubench_kernels::CATALOGUE { f(Context) }",
            "#[cfg(test)] mod t { use gpubench_kernels::driver::Context; }",
        ] {
            assert_eq!(count(coordinator, path, good), 0, "{good}");
        }
        for bad in [
            "use gpubench_kernels::driver::{AllocKind, Context};",
            "fn f() { gpubench_kernels::driver::Driver::load() }",
        ] {
            assert!(count(coordinator, path, bad) > 0, "{bad}");
            assert_eq!(count(coordinator, "workloads/src/a.rs", bad), 0, "{bad}");
        }
    }

    #[test]
    fn pure_rooms_do_no_io() {
        let path = "harness/judge/src/score/a.rs";
        for good in ["use std::collections::BTreeMap;", "use std::fmt; mod io;"] {
            assert_eq!(count(pure, path, good), 0, "{good}");
        }
        for bad in ["use std::fs::File;", "fn f() { std::env::var(\"A\") }"] {
            assert_eq!(count(pure, path, bad), 1, "{bad}");
            assert_eq!(count(pure, "harness/run/src/a.rs", bad), 0, "{bad}");
        }
    }

    #[test]
    fn a_file_that_is_opened_beside_the_one_reader_is_listed() {
        let open = ("p/src/a.rs", "fn a() { std::fs::read(x); File::open(x); }");
        let with = |list: &str| opens(&Tree::of(&[MANIFEST, open, (OPENED, list)])).len();
        assert_eq!(with(""), 1);
        assert_eq!(with("p/src/a.rs 2 files of the kernel\n"), 0);
        assert_eq!(with("p/src/a.rs 1 files of the kernel\n"), 1);
        assert_eq!(with("p/src/a.rs 2 the kernel\np/src/b.rs 1 none\n"), 1);
        let tested = ("p/src/a.rs", "#[cfg(test)] mod t { fn a() { std::fs::read(x); } }");
        assert!(opens(&Tree::of(&[MANIFEST, tested])).is_empty());
    }
}
