//! The columns of the matrix: axes, and the resources of the axis bandwidth.

use std::collections::BTreeSet;

use gpubench_record::{Axis, MatrixRow, RunRecord};

use super::{Row, Selection};
use gpubench_show::clean;

/// Axes in the order of the columns.
const ORDER: [Axis; 6] =
    [Axis::Compute, Axis::Bandwidth, Axis::Jitter, Axis::Memory, Axis::Fault, Axis::Power];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub axis: String,
    /// The sub-axis, where the column shows only one of the axis.
    pub sub_axis: Option<String>,
    /// Its heading: `compute`, `dram`.
    pub heading: String,
    /// Its name in a sentence: `compute`, `DRAM`.
    pub noun: String,
}

impl Column {
    /// Whether a row of the record belongs to it.
    pub fn has(&self, row: &MatrixRow) -> bool {
        let of_sub_axis = self.sub_axis.is_none() || self.sub_axis == row.sub_axis;
        self.axis == row.axis && of_sub_axis
    }

    fn new(axis: &str, sub_axis: Option<&str>) -> Self {
        let heading = match (sub_axis, axis) {
            // The resource of another column.
            (Some(sub_axis), "jitter") => format!("jitter/{sub_axis}"),
            (Some(sub_axis), "fault") => format!("faults/{sub_axis}"),
            (Some(sub_axis), _) => sub_axis.to_owned(),
            (None, "fault") => "faults".to_owned(),
            (None, axis) => axis.to_owned(),
        };
        let noun = match heading.as_str() {
            "dram" => "DRAM".to_owned(),
            "l2" => "L2".to_owned(),
            "pcie" => "PCIe".to_owned(),
            "sm" => "SMs".to_owned(),
            other => clean(other),
        };
        Self {
            axis: axis.to_owned(),
            sub_axis: sub_axis.map(str::to_owned),
            heading: clean(&heading),
            noun,
        }
    }
}

/// Every column that a row of the record belongs to. An axis has one column; bandwidth, and an axis
/// that the reader asks for, have one for each sub-axis.
pub(super) fn columns(record: &RunRecord, selection: &Selection) -> Vec<Column> {
    let of_other_versions = record.matrix.iter().map(|row| row.axis.as_str());
    let mut axes: Vec<&str> = ORDER.iter().map(|axis| axis.as_str()).collect();
    for axis in of_other_versions {
        if !axes.contains(&axis) {
            axes.push(axis);
        }
    }
    let mut columns = Vec::new();
    for axis in axes {
        let rows = record
            .matrix
            .iter()
            .filter(|row| row.axis == axis && selection.has_axis(axis, row.sub_axis.as_deref()));
        let mut seen = BTreeSet::new();
        let mut sub_axes: Vec<Option<&str>> = Vec::new();
        let is_split = axis == "bandwidth" || !selection.axes.is_empty();
        for row in rows {
            let sub_axis = row.sub_axis.as_deref().filter(|_| is_split);
            if seen.insert(sub_axis) {
                sub_axes.push(sub_axis);
            }
        }
        // A row without a sub-axis stands for an axis that could not run.
        if sub_axes.len() > 1 {
            sub_axes.retain(Option::is_some);
        }
        columns.extend(sub_axes.into_iter().map(|one| Column::new(axis, one)));
    }
    let (beside, missing) = (jitter_aggressors(record), without_jitter(record));
    if let (false, false, Some(column)) = (
        beside.is_empty(),
        missing.is_empty(),
        columns.iter_mut().find(|column| column.heading == Axis::Jitter.as_str()),
    ) {
        let all = beside.len() + missing.len();
        column.noun = format!("{} beside {} of {all} aggressors", column.noun, beside.len());
    }
    columns
}

/// The aggressors beside which a row of jitter has a figure.
fn jitter_aggressors(record: &RunRecord) -> BTreeSet<&str> {
    let rows = record.matrix.iter().filter(|row| row.jitter.is_some());
    rows.filter_map(|row| row.aggressor.as_deref()).collect()
}

/// The planned aggressors of rates beside which no jitter was measured, in the order of the plan.
pub(crate) fn without_jitter(record: &RunRecord) -> Vec<&str> {
    let measured = jitter_aggressors(record);
    let of_rates = record.plan.pairs.iter().filter(|pair| {
        matches!(pair.sub_axis.axis(), Axis::Compute | Axis::Bandwidth)
            && !measured.contains(pair.aggressor.as_str())
    });
    let mut missing: Vec<&str> = Vec::new();
    for pair in of_rates {
        if !missing.contains(&pair.aggressor.as_str()) {
            missing.push(&pair.aggressor);
        }
    }
    missing
}

/// The positions of the columns in which a row has a cell that ran.
pub(super) fn used(rows: &[Row], columns: usize) -> Vec<usize> {
    let is_used = |at: &usize| rows.iter().any(|row| row.cells[*at].is_some());
    (0..columns).filter(is_used).collect()
}
