//! Which victim shows what which aggressor does: one line for each pair.
//!
//! A victim lives on the resource that the aggressor exhausts. Where one aggressor can be felt in
//! two ways, it has two victims; the first pair of a sub-axis is its usual one.

use std::sync::LazyLock;

use gpubench_record::SubAxis;
use gpubench_record::foreign::FOREIGN;

/// A victim and an aggressor that meet on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The sub-axis under which it is scored.
    pub sub_axis: SubAxis,
    /// Workload of the victim, which depends on the resource.
    pub victim: &'static str,
    /// Workload of the aggressor, which exhausts it.
    pub aggressor: &'static str,
}

const fn pair(sub_axis: SubAxis, victim: &'static str, aggressor: &'static str) -> Pair {
    Pair {
        sub_axis,
        victim,
        aggressor,
    }
}

/// Every pair, in report order.
pub const PAIRS: &[Pair] = &[
    pair(SubAxis::Sm, "compute", "fma-hog"),
    pair(SubAxis::Sm, "compute", "block-slots"),
    pair(SubAxis::Sm, "inference", "fma-hog"),
    pair(SubAxis::Sm, "fp64", "fp64-hog"),
    pair(SubAxis::Sm, "int", "int-hog"),
    pair(SubAxis::Sm, "tensor", "tensor-hog"),
    pair(SubAxis::Sm, "shared", "shared-hog"),
    pair(SubAxis::Sm, "l1", "l1-hog"),
    pair(SubAxis::Issue, "issue", "issue-hog"),
    pair(SubAxis::Launch, "launch", "launch-flood"),
    pair(SubAxis::Launch, "launch-sync", "launch-flood"),
    pair(SubAxis::Launch, "inference", "launch-flood"),
    pair(SubAxis::Driver, "alloc", "alloc-storm"),
    pair(SubAxis::Driver, "alloc", "context-storm"),
    pair(SubAxis::Driver, "alloc", "module-storm"),
    pair(SubAxis::Driver, "alloc", "pin-storm"),
    pair(SubAxis::Dram, "stream", "dram-copy"),
    pair(SubAxis::Dram, "stream", "dram-read"),
    pair(SubAxis::Dram, "stream", "dram-write"),
    pair(SubAxis::Dram, "inference", "dram-copy"),
    pair(SubAxis::Dram, "tlb", "tlb-stride"),
    pair(SubAxis::L2, "l2", "l2-stream"),
    pair(SubAxis::L2, "l2", "l2-thrash"),
    pair(SubAxis::L2, "atomic", "atomics"),
    pair(SubAxis::Pcie, "pcie", "pcie-h2d"),
    pair(SubAxis::Pcie, "pcie-download", "pcie-d2h"),
    pair(SubAxis::Pcie, "pcie", "pcie-both"),
    pair(SubAxis::Capacity, "reserve", "memory-hog"),
    pair(SubAxis::Power, "compute", "power-virus"),
];

/// The same with a program of the user's as the victim: what it lives on is not known, so it meets
/// every aggressor once on each sub-axis. Only a hog of memory is no match for it, since that shows
/// in reservations that are refused and not in a rate.
pub static FOREIGN_PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let mut pairs: Vec<Pair> = Vec::new();
    for known in PAIRS
        .iter()
        .filter(|known| known.sub_axis != SubAxis::Capacity)
    {
        let with_program = pair(known.sub_axis, FOREIGN, known.aggressor);
        if !pairs.contains(&with_program) {
            pairs.push(with_program);
        }
    }
    pairs
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::CATALOGUE;
    use super::{FOREIGN_PAIRS, PAIRS};
    use gpubench_record::SubAxis;

    #[test]
    fn a_program_of_the_users_meets_every_aggressor_that_slows() {
        let meets: BTreeSet<_> = FOREIGN_PAIRS.iter().map(|one| one.aggressor).collect();
        let all = PAIRS.iter().filter(|one| one.sub_axis != SubAxis::Capacity);
        assert_eq!(meets, all.map(|one| one.aggressor).collect());
        let unique: BTreeSet<_> = FOREIGN_PAIRS
            .iter()
            .map(|one| (one.sub_axis, one.aggressor))
            .collect();
        assert_eq!(unique.len(), FOREIGN_PAIRS.len());
    }

    #[test]
    fn pairs_are_unique_and_on_axes_that_there_are() {
        let unique: BTreeSet<_> = PAIRS
            .iter()
            .map(|pair| (pair.sub_axis, pair.victim, pair.aggressor))
            .collect();
        assert_eq!(unique.len(), PAIRS.len());
        for pair in PAIRS {
            let known = CATALOGUE
                .iter()
                .any(|entry| entry.sub_axis == pair.sub_axis);
            assert!(known, "{pair:?}");
            assert_ne!(pair.victim, pair.aggressor);
        }
    }
}
