//! The plan of a device check, for `doctor`: native cells of one tenant.

use std::collections::BTreeMap;

use gpubench_record::{Cell, CellTenant, Condition, Durations, Plan, Role, SubAxis};

use crate::catalogue::REFERENCE;
use crate::profile::Profile;

/// The workload of full load on the SMs.
pub const FULL_LOAD: &str = "fma-hog";
/// The workload of full load on the memory.
pub const FULL_COPY: &str = "dram-copy";
/// The victim of the A/A pairs.
pub const PAIR_VICTIM: &str = "compute";
/// A/A pairs: two equal cells each.
pub const PAIRS: u32 = 8;
/// Name of the tenant.
pub const TENANT: &str = "victim";

/// Parts of a cell. They are short, so that `doctor` is quick; the longer cells of a matrix spread
/// less. Only the cell of [`FULL_LOAD`] has an open loop.
const DURATIONS: Durations =
    Durations { warmup_ns: 30_000_000, closed_ns: 150_000_000, gap_ns: 0, open_ns: 500_000_000 };
/// Open load of the full load: more than the device completes, so that its queue fills. A closed
/// loop has two requests outstanding, and the device is idle while the thread that waits for them
/// has no core; on a busy host no sample of the clocks is then under load.
const LOAD: f64 = 1.5;
/// Time between two readings of the clocks.
const TELEMETRY_PERIOD_NS: u64 = 10_000_000;

/// A device check: one cell of each full load, then the A/A pairs.
#[must_use]
pub fn device_check(profile: &Profile) -> Plan {
    let pairs = std::iter::repeat_n(PAIR_VICTIM, 2 * PAIRS as usize);
    let victims = [FULL_LOAD, FULL_COPY].into_iter().chain(pairs);
    let cells = victims.zip(0_u32..).map(|(victim, number)| cell(victim, number));
    Plan {
        profile: profile.name.clone(),
        profile_hash: String::new(),
        decides: false,
        seed: profile.seed,
        tenants: 1,
        share: 1.0,
        load: LOAD,
        bursts: None,
        slo_ns: None,
        slo_share: profile.slo_share,
        neighbours: Vec::new(),
        sweep: Vec::new(),
        service_ns: profile.service.ns,
        telemetry_period_ns: TELEMETRY_PERIOD_NS,
        axes: Vec::new(),
        blocks: 1,
        durations: DURATIONS,
        thresholds: profile.thresholds.clone(),
        margins: None,
        mechanisms: Vec::new(),
        // Its tenants run without a mechanism.
        required_proofs: Some(BTreeMap::new()),
        user_victim: None,
        cells: cells.collect(),
        fault_trials: Vec::new(),
        probes: Vec::new(),
        // No workload here has facts that a gate needs.
        workloads: BTreeMap::new(),
        pairs: Vec::new(),
        jitter_from: SubAxis::Sm,
        reference: REFERENCE.to_owned(),
        claimed: Vec::new(),
        claims: Vec::new(),
        skips: Vec::new(),
        rotation: None,
        soak: None,
        top_up: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
    }
}

fn cell(victim: &str, number: u32) -> Cell {
    Cell {
        id: format!("{number:04}-{victim}"),
        block: 0,
        group: REFERENCE.to_owned(),
        mechanism: REFERENCE.to_owned(),
        variant: REFERENCE.to_owned(),
        sub_axis: SubAxis::Sm,
        condition: Condition::N,
        victim: victim.to_owned(),
        aggressor: None,
        dose: 0.0,
        tenants: vec![CellTenant {
            tenant: TENANT.to_owned(),
            role: Role::Victim,
            workload: Some(victim.to_owned()),
        }],
        schedule_seed: 1,
        closed_only: victim != FULL_LOAD,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FULL_LOAD, PAIR_VICTIM, PAIRS, device_check};
    use crate::profile::{Overrides, load};

    #[test]
    fn a_device_check_has_full_loads_and_an_even_number_of_equal_cells()
    -> Result<(), crate::error::ExpectedError> {
        let plan = device_check(&load("smoke", &Overrides::default())?);
        let count = |name: &str| plan.cells.iter().filter(|cell| cell.victim == name).count();
        assert_eq!(count(PAIR_VICTIM), 2 * PAIRS as usize);
        assert_eq!(count(FULL_LOAD), 1);
        // Only the open loop of the full load keeps the device busy on a busy host.
        assert!(plan.load > 1.0);
        for cell in &plan.cells {
            let open_ns = plan.durations_of(cell).open_ns;
            assert_eq!(open_ns > 0, cell.victim == FULL_LOAD, "{}", cell.id);
        }
        let ids: BTreeSet<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids.len(), plan.cells.len());
        assert!(plan.cells.iter().all(|cell| cell.tenants.len() == 1));
        Ok(())
    }
}
