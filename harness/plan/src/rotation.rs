//! What one run of a rotation measures, and what it leaves to the others of its cycle.

use gpubench_catalogue::axis::Pair;
use gpubench_record::plan::PlannedPair;
use gpubench_record::{NotPlanned, Rotation};

use super::draft::Layout;
use super::facts;
use crate::profile::Profile;

/// The position of a run in its cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    run: u32,
    runs: u32,
}

impl Turn {
    pub(super) fn of(profile: &Profile) -> Self {
        let runs = profile.rotation.runs.max(1);
        Self { run: profile.run % runs, runs }
    }

    /// Whether it is the turn of the thing with this index.
    pub(super) const fn has(self, index: usize) -> bool {
        index % self.runs as usize == self.run as usize
    }
}

/// The rotation as it is recorded; `None` for a profile that measures everything in each run.
pub(super) fn recorded(profile: &Profile, layout: &Layout<'_>) -> Option<Rotation> {
    let rotation = &profile.rotation;
    let runs = rotation.runs.max(u32::try_from(rotation.services.len()).unwrap_or(u32::MAX));
    if runs <= 1 {
        return None;
    }
    let left_out = |(pair, named): (&&'static Pair, PlannedPair)| {
        let planned = layout.doses_of(pair);
        let doses = profile.doses.iter().copied();
        let doses: Vec<f64> = doses.filter(|dose| !planned.contains(dose)).collect();
        (!doses.is_empty()).then_some(NotPlanned { pair: named, doses })
    };
    let named = facts::of_pairs(layout.pairs);
    let services = rotation.services.iter();
    Some(Rotation {
        run: profile.run,
        runs,
        not_planned: layout.pairs.iter().zip(named).filter_map(left_out).collect(),
        services_not_planned_ns: services
            .filter(|&&service| service != profile.service)
            .map(|service| service.ns)
            .collect(),
    })
}
