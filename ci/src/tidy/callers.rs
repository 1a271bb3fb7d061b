//! Every public function of the statistics has a product caller.

use std::collections::BTreeSet;

use crate::functions::{Function, Reach, functions, named_in};
use crate::package::packages;
use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

const PACKAGE: &str = "gpubench-stats";

/// Public functions without a product caller outside the package.
pub fn statistics(tree: &Tree) -> Vec<Finding> {
    let all = packages(tree);
    let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.name == PACKAGE);
    let mut reached: BTreeSet<&str> = others.into_iter().flat_map(named_in).collect();
    let files = own.iter().flat_map(|package| package.files.iter().copied());
    let mut waiting: Vec<(&SourceFile, Function<'_>)> = Vec::new();
    for file in files {
        let (functions, outside) = functions(file);
        reached.extend(outside);
        waiting.extend(functions.into_iter().map(|function| (file, function)));
    }
    // A reached function reaches the names in its body.
    loop {
        let before = waiting.len();
        waiting.retain(|(_, function)| {
            let is_reached = reached.contains(function.name) || function.reach == Reach::External;
            if is_reached {
                reached.extend(&function.names);
            }
            !is_reached
        });
        if waiting.len() == before {
            break;
        }
    }
    let dead = waiting.into_iter().filter(|(_, one)| one.reach == Reach::Public);
    let finding = |(file, one): (&SourceFile, Function<'_>)| {
        Finding::new(&file.path, one.line, format!("{} has no caller: delete it", one.name))
    };
    dead.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(stats: &str, user: &str) -> Vec<String> {
        let found = statistics(&Tree::of(&[
            ("s/Cargo.toml", "[package]\nname = \"gpubench-stats\""),
            ("s/src/lib.rs", stats),
            ("u/Cargo.toml", "[package]\nname = \"u\""),
            ("u/src/lib.rs", user),
        ]));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn functions_with_a_caller_pass() {
        for (stats, user) in [
            ("pub fn a() {}", "fn f() { s::a() }"),
            ("pub fn a() { b() } pub fn b() {}", "fn f() { s::a() }"),
            ("fn a() {}", ""),
            ("#[cfg(test)] mod t { pub fn a() {} }", ""),
        ] {
            assert!(findings(stats, user).is_empty(), "{stats}");
        }
    }

    #[test]
    fn functions_without_a_product_caller_are_found() {
        for (stats, user) in [
            ("pub fn a() {}", ""),
            ("pub fn a() {}", "use s::a;"),
            ("pub fn a() {}", "#[cfg(test)] mod t { fn f() { s::a() } }"),
        ] {
            assert_eq!(findings(stats, user).len(), 1, "{stats}");
        }
        let pair = findings("pub fn a() { b() }\npub fn b() {}", "");
        assert!(pair[1].starts_with("s/src/lib.rs:2: b has no caller"), "{pair:?}");
    }
}
