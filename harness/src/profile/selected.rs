//! What the axes of a profile select beside pairs of workloads: probes and classes of faults.

use gpubench_record::Axis;
use gpubench_workloads::fault::Class;

use super::{Profile, Wanted};
use crate::axis::{self, Selection};

impl Profile {
    /// Whether its axes include a selection that meets a condition. `"all"` includes every axis.
    #[must_use]
    pub fn selects(&self, condition: impl Fn(Selection) -> bool) -> bool {
        match &self.axes {
            Wanted::All => Axis::ALL.into_iter().map(Selection::Axis).any(condition),
            Wanted::Names(names) => {
                let mut found = names.iter().filter_map(|name| Selection::find(name));
                found.any(condition)
            }
        }
    }

    /// The classes of faults on its axes.
    #[must_use]
    pub fn fault_classes(&self) -> Vec<Class> {
        let mut classes = axis::fault_classes();
        classes.retain(|&class| self.selects(|selection| selection.has_faults(class)));
        classes
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::SubAxis;

    use super::*;
    use crate::profile::{Overrides, parse};

    #[test]
    fn axes_select_probes_and_classes_of_faults() -> Result<(), crate::profile::ProfileError> {
        let with = |axes: &str| parse("p", &format!("version = 1\n{axes}"), &Overrides::default());
        let all = with("")?;
        assert_eq!(all.fault_classes(), axis::fault_classes());
        let needs = |profile: &Profile, sub_axis| profile.selects(|one| one.needs(sub_axis));
        assert!(needs(&all, SubAxis::Residue) && needs(&all, SubAxis::Capacity));
        for (axes, residue, cap, faults) in [
            ("axes = [\"memory\"]", true, true, 0),
            ("axes = [\"memory/cap\", \"fault/sm\"]", false, true, 1),
            ("axes = [\"fault\"]", false, false, axis::fault_classes().len()),
            ("axes = [\"compute\", \"jitter\"]", false, false, 0),
        ] {
            let profile = with(axes)?;
            assert_eq!(needs(&profile, SubAxis::Residue), residue, "{axes}");
            assert_eq!(needs(&profile, SubAxis::Cap), cap, "{axes}");
            assert_eq!(profile.fault_classes().len(), faults, "{axes}");
        }
        Ok(())
    }
}
