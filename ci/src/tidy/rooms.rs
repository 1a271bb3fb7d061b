//! Limits of rooms: the coordinator has no CUDA context, and the pure rooms do no I/O.

use crate::package::product_tokens;
use crate::scan::{Kind, Token, closing, reads};
use crate::tidy::Finding;
use crate::tree::Tree;

/// The coordinator's product code.
const COORDINATOR: &str = "harness/src/";

/// Items of the driver layer for the coordinator: names and data, no calls.
const DRIVER_DATA: &[&str] = &["CATALOGUE", "AllocKind", "LOOKUP_ENV", "Lookup", "driver"];

/// Rooms of pure functions.
const PURE: &[&str] =
    &["harness/src/plan/", "harness/src/gate/", "harness/src/figures/", "harness/src/score/"];

/// Modules of `std` that do I/O.
const IO_MODULES: &[&str] = &["env", "fs", "io", "net", "process", "thread"];

/// Only tenants open a CUDA context: the coordinator uses only data of the driver layer.
pub fn coordinator(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with(COORDINATOR)) {
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
    let is_pure = |path: &str| PURE.iter().any(|room| path.starts_with(room));
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

    fn count(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn the_coordinator_uses_data_of_the_driver_layer_only() {
        let path = "harness/src/run/a.rs";
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
        let path = "harness/src/score/a.rs";
        for good in ["use std::collections::BTreeMap;", "use std::fmt; mod io;"] {
            assert_eq!(count(pure, path, good), 0, "{good}");
        }
        for bad in ["use std::fs::File;", "fn f() { std::env::var(\"A\") }"] {
            assert_eq!(count(pure, path, bad), 1, "{bad}");
            assert_eq!(count(pure, "harness/src/run/a.rs", bad), 0, "{bad}");
        }
    }
}
