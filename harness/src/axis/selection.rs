//! The names by which profiles and `--axis` request a part of the catalogue.

use gpubench_record::{Axis, SubAxis};
use gpubench_workloads::fault::{self, Class};

use super::{CATALOGUE, JITTER_SUB_AXIS, PROBED, is_probed};

/// A part of the catalogue that a user can request by one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// An axis with all its sub-axes, or the jitter axis.
    Axis(Axis),
    Sub(SubAxis),
    /// One class of faults, a sub-axis of the fault axis.
    Faults(Class),
}

impl Selection {
    /// Finds a selection by the name that [`known_names`] lists.
    #[must_use]
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
    #[must_use]
    pub fn needs(self, sub_axis: SubAxis) -> bool {
        match self {
            Self::Axis(Axis::Jitter) => sub_axis == JITTER_SUB_AXIS,
            Self::Axis(axis) => sub_axis.axis() == axis,
            Self::Sub(sub) => sub_axis == sub,
            Self::Faults(_) => false,
        }
    }

    /// Whether it includes this class of faults.
    #[must_use]
    pub fn has_faults(self, class: Class) -> bool {
        match self {
            Self::Axis(axis) => axis == Axis::Fault,
            Self::Sub(_) => false,
            Self::Faults(own) => own == class,
        }
    }

    /// Whether probes or fault trials answer it, so that it needs no pair.
    #[must_use]
    pub fn needs_no_pair(self) -> bool {
        match self {
            Self::Axis(axis) => matches!(axis, Axis::Memory | Axis::Fault),
            Self::Sub(sub_axis) => is_probed(sub_axis),
            Self::Faults(_) => true,
        }
    }
}

/// The classes of faults, which are the sub-axes of the fault axis, without the controls.
#[must_use]
pub fn fault_classes() -> Vec<Class> {
    let scored = fault::CATALOGUE.iter().map(|fault| fault.class);
    let mut classes: Vec<Class> = scored.filter(|&class| class != Class::Control).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// Every name that [`Selection::find`] accepts: axes first, then `axis/sub-axis`.
#[must_use]
pub fn known_names() -> Vec<&'static str> {
    let axes = Axis::ALL.into_iter().map(Axis::as_str);
    let subs = CATALOGUE.iter().chain(PROBED).map(|entry| entry.name);
    let faults = fault_classes().into_iter().map(Class::path);
    axes.chain(subs).chain(faults).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
