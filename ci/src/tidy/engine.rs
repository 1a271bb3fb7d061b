//! Figures are made once: only the gates make those of a cell, and one room combines them.

use crate::package::product_tokens;
use crate::scan::{Token, reads};
use crate::tidy::Finding;
use crate::tree::Tree;

/// Where the figures of a cell are declared.
const DECLARED: &str = "harness/record/src/figures.rs";

/// Who may read the figures of a cell: who makes them, who combines them into figures of rows, the
/// charts of the cells themselves, and the predictions that are fitted to cells.
const READERS: &[&str] = &[
    DECLARED,
    "harness/src/gate/",
    "harness/src/figures/",
    "harness/src/judge/latency_charts.rs",
    "harness/predict/src/calibrate/figures.rs",
    "harness/predict/src/pack/demand.rs",
];

/// What gives the figures of a cell by their names.
const BY_NAME: &[&str] = &["by_name", "named", "named_mut", "tenants"];

/// No other product code reads a figure of a cell: what it computes from one would be a second
/// version of a figure that a report prints.
pub fn made_once(tree: &Tree) -> Vec<Finding> {
    let Some(declared) = tree.get(DECLARED) else {
        return Vec::new();
    };
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
                let message =
                    format!("{name} of a cell: read the figure that harness/src/figures makes");
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

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = r"macro_rules! figures { () => {} }
        figures! {
            /// Rate, alone.
            closed_rate_per_s,
            /// Median.
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
            assert_eq!(count("harness/src/claims/cells.rs", bad), 1, "{bad}");
            assert_eq!(count("reports/src/format/csv.rs", bad), 1, "{bad}");
            assert_eq!(count("harness/src/figures/logs.rs", bad), 0, "{bad}");
            assert_eq!(count("harness/src/score/tests/lab.rs", bad), 0, "{bad}");
        }
        for good in [
            "fn f(x: &Rows) -> f64 { x.figures.closed_rate_per_s(2) + x.gpu_p50_ns }",
            "fn f(x: &[Row]) -> Option<f64> { closed_rate_per_s(x) }",
            "#[cfg(test)] mod t { fn f(c: &C) -> f64 { c.figures.gpu_p50_ns } }",
        ] {
            assert_eq!(count("harness/src/run/cell.rs", good), 0, "{good}");
        }
    }

    #[test]
    fn the_declared_names_are_found_in_the_tree() {
        let tree = Tree::read(&crate::tree::repository_root()).unwrap();
        let declared = tree.get(DECLARED).unwrap();
        let found = names(&product_tokens(&declared.text));
        assert!(found.len() > 20 && found.contains(&"closed_rate_per_s"), "{found:?}");
    }
}
