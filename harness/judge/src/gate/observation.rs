//! What one cell that ran is judged from.

use std::collections::BTreeMap;

use gpubench_record::{
    Bursts, Cell, Durations, EccSpan, EventObserved, MeterReading, Role, SampleRow, TenantResult,
    Thresholds, Unobserved,
};

use super::{CellXid, Proofs};

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
    pub cell: &'a Cell,
    pub durations: &'a Durations,
    pub thresholds: &'a Thresholds,
    pub clock: ClockKind,
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

#[derive(Debug, Clone, Copy)]
pub struct Tenant<'a> {
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
    pub xids: Option<&'a [CellXid]>,
    /// Counters of error correction at the end of the cell before and of this one.
    pub ecc: Option<EccSpan>,
    /// Processes that stamp samples and are in another time namespace.
    pub other_clocks: Option<&'a [String]>,
    /// Failed observations with their errors.
    pub unobserved: &'a BTreeMap<Unobserved, String>,
    /// Mean clock of the SMs in the closed loop.
    pub sm_clock_khz: Option<u64>,
    /// The event of the cell; `None` where it has none.
    pub event: Option<&'a EventObserved>,
    /// Readings of the vendor's counters.
    pub meters: &'a [MeterReading],
    /// Share of CPU time that a hypervisor took, 0 to 1.
    pub steal: Option<f64>,
    /// Speed of the device over its first speed, as logarithms: by the check kernel before the cell
    /// and after it.
    pub speed_ln: Option<[f64; 2]>,
    /// Proofs of the mechanism taken around this cell.
    pub proofs: Proofs<'a>,
}
