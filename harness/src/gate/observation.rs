//! What one cell that ran is judged from.

use std::collections::BTreeMap;

use gpubench_record::sample::MISSING;
use gpubench_record::{
    Bursts, Cell, Durations, EccSpan, Role, SampleRow, TenantResult, Thresholds, Unobserved,
};

use super::beside::completions_per_s;
use super::catalogue::finite;
use super::closed::Windows;
use super::{CellXid, Findings, Proofs};

/// Which clock the tenants' timestamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockKind {
    /// The clock of the virtual GPU: no timer is late, and no hypervisor takes CPU time.
    Virtual,
    /// The monotonic clock of the host.
    Wall,
}

/// One cell that ran, with the logs of its tenants.
#[derive(Debug, Clone, Copy)]
pub struct CellObservation<'a> {
    /// The cell as planned.
    pub cell: &'a Cell,
    /// Length of its parts.
    pub durations: &'a Durations,
    /// The thresholds of the profile.
    pub thresholds: &'a Thresholds,
    pub clock: ClockKind,
    /// Its tenants, the victim first.
    pub tenants: &'a [Tenant<'a>],
    /// Arrival rate of the victim's open loop; `None` where the schedule is unknown.
    pub offered_per_s: Option<f64>,
    /// How its arrivals bunch; `None` for plain Poisson arrivals.
    pub bursts: Option<Bursts>,
    /// The promised latency; `None` where the profile promises none.
    pub slo_ns: Option<u64>,
    /// Native peak rate of one aggressor without a neighbour, from calibration.
    pub aggressor_peak_per_s: Option<f64>,
    /// Service time of the victim's request from calibration, in ns.
    pub calibrated_service_ns: Option<u64>,
    /// Whether the victim is the user's own program, which times its own requests.
    pub is_user_victim: bool,
    /// Why the coordinator gave the cell up; `None` where the cell ran to its end.
    pub failure: Option<&'a str>,
    /// Observations of the host and the device while the cell ran.
    pub host: Host<'a>,
}

/// One tenant with its log.
#[derive(Debug, Clone, Copy)]
pub struct Tenant<'a> {
    /// The tenant as planned, and what it reported.
    pub result: &'a TenantResult,
    /// The committed rows of its log, in any order.
    pub rows: &'a [SampleRow],
    /// `CUresult`s of refusals that answer its requests as well as a success does.
    pub answering_codes: &'a [i32],
}

impl Tenant<'_> {
    pub(super) fn name(&self) -> &str {
        &self.result.planned.tenant
    }

    pub(super) fn role(&self) -> Role {
        self.result.planned.role
    }

    pub(super) fn death(&self) -> Option<&str> {
        self.result.death.as_deref()
    }
}

/// Observations of host and device while the cell ran; unobserved values are `None`.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// Processes on the GPU that are not tenants.
    pub other_pids: Option<&'a [u32]>,
    /// NVML's bit mask of reasons for throttling.
    pub throttle_reasons: Option<u64>,
    /// Xid errors of the device.
    pub xids: Option<&'a [CellXid]>,
    /// Counters of error correction at the end of the cell before and of this one.
    pub ecc: Option<EccSpan>,
    /// Processes that stamp samples and are in another time namespace.
    pub other_clocks: Option<&'a [String]>,
    /// Failed observations with their errors.
    pub unobserved: &'a BTreeMap<Unobserved, String>,
    /// Mean clock of the SMs in the closed loop.
    pub sm_clock_khz: Option<u64>,
    /// Share of CPU time that a hypervisor took, 0 to 1.
    pub steal: Option<f64>,
    /// Speed of the device over its first speed, as logarithms: by the check kernel before the cell
    /// and after it.
    pub speed_ln: Option<[f64; 2]>,
    /// Proofs of the mechanism taken around this cell.
    pub proofs: Proofs<'a>,
}

// Figures of each tenant of a contended cell, for the operator's view: the rate of each aggressor
// and the GPU time of every tenant.

pub(super) fn measure(observation: &CellObservation<'_>, windows: &Windows, found: &mut Findings) {
    if !observation.cell.condition.has_aggressor() {
        return;
    }
    for tenant in observation.tenants {
        let name = tenant.name();
        // A victim has the rate of the cell. A peer follows a schedule, so its rate is no speed.
        if tenant.role() == Role::Aggressor {
            let rate = completions_per_s(tenant, windows.closed);
            if let Some(rate) = rate.and_then(finite) {
                found.figures.tenant(name).rate_per_s = Some(rate);
            }
        }
        // After a cell without an open loop the neighbours go on until the victim's last request
        // has ended; that time counts for no tenant.
        let of_cell = tenant.rows.iter();
        let of_cell = of_cell.filter(|row| row.t_issue_ns < windows.open.end_ns);
        let measured = of_cell.map(|row| row.gpu_ns);
        let measured: Vec<u64> = measured.filter(|ns| *ns != MISSING).collect();
        if !measured.is_empty() {
            let sum_ns = measured.into_iter().fold(0, u64::saturating_add);
            found.figures.tenant(name).gpu_time_ns = Some(sum_ns as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use gpubench_record::Condition;
    use gpubench_record::sample::MISSING;

    use crate::gate::fixture::{MS, World};

    #[test]
    fn each_tenant_has_its_gpu_time_and_each_neighbour_its_rate() {
        let mut world = World::new(Condition::C, MS);
        let count = world.rows[0].len();
        assert!(count > 10 && world.rows.len() == 2);
        for row in world.rows.iter_mut().flatten() {
            row.gpu_ns = 1_000;
        }
        world.rows[0][0].gpu_ns = MISSING;
        let mut late = world.rows[1][0];
        late.t_issue_ns = world.durations.cell_ns();
        world.rows[1].push(late);
        let (figures, tenants) = (world.judge().figures, &world.cell.tenants);
        let of = |slot: usize| figures.tenants[&tenants[slot].tenant];
        let time = |slot: usize| of(slot).gpu_time_ns;
        assert_eq!(time(0), Some((count - 1) as f64 * 1_000.0));
        assert_eq!(time(1), Some((world.rows[1].len() - 1) as f64 * 1_000.0));
        let rate = |slot: usize| of(slot).rate_per_s;
        assert_eq!(rate(0), None, "the victim has the rate of the cell");
        assert!(rate(1).is_some_and(|rate| (rate - 1e9 / (3.0 * MS as f64)).abs() < 1.0));
    }

    /// A record reads back as it was written.
    #[test]
    fn a_tenant_without_a_figure_has_no_entry() {
        let mut world = World::new(Condition::C, MS);
        world.rows[1].truncate(1);
        world.rows.iter_mut().flatten().for_each(|row| row.gpu_ns = MISSING);
        assert!(world.judge().figures.tenants.is_empty());
    }
}
