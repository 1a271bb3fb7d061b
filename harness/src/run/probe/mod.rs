//! Probes: under each mechanism, checks of its tenants that do not produce a throughput.
//!
//! To add one, write its file with its `PROBE` and add its line to `catalogue!`. A step that
//! tenants do not know yet goes into `record/src/probe/step.rs` and `workloads/src/probe/`.
//! Findings are written unjudged; `score` makes rows and figures from them.

mod baseline;
mod campaign;
mod device_time;
mod left_out;
mod limit_bypass;
mod marked_pages;
mod memory_limit;
mod steps;
mod windows;

use std::pin::Pin;

use gpubench_record::{MechanismProperties, Plan, ProbeFound, SubAxis};

use super::RunError;
use super::tenant_set::TenantSet;
use crate::axis;
use baseline::FullDeviceBaseline;
pub use campaign::campaign;
pub use left_out::{LEFT_OUT, LeftOut};
pub use steps::step;

/// The victim's slot, and the slot of the neighbour beside it.
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;

/// A check of the tenants of a mechanism that does not produce a throughput.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Name in records.
    pub name: &'static str,
    /// The question that it answers, in one line.
    pub summary: &'static str,
    /// The sub-axis of the rows that it makes or explains, as `axis/sub-axis`.
    pub sub_axis: &'static str,
    /// Whether it makes a row with a level there; other probes explain existing rows.
    pub scored: bool,
    /// The flag of `matrix` that turns it on.
    pub flag: Flag,
    applies_to: fn(&MechanismProperties) -> bool,
    /// Its runs. Each begins with closed contexts and gives a finding.
    runs: &'static [Run],
}

/// A flag of `matrix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// Checks in which tenants keep to their limits.
    Probes,
    /// Checks in which a tenant tries to get past its limits.
    Escape,
}

/// A finding, once the steps of a run are done.
type Finding<'a> = Pin<Box<dyn Future<Output = Result<ProbeFound, RunError>> + 'a>>;

/// How a probe runs.
#[derive(Debug, Clone, Copy)]
enum Run {
    /// With the tenants of the mechanism.
    Tenants(for<'a> fn(&'a mut TenantSet) -> Finding<'a>),
    /// The same, compared with the device without a mechanism.
    AgainstBaseline(for<'a> fn(&'a mut TenantSet, &'a FullDeviceBaseline) -> Finding<'a>),
}

/// What most probes have in common.
const PROBE: Probe = Probe {
    name: "",
    summary: "",
    sub_axis: "",
    scored: false,
    flag: Flag::Probes,
    applies_to: has_neighbours,
    runs: &[],
};

/// Declares the module of each probe and registers its `PROBE`.
macro_rules! catalogue {
    ($( $module:ident, )*) => {
        $( mod $module; )*

        /// Every probe, in the order in which they run.
        pub const CATALOGUE: &[Probe] = &[ $( $module::PROBE, )* ];
    };
}

catalogue! {
    capacity,
    cap,
    out_of_memory,
    residue,
    visibility,
    time_slice_trace,
    sm_placement,
    share,
    enforcement,
    launch_latency,
    driver_calls,
    escape,
}

impl Flag {
    /// The flag on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probes => "--probes",
            Self::Escape => "--escape",
        }
    }
}

impl Probe {
    /// The sub-axes of the memory axis whose rows it makes: none, or its own.
    pub fn rows(&self) -> impl Iterator<Item = SubAxis> {
        let own = self.sub_axis;
        let rows = axis::CATALOGUE.iter().chain(axis::PROBED);
        let rows = rows.filter(move |entry| entry.name == own);
        let rows = rows.filter(|_| self.scored);
        rows.map(|entry| entry.sub_axis)
    }

    fn is_planned(&self, plan: &Plan) -> bool {
        plan.probes.iter().any(|name| name == self.name)
    }

    fn needs_baseline(&self) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|run| matches!(run, Run::AgainstBaseline(_)))
    }
}

/// Whether tenants of a mechanism share the device.
fn has_neighbours(properties: &MechanismProperties) -> bool {
    !properties.is_reference() && !properties.admits_one_tenant()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::CATALOGUE;
    use crate::axis;

    #[test]
    fn every_probe_has_a_name_a_question_a_sub_axis_and_a_run() {
        let mut names = BTreeSet::new();
        for probe in CATALOGUE {
            let name = probe.name;
            assert!(names.insert(name), "two probes are named {name:?}");
            assert!(probe.summary.ends_with('?'), "{name}: a question");
            assert!(!probe.runs.is_empty(), "{name}");
            let known = axis::CATALOGUE.iter().chain(axis::PROBED);
            assert!(
                known.into_iter().any(|axis| axis.name == probe.sub_axis),
                "{name}: {} is no sub-axis",
                probe.sub_axis
            );
        }
    }
}
