//! The catalogue of axes: the question of each sub-axis, and the pairs of victim and aggressor that
//! answer it.
//!
//! To add a sub-axis, add one entry. Workloads state their pairs themselves (`Workload::meets`).
//! Plans, `gpubench list axes`, profile errors and the schema derive from these lists. The profile
//! selects the pairs of a run.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use gpubench_record::user_victim::USER_VICTIM;
use gpubench_record::{Axis, Role, SubAxis};

use crate::fault::Class;
use crate::workload::Workload;
use crate::{fault, workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisEntry {
    /// `axis/sub-axis`, as profiles and the command line name it.
    pub name: &'static str,
    pub sub_axis: SubAxis,
    pub summary: &'static str,
}

impl AxisEntry {
    /// The pairs that answer it. The first is the default of profiles.
    pub fn pairs(&self) -> impl Iterator<Item = &'static Pair> {
        let sub_axis = self.sub_axis;
        PAIRS.iter().filter(move |pair| pair.sub_axis == sub_axis)
    }

    /// The same of the whole matrix.
    pub fn matrix_pairs(&self) -> impl Iterator<Item = &'static Pair> {
        let sub_axis = self.sub_axis;
        MATRIX.iter().filter(move |pair| pair.sub_axis == sub_axis)
    }

    /// The same of tenants that are equal.
    pub fn equal_pairs(&self) -> impl Iterator<Item = &'static Pair> {
        let sub_axis = self.sub_axis;
        EQUALS.iter().filter(move |pair| pair.sub_axis == sub_axis)
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

pub fn is_probed(sub_axis: SubAxis) -> bool {
    sub_axis == SubAxis::Capacity || PROBED.iter().any(|entry| entry.sub_axis == sub_axis)
}

/// Every workload that is the victim of some pair, in report order.
pub fn victims() -> Vec<&'static str> {
    in_order_of_pairs(|pair| pair.victim)
}

/// Every workload that is the aggressor of some pair, in report order.
pub fn aggressors() -> Vec<&'static str> {
    in_order_of_pairs(|pair| pair.aggressor)
}

fn in_order_of_pairs(side: impl Fn(&Pair) -> &'static str) -> Vec<&'static str> {
    let mut unique = BTreeSet::new();
    let sides = CATALOGUE.iter().flat_map(AxisEntry::pairs).map(side);
    sides.filter(|name| unique.insert(*name)).collect()
}

// Pairs of a victim and an aggressor that stress the same resource.
//
// Workloads state with whom they are paired (`Workload::meets`); this module orders the pairs. The
// first pair of a sub-axis is the one that profiles use by default.

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
    let stated_by = |role: Role| workload::CATALOGUE.iter().filter(move |w| w.role == role);
    let of_aggressors = stated_by(Role::Aggressor).flat_map(|aggressor| {
        let pair = |&victim: &&'static str| pair(victim, aggressor);
        aggressor.meets.iter().map(pair)
    });
    let of_victims = stated_by(Role::Victim).flat_map(|victim| {
        let aggressors = victim.meets.iter().filter_map(|name| workload::find(name));
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

/// Every victim of [`PAIRS`] beside every aggressor, in their order. Reservations have answers and
/// no rate, so they meet the memory hog alone.
pub static MATRIX: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let has_rate = |name: &&str| workload::find(name).is_some_and(|one| one.answers.is_empty());
    let (victims, aggressors) = (victims(), aggressors());
    let of_memory =
        |name: &str| workload::find(name).is_some_and(|one| one.sub_axis == SubAxis::Capacity);
    let beside = |victim: &'static str| {
        let aggressors = aggressors.iter().filter(move |name| !of_memory(name));
        aggressors.filter_map(move |name| Some(pair(victim, workload::find(name)?)))
    };
    victims.into_iter().filter(has_rate).flat_map(beside).collect()
});

/// Every victim with a rate beside tenants that do what it does.
pub static EQUALS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let of = victims().into_iter().filter_map(workload::find);
    of.filter(|one| one.answers.is_empty()).map(|one| pair(one.name, one)).collect()
});

// The names by which profiles and `--axis` request a part of the catalogue.

/// A part of the catalogue that a user can request by one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    Axis(Axis),
    Sub(SubAxis),
    Faults(Class),
}

impl Selection {
    /// Finds a selection by the name that [`known_names`] lists.
    pub fn find(name: &str) -> Option<Self> {
        let mut subs = CATALOGUE.iter().chain(PROBED);
        if let Some(entry) = subs.find(|entry| entry.name == name) {
            return Some(Self::Sub(entry.sub_axis));
        }
        let mut classes = fault_classes().into_iter();
        if let Some(class) = classes.find(|class| class.path() == name) {
            return Some(Self::Faults(class));
        }
        let mut axes = Axis::ALL.into_iter();
        axes.find(|axis| axis.as_str() == name).map(Self::Axis)
    }

    /// Whether it needs the cells or the probe of `sub_axis`.
    pub fn needs(self, sub_axis: SubAxis) -> bool {
        match self {
            Self::Axis(Axis::Jitter) => sub_axis == JITTER_SUB_AXIS,
            Self::Axis(axis) => sub_axis.axis() == axis,
            Self::Sub(sub) => sub_axis == sub,
            Self::Faults(_) => false,
        }
    }

    pub fn has_faults(self, class: Class) -> bool {
        match self {
            Self::Axis(axis) => axis == Axis::Fault,
            Self::Sub(_) => false,
            Self::Faults(own) => own == class,
        }
    }

    /// Whether probes or fault trials answer it, so that it needs no pair.
    pub fn needs_no_pair(self) -> bool {
        match self {
            Self::Axis(axis) => matches!(axis, Axis::Memory | Axis::Fault),
            Self::Sub(sub_axis) => is_probed(sub_axis),
            Self::Faults(_) => true,
        }
    }
}

/// The classes of faults, which are the sub-axes of the fault axis, without the controls.
pub fn fault_classes() -> Vec<Class> {
    let scored = fault::CATALOGUE.iter().map(|fault| fault.class);
    let mut classes: Vec<Class> = scored.filter(|&class| class != Class::Control).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Every name that [`Selection::find`] accepts: axes first, then `axis/sub-axis`.
pub fn known_names() -> Vec<&'static str> {
    let axes = Axis::ALL.into_iter().map(Axis::as_str);
    let subs = CATALOGUE.iter().chain(PROBED).map(|entry| entry.name);
    let faults = fault_classes().into_iter().map(Class::path);
    axes.chain(subs).chain(faults).collect()
}

/// The name of [`known_names`] that a reader means by one of a screen: in any case, `faults` for
/// the axis, the jitter of its sub-axis for the axis, and a sub-axis alone. Where a class of faults
/// has the name of another sub-axis, that is meant.
pub fn named(text: &str) -> Option<&'static str> {
    let known = known_names();
    let text = text.to_ascii_lowercase();
    if let Some(name) = known.iter().find(|name| **name == text) {
        return Some(name);
    }
    known.into_iter().find(|name| short_names(name).contains(&text.as_str()))
}

fn sub_name(name: &str) -> Option<&str> {
    name.split_once('/').map(|(_, sub)| sub)
}

/// The short forms that [`named`] reads as this name.
pub fn short_names(name: &'static str) -> Vec<&'static str> {
    if name == Axis::Fault.as_str() {
        return vec!["faults"];
    }
    if name == Axis::Jitter.as_str() {
        return vec![JITTER_PATH];
    }
    let known = known_names();
    let first = |sub: &&'static str| known.iter().find(|one| sub_name(one) == Some(sub));
    sub_name(name).filter(|sub| first(sub) == Some(&name)).into_iter().collect()
}

/// The jitter beside the neighbours of [`JITTER_SUB_AXIS`], as screens name it.
const JITTER_PATH: &str = "jitter/sm";

/// What screens name `overall`: the weakest axis of a mechanism.
pub const OVERALL: &str = "overall";

/// Further names of the screen of a record: `overall`, and the jitter beside each resource.
pub static SCREEN_NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let rated = CATALOGUE.iter().filter(|entry| !is_probed(entry.sub_axis));
    let jitter = rated.map(|entry| format!("jitter/{}", entry.sub_axis.as_str()));
    std::iter::once(OVERALL.to_owned()).chain(jitter).collect()
});

/// The name that a reader of a record means: one of [`SCREEN_NAMES`], else by [`named`].
pub fn named_on_screen(text: &str) -> Option<String> {
    let of_screen = SCREEN_NAMES.iter().find(|name| name.eq_ignore_ascii_case(text));
    of_screen.cloned().or_else(|| named(text).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_record::SubAxis;

    use super::*;

    #[test]
    fn names_of_a_screen_are_known() {
        for (text, name) in [
            ("dram", Some("bandwidth/dram")),
            ("DRAM", Some("bandwidth/dram")),
            ("Compute", Some("compute")),
            ("faults", Some("fault")),
            ("cap", Some("memory/cap")),
            // Compute and faults have it.
            ("sm", Some("compute/sm")),
            ("compute/sm", Some("compute/sm")),
            ("jitter/sm", Some("jitter")),
            ("jitter/dram", None),
            ("overall", None),
            ("", None),
        ] {
            assert_eq!(named(text), name, "{text}");
        }
        assert_eq!(short_names("bandwidth/dram"), ["dram"]);
        assert!(short_names("fault/sm").is_empty());
        for text in ["overall", "jitter/sm", "Jitter/DRAM"] {
            assert_eq!(named_on_screen(text), Some(text.to_ascii_lowercase()));
        }
        assert_eq!(named_on_screen("sm").as_deref(), Some("compute/sm"));
    }

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
        let stated = workload::CATALOGUE.iter().map(|workload| workload.meets.len());
        assert_eq!(stated.sum::<usize>(), PAIRS.len(), "every stated name exists");
        for pair in PAIRS.iter() {
            assert!(CATALOGUE.iter().any(|entry| entry.sub_axis == pair.sub_axis), "{pair:?}");
            let victim = workload::find(pair.victim).map(|one| one.role);
            assert_eq!(victim, Some(Role::Victim), "{pair:?}");
            let aggressor = workload::find(pair.aggressor);
            let found = aggressor.map(|one| (one.role, one.sub_axis));
            assert_eq!(found, Some((Role::Aggressor, pair.sub_axis)), "{pair:?}");
        }
        Ok(())
    }

    #[test]
    fn the_matrix_holds_every_usual_pair_and_equals_have_one_each() {
        let rated = PAIRS.iter().filter(|pair| pair.sub_axis != SubAxis::Capacity);
        assert!(rated.clone().count() > 0 && rated.clone().all(|pair| MATRIX.contains(pair)));
        let sides = |side: fn(&Pair) -> &'static str| {
            MATRIX.iter().map(side).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(sides(|pair| pair.victim) * sides(|pair| pair.aggressor), MATRIX.len());
        assert_eq!(EQUALS.len(), sides(|pair| pair.victim));
        assert!(EQUALS.iter().all(|pair| pair.victim == pair.aggressor));
    }

    #[test]
    fn every_known_name_is_unique_and_found() {
        let names = known_names();
        let unique: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        for name in names {
            assert!(Selection::find(name).is_some(), "{name}");
        }
        assert_eq!(Selection::find("l3"), None);
        assert_eq!(Selection::find("compute/dram"), None);
        assert_eq!(Selection::find("fault/control"), None);
    }

    #[test]
    fn every_axis_needs_cells_a_probe_or_faults() {
        for axis in Axis::ALL {
            let one = Selection::Axis(axis);
            let mut entries = CATALOGUE.iter().chain(PROBED);
            let needs = entries.any(|entry| one.needs(entry.sub_axis));
            let faults = fault_classes().into_iter().any(|class| one.has_faults(class));
            assert!(needs || faults, "{axis:?}");
        }
        let one = Selection::find("fault/mmu").expect("a class");
        let mut chosen = fault_classes();
        chosen.retain(|&class| one.has_faults(class));
        assert_eq!(chosen, [Class::Mmu]);
    }

    #[test]
    fn jitter_needs_only_the_cells_of_its_sub_axis() {
        let needed: Vec<SubAxis> = CATALOGUE
            .iter()
            .map(|entry| entry.sub_axis)
            .filter(|&sub| Selection::Axis(Axis::Jitter).needs(sub))
            .collect();
        assert_eq!(needed, [SubAxis::Sm]);
    }
}
