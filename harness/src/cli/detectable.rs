//! The table of the smallest change that each row of a plan detects.

use super::ui::table;
use crate::plan::Detectable;

/// The table.
pub(super) fn as_text(rows: &[Detectable]) -> String {
    let line = |row: &Detectable| {
        let size = |value: f64| match row.figure {
            "retention" => format!("{:.1} %", 100.0 * value),
            _ => format!("{value:.2} medians"),
        };
        let smallest = row.smallest.map_or_else(|| "-".to_owned(), size);
        [
            row.axis.clone(),
            format!("{} beside {}", row.victim, row.aggressor),
            row.blocks.to_string(),
            format!("{smallest} of {}", row.figure),
            format!("{} {}", size(row.spread), row.source),
        ]
    };
    let rows: Vec<[String; 5]> = rows.iter().map(line).collect();
    let header = ["row", "cells", "blocks", "detects (80 % power)", "spread of blocks"];
    table(header, &rows)
}
