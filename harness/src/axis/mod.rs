//! The catalogue of axes: the question of each sub-axis, and the pairs of victim and aggressor that
//! answer it.
//!
//! To add a sub-axis, add one entry. Workloads state their pairs themselves (`Workload::meets`).
//! Plans, `gpubench list axes`, profile errors and the schema derive from these lists. The profile
//! selects the pairs of a run.

use std::collections::BTreeSet;

use gpubench_record::SubAxis;

mod pairs;
mod selection;

pub use pairs::{PAIRS, Pair, USER_VICTIM_PAIRS};
pub use selection::{Selection, fault_classes, known_names};

/// One scored dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisEntry {
    /// `axis/sub-axis`, as profiles and the command line name it.
    pub name: &'static str,
    pub sub_axis: SubAxis,
    /// The question it answers, in one line.
    pub summary: &'static str,
}

impl AxisEntry {
    /// The pairs that answer it. The first is the default of profiles.
    pub fn pairs(&self) -> impl Iterator<Item = &'static Pair> {
        let sub_axis = self.sub_axis;
        PAIRS.iter().filter(move |pair| pair.sub_axis == sub_axis)
    }

    /// The same with the user's own program as the victim.
    pub fn user_victim_pairs(&self) -> impl Iterator<Item = &'static Pair> {
        let sub_axis = self.sub_axis;
        USER_VICTIM_PAIRS.iter().filter(move |pair| pair.sub_axis == sub_axis)
    }
}

/// Every sub-axis that has a victim and an aggressor, in report order.
pub const CATALOGUE: &[AxisEntry] = &[
    AxisEntry {
        name: "compute/sm",
        sub_axis: SubAxis::Sm,
        summary: "does a neighbour that fills every SM slow arithmetic?",
    },
    AxisEntry {
        name: "compute/issue",
        sub_axis: SubAxis::Issue,
        summary: "does a neighbour that issues all the time take issue slots?",
    },
    AxisEntry {
        name: "compute/launch",
        sub_axis: SubAxis::Launch,
        summary: "does a neighbour that launches all the time delay launches?",
    },
    AxisEntry {
        name: "compute/driver",
        sub_axis: SubAxis::Driver,
        summary: "does a neighbour that keeps the driver busy delay its other callers?",
    },
    AxisEntry {
        name: "bandwidth/dram",
        sub_axis: SubAxis::Dram,
        summary: "does a neighbour that copies through DRAM take bandwidth?",
    },
    AxisEntry {
        name: "bandwidth/l2",
        sub_axis: SubAxis::L2,
        summary: "does a neighbour that streams through L2 take its bandwidth and capacity?",
    },
    AxisEntry {
        name: "bandwidth/pcie",
        sub_axis: SubAxis::Pcie,
        summary: "does a neighbour that copies from or to the host take the link?",
    },
    AxisEntry {
        name: "memory/capacity",
        sub_axis: SubAxis::Capacity,
        summary: "does a neighbour that takes all the memory break a reservation?",
    },
    AxisEntry {
        name: "power/power",
        sub_axis: SubAxis::Power,
        summary: "does a neighbour that draws all the power slow arithmetic?",
    },
];

/// The sub-axes that probes answer instead of cells. A probe tests memory/capacity as well: one
/// reservation while the neighbours hold all memory that they could allocate. In a cell the
/// reservation is repeated while the neighbours allocate and free.
pub const PROBED: &[AxisEntry] = &[
    AxisEntry {
        name: "memory/cap",
        sub_axis: SubAxis::Cap,
        summary: "does any call allocate more memory than the tenant's limit?",
    },
    AxisEntry {
        name: "memory/residue",
        sub_axis: SubAxis::Residue,
        summary: "does a tenant find data of the last owner in its pages?",
    },
    AxisEntry {
        name: "memory/visibility",
        sub_axis: SubAxis::Visibility,
        summary: "can a tenant read a neighbour's addresses, or observe its memory and processes?",
    },
];

/// The sub-axis that gives the jitter axis. Jitter comes from the open loops of its cells, so the
/// axis needs no workload of its own.
pub const JITTER_SUB_AXIS: SubAxis = SubAxis::Sm;

/// The question that the jitter axis answers.
pub const JITTER_SUMMARY: &str = "does a neighbour add unpredictable latency to requests?";

/// The question that the fault axis answers.
pub const FAULT_SUMMARY: &str = "does a fault of a neighbour harm a tenant?";

/// Whether a probe makes the row of this sub-axis.
#[must_use]
pub fn is_probed(sub_axis: SubAxis) -> bool {
    sub_axis == SubAxis::Capacity || PROBED.iter().any(|entry| entry.sub_axis == sub_axis)
}

/// Every workload that is the victim of some pair, in report order.
#[must_use]
pub fn victims() -> Vec<&'static str> {
    in_order_of_pairs(|pair| pair.victim)
}

/// Every workload that is the aggressor of some pair, in report order.
#[must_use]
pub fn aggressors() -> Vec<&'static str> {
    in_order_of_pairs(|pair| pair.aggressor)
}

/// One side of all pairs, each name once.
fn in_order_of_pairs(side: impl Fn(&Pair) -> &'static str) -> Vec<&'static str> {
    let mut unique = BTreeSet::new();
    let sides = CATALOGUE.iter().flat_map(AxisEntry::pairs).map(side);
    sides.filter(|name| unique.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_record::SubAxis;

    use super::{CATALOGUE, JITTER_SUB_AXIS, PROBED};

    #[test]
    fn entries_are_unique_and_have_a_question() {
        let all = || CATALOGUE.iter().chain(PROBED);
        let subs: BTreeSet<SubAxis> = all().map(|entry| entry.sub_axis).collect();
        assert_eq!(subs.len(), all().count());
        for entry in all() {
            let (axis, sub_axis) = (entry.sub_axis.axis().as_str(), entry.sub_axis.as_str());
            assert_eq!(entry.name, format!("{axis}/{sub_axis}"));
            assert!(entry.summary.ends_with('?'), "{}: the question it answers", entry.name);
            let probed = PROBED.contains(entry);
            assert_ne!(
                entry.pairs().next().is_some(),
                probed,
                "{}: a pair or a probe answers it",
                entry.name
            );
        }
        assert!(CATALOGUE.iter().any(|entry| entry.sub_axis == JITTER_SUB_AXIS));
    }
}
