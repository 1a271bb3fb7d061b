//! Rules about figures: each is made once, none is read from a machine file, and every public
//! statistic has a caller.

use std::collections::BTreeSet;

use crate::functions::{Function, Reach, functions, named_in};
use crate::package::{packages, product_tokens};
use crate::scan::{Token, reads};
use crate::tidy::Finding;
use crate::tree::{SourceFile, Tree};

// Figures are made once: only the gates make those of a cell, and one room combines them.

/// Where the figures of a cell are declared.
const DECLARED: &str = "harness/record/src/figures.rs";

/// Who may read the figures of a cell: who makes them, who combines them into figures of rows, the
/// rows of counters and of events, whose figures no other row has, the charts of the cells
/// themselves, and the predictions that are fitted to cells.
const READERS: &[&str] = &[
    DECLARED,
    "harness/judge/src/gate/",
    "harness/judge/src/figures/",
    "harness/judge/src/score/meters.rs",
    "harness/judge/src/score/transient.rs",
    "harness/src/verbs/open.rs",
    "harness/predict/src/calibrate/mod.rs",
    "harness/predict/src/pack/demand.rs",
];

/// What gives the figures of a cell by their names.
const BY_NAME: &[&str] = &["by_name", "named", "named_mut", "tenants"];

/// No other product code reads a figure of a cell: what it computes from one would be a second
/// version of a figure that a report prints.
pub fn made_once(tree: &Tree) -> Vec<Finding> {
    let Some(declared) = tree.get(DECLARED) else { return Vec::new() };
    let names = names(&product_tokens(&declared.text));
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| is_product(&file.path)) {
        if READERS.iter().any(|reader| file.path.starts_with(reader)) {
            continue;
        }
        let scanned = product_tokens(&file.text);
        let names_type = scanned.iter().any(|token| token.text == "CellFigures");
        for (at, token) in scanned.iter().enumerate().skip(2) {
            let is_member = scanned[at - 1].text == ".";
            let of_cell = is_member && scanned[at - 2].text == "figures";
            let is_field = names.contains(&token.text) && !reads(&scanned, at + 1, "(");
            let reads_one = is_field && (of_cell || is_member && names_type);
            if reads_one || of_cell && BY_NAME.contains(&token.text) {
                let name = token.text;
                let message = format!(
                    "{name} of a cell: read the figure that harness/judge/src/figures makes"
                );
                found.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    found
}

/// The fields that the macro `figures!` declares: each name stands before a comma, behind a doc
/// comment, in the body of the macro's call.
fn names<'a>(scanned: &[Token<'a>]) -> Vec<&'a str> {
    let Some(call) = (0..scanned.len()).find(|at| reads(scanned, *at, "figures ! {")) else {
        return Vec::new();
    };
    let body = &scanned[call + 3..];
    let end = body.iter().position(|token| token.text == "}").unwrap_or(body.len());
    let body = body[..end].windows(2).filter(|pair| pair[1].text == ",");
    body.map(|pair| pair[0].text).collect()
}

/// Code under `src` outside the virtual GPU and tests.
fn is_product(path: &str) -> bool {
    let of_tests = path.contains("/tests/") || path.ends_with("tests.rs");
    path.contains("/src/") && !of_tests && !path.starts_with("harness/virtual-gpu/")
}

// The harness measures what a machine file plants and never reads it.

/// The virtual GPU, which does what its machine file says.
const VIRTUAL_GPU: &str = "harness/virtual-gpu/";

/// The listing of `doctor`, from the session to the text.
const LISTING: &[&str] = &[
    "harness/src/verbs/device_session.rs",
    "harness/src/verbs/host_report.rs",
    "harness/src/cli/doctor.rs",
];

/// How code reads planted defects and noise of a machine, in tokens separated by spaces.
const READS: &[&str] = &[
    "Defects",
    "Noise",
    ". defects",
    ". noise",
    ". planted (",
    ". noise_lines (",
    "Machine :: planted",
    "Machine :: noise_lines",
];

/// Product code outside the virtual GPU and the listing of `doctor` reads no planted defect: a real
/// host has no list of its defects either.
pub fn unread(tree: &Tree) -> Vec<Finding> {
    let is_allowed = |path: &str| {
        path.starts_with(VIRTUAL_GPU) || LISTING.iter().any(|listed| path.starts_with(listed))
    };
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| is_measuring(&file.path)) {
        if is_allowed(&file.path) {
            continue;
        }
        let scanned = product_tokens(&file.text);
        for (at, token) in scanned.iter().enumerate() {
            if let Some(read) = READS.iter().find(|read| reads(&scanned, at, read)) {
                let read = read.replace(' ', "");
                let message = format!("{read}: measure it, as on a host without a machine file");
                found.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
    found
}

/// Files under `src`: tests and examples plant defects themselves.
fn is_measuring(path: &str) -> bool {
    path.contains("/src/") && !path.contains("/tests/")
}

// Every public function of the statistics has a product caller.

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

    const FIGURES: &str = r"macro_rules! figures { () => {} }
        figures! {
            closed_rate_per_s,
            gpu_p50_ns,
        }";

    fn count(path: &str, text: &str) -> usize {
        made_once(&Tree::of(&[(DECLARED, FIGURES), (path, text)])).len()
    }

    #[test]
    fn readers_that_make_their_own_figure_are_found() {
        for bad in [
            "fn f(c: &CellResult) -> Option<f64> { c.figures.closed_rate_per_s }",
            "fn f(c: &CellFigures) -> Option<f64> { Some(c.gpu_p50_ns? / 1e6) }",
            "fn f(c: &CellResult) -> f64 { c.figures.by_name()[\"closed_rate_per_s\"] }",
        ] {
            assert_eq!(count("harness/judge/src/claims/figures.rs", bad), 1, "{bad}");
            assert_eq!(count("reports/src/format/csv.rs", bad), 1, "{bad}");
            assert_eq!(count("harness/judge/src/figures/rates.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/judge/src/score/tests/lab.rs", bad), 0, "{bad}");
        }
        for good in [
            "fn f(x: &Rows) -> f64 { x.figures.closed_rate_per_s(2) + x.gpu_p50_ns }",
            "fn f(x: &[Row]) -> Option<f64> { closed_rate_per_s(x) }",
            "#[cfg(test)] mod t { fn f(c: &C) -> f64 { c.figures.gpu_p50_ns } }",
        ] {
            assert_eq!(count("harness/run/src/cell.rs", good), 0, "{good}");
        }
    }

    #[test]
    fn the_declared_names_are_found_in_the_tree() {
        let tree = Tree::read(&crate::tree::repository_root()).unwrap();
        let declared = tree.get(DECLARED).unwrap();
        let found = names(&product_tokens(&declared.text));
        assert!(found.len() > 20 && found.contains(&"closed_rate_per_s"), "{found:?}");
    }

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
            ("pub fn a() {}", "const F: fn() = s::a;"),
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

#[cfg(test)]
mod planted_tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        unread(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn planted_defects_are_read_by_the_virtual_gpu_and_doctor_only() {
        for bad in [
            "fn f(m: &Machine) -> bool { m.defects.mps_unreachable }",
            "use gpubench_virtual_gpu::machine::Defects;",
            "fn f(d: &Device) { d.machine().planted() }",
            "fn f(s: Option<&Machine>) { s.map(Machine::planted) }",
            "fn f(m: &Machine) -> f64 { m.noise.request }",
        ] {
            assert_eq!(count("harness/plan/src/a.rs", bad), 1, "{bad}");
            assert_eq!(count("workloads/src/a.rs", bad), 1, "{bad}");
            assert_eq!(count("harness/virtual-gpu/model/src/a.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/src/cli/doctor.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/tests/it/a.rs", bad), 0, "{bad}");
        }
        for good in [
            "fn f(fault: &Fault) -> bool { fault.planted_only }",
            "// the machine's .defects\nfn f(m: &Machine) -> u32 { m.sms }",
            "#[cfg(test)] mod t { fn f(m: &mut Machine) { m.defects.fault_xid = 1; } }",
        ] {
            assert_eq!(count("harness/plan/src/a.rs", good), 0, "{good}");
        }
    }
}
