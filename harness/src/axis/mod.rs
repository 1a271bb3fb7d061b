//! The catalogue of axes: for each sub-axis, which victim is sensitive to it and which aggressor
//! stresses it.
//!
//! To add a sub-axis, add one entry. Plans, `gpubench list axes`, profile errors and the schema
//! derive from this list. What a workload does stands in the workloads' own catalogue.

use gpubench_record::{Axis, SubAxis};

/// One scored dimension, and the pair of workloads that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisEntry {
    /// `axis/sub-axis`, as profiles and the command line name it.
    pub name: &'static str,
    /// The sub-axis; it knows its axis.
    pub sub_axis: SubAxis,
    /// Workload of the victim, which depends on the resource.
    pub victim: &'static str,
    /// Workload of the aggressor, which exhausts it.
    pub aggressor: &'static str,
    /// The question it answers, in one line.
    pub summary: &'static str,
    /// Unit of the victim's work, of which more per second is better.
    pub unit: &'static str,
}

/// Every sub-axis that has a victim and an aggressor, in report order.
pub const CATALOGUE: &[AxisEntry] = &[
    AxisEntry {
        name: "compute/sm",
        sub_axis: SubAxis::Sm,
        victim: "compute",
        aggressor: "fma-hog",
        summary: "does a neighbour that fills every SM slow arithmetic?",
        unit: "operations",
    },
    AxisEntry {
        name: "bandwidth/dram",
        sub_axis: SubAxis::Dram,
        victim: "stream",
        aggressor: "dram-copy",
        summary: "does a neighbour that copies through DRAM take bandwidth?",
        unit: "bytes",
    },
    AxisEntry {
        name: "bandwidth/l2",
        sub_axis: SubAxis::L2,
        victim: "l2",
        aggressor: "l2-stream",
        summary: "does a neighbour that streams through L2 take its bandwidth and capacity?",
        unit: "bytes",
    },
    AxisEntry {
        name: "bandwidth/pcie",
        sub_axis: SubAxis::Pcie,
        victim: "pcie",
        aggressor: "pcie-h2d",
        summary: "does a neighbour that copies from the host take the link?",
        unit: "bytes",
    },
];

/// The sub-axis whose cells give the jitter axis: jitter is read from open loops, which every
/// cell has, so it needs a victim but no workload of its own.
pub const JITTER_SUB_AXIS: SubAxis = SubAxis::Sm;

/// The question that the jitter axis answers.
pub const JITTER_SUMMARY: &str = "does a neighbour add unpredictable latency to requests?";

/// A part of the catalogue that a user can ask for by one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// An axis with all its sub-axes, or the jitter axis.
    Axis(Axis),
    /// One sub-axis.
    Sub(SubAxis),
}

impl Selection {
    /// Finds a selection by the name that [`known_names`] lists.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        if let Some(entry) = CATALOGUE.iter().find(|entry| entry.name == name) {
            return Some(Self::Sub(entry.sub_axis));
        }
        known_axes()
            .into_iter()
            .find(|axis| axis.as_str() == name)
            .map(Self::Axis)
    }

    /// Whether the cells of `sub_axis` are needed for it.
    #[must_use]
    pub fn needs(self, sub_axis: SubAxis) -> bool {
        match self {
            Self::Axis(Axis::Jitter) => sub_axis == JITTER_SUB_AXIS,
            Self::Axis(axis) => sub_axis.axis() == axis,
            Self::Sub(sub) => sub_axis == sub,
        }
    }
}

/// The axes that have at least one entry, and jitter, in report order.
#[must_use]
pub fn known_axes() -> Vec<Axis> {
    Axis::ALL
        .into_iter()
        .filter(|&axis| {
            axis == Axis::Jitter || CATALOGUE.iter().any(|entry| entry.sub_axis.axis() == axis)
        })
        .collect()
}

/// Every name that [`Selection::find`] accepts: axes first, then `axis/sub-axis`.
#[must_use]
pub fn known_names() -> Vec<&'static str> {
    let axes = known_axes().into_iter().map(Axis::as_str);
    axes.chain(CATALOGUE.iter().map(|entry| entry.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_record::{Axis, SubAxis};

    use super::{CATALOGUE, JITTER_SUB_AXIS, Selection, known_axes, known_names};

    #[test]
    fn entries_are_unique_and_told() {
        let subs: BTreeSet<SubAxis> = CATALOGUE.iter().map(|entry| entry.sub_axis).collect();
        assert_eq!(subs.len(), CATALOGUE.len());
        for entry in CATALOGUE {
            let (axis, sub_axis) = (entry.sub_axis.axis().as_str(), entry.sub_axis.as_str());
            assert_eq!(entry.name, format!("{axis}/{sub_axis}"));
            assert!(
                entry.summary.ends_with('?'),
                "{}: the question it answers",
                entry.name
            );
            assert!(!entry.unit.is_empty());
            assert_ne!(entry.victim, entry.aggressor);
        }
        assert!(
            CATALOGUE
                .iter()
                .any(|entry| entry.sub_axis == JITTER_SUB_AXIS)
        );
    }

    #[test]
    fn every_known_name_is_found() {
        for name in known_names() {
            assert!(Selection::find(name).is_some(), "{name}");
        }
        assert_eq!(Selection::find("l3"), None);
        assert_eq!(Selection::find("compute/dram"), None);
    }

    #[test]
    fn only_axes_with_something_to_run_are_known() {
        assert_eq!(known_axes(), [Axis::Compute, Axis::Bandwidth, Axis::Jitter]);
    }

    #[test]
    fn jitter_alone_needs_the_compute_cells_and_no_other() {
        let needed: Vec<SubAxis> = CATALOGUE
            .iter()
            .map(|entry| entry.sub_axis)
            .filter(|&sub| Selection::Axis(Axis::Jitter).needs(sub))
            .collect();
        assert_eq!(needed, [SubAxis::Sm]);
    }
}
