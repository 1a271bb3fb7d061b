//! Pairs of a victim and an aggressor that stress the same resource.
//!
//! Workloads state with whom they are paired (`Workload::meets`); this module orders the pairs. The
//! first pair of a sub-axis is the one that profiles use by default.

use std::sync::LazyLock;

use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{Role, SubAxis};
use gpubench_workloads::load::{self, Workload};

use super::CATALOGUE;

/// A victim and an aggressor on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The sub-axis under which it is scored: that of the aggressor.
    pub sub_axis: SubAxis,
    /// Workload of the victim, which depends on the resource.
    pub victim: &'static str,
    /// Workload of the aggressor, which exhausts it.
    pub aggressor: &'static str,
}

/// Every pair, in the order of the sub-axes; within one, pairs stated by aggressors come first.
pub static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let stated_by = |role: Role| load::CATALOGUE.iter().filter(move |w| w.role == role);
    let of_aggressors = stated_by(Role::Aggressor).flat_map(|aggressor| {
        let pair = |&victim: &&'static str| pair(victim, aggressor);
        aggressor.meets.iter().map(pair)
    });
    let of_victims = stated_by(Role::Victim).flat_map(|victim| {
        let aggressors = victim.meets.iter().filter_map(|name| load::find(name).ok());
        aggressors.map(|aggressor| pair(victim.name, aggressor))
    });
    let mut pairs: Vec<Pair> = of_aggressors.chain(of_victims).collect();
    let position = |pair: &Pair| {
        let mut axes = CATALOGUE.iter();
        axes.position(|entry| entry.sub_axis == pair.sub_axis)
    };
    pairs.sort_by_key(position);
    pairs
});

fn pair(victim: &'static str, aggressor: &Workload) -> Pair {
    Pair { sub_axis: aggressor.sub_axis, victim, aggressor: aggressor.name }
}

/// The pairs of a user's program: the resources that it uses are unknown, so it is paired once with
/// every aggressor of each sub-axis. The memory hog is left out: its effect is a refused
/// reservation, and a user's program reports none.
pub static USER_VICTIM_PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let mut pairs: Vec<Pair> = Vec::new();
    for pair in PAIRS.iter().filter(|pair| pair.sub_axis != SubAxis::Capacity) {
        let with_program = Pair { victim: USER_VICTIM, ..*pair };
        if !pairs.contains(&with_program) {
            pairs.push(with_program);
        }
    }
    pairs
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_users_program_is_paired_with_every_aggressor_but_the_memory_hog() {
        let meets: BTreeSet<_> = USER_VICTIM_PAIRS.iter().map(|one| one.aggressor).collect();
        let all = PAIRS.iter().filter(|one| one.sub_axis != SubAxis::Capacity);
        assert_eq!(meets, all.map(|one| one.aggressor).collect());
        let unique: BTreeSet<_> =
            USER_VICTIM_PAIRS.iter().map(|one| (one.sub_axis, one.aggressor)).collect();
        assert_eq!(unique.len(), USER_VICTIM_PAIRS.len());
    }

    #[test]
    fn every_pair_is_stated_once_and_has_a_victim_and_an_aggressor()
    -> Result<(), Box<dyn std::error::Error>> {
        let unique: BTreeSet<_> = PAIRS.iter().map(|pair| (pair.victim, pair.aggressor)).collect();
        assert_eq!(unique.len(), PAIRS.len());
        let stated = load::CATALOGUE.iter().map(|workload| workload.meets.len());
        assert_eq!(stated.sum::<usize>(), PAIRS.len(), "every stated name exists");
        for pair in PAIRS.iter() {
            assert!(CATALOGUE.iter().any(|entry| entry.sub_axis == pair.sub_axis), "{pair:?}");
            assert_eq!(load::find(pair.victim)?.role, Role::Victim, "{pair:?}");
            assert_eq!(load::find(pair.aggressor)?.role, Role::Aggressor, "{pair:?}");
        }
        Ok(())
    }

    /// The default profile uses these, and their order decides the cells of a seed.
    #[test]
    fn the_first_pairs_of_all_sub_axes() {
        let first: Vec<_> = CATALOGUE
            .iter()
            .filter_map(|entry| entry.pairs().next())
            .map(|pair| (pair.victim, pair.aggressor))
            .collect();
        assert_eq!(
            first,
            [
                ("compute", "fma-hog"),
                ("issue", "issue-hog"),
                ("launch", "launch-flood"),
                ("alloc", "alloc-storm"),
                ("stream", "dram-copy"),
                ("l2", "l2-stream"),
                ("pcie", "pcie-h2d"),
                ("reserve", "memory-hog"),
                ("compute", "power-virus"),
            ]
        );
    }
}
