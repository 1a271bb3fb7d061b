//! What the time of a run will be spent on.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{Cell, Plan, PlannedTime, TimePart};

use crate::budget::phase_ns;

const MS: u64 = 1_000_000;

// Costs that follow from this program or were measured on their own.

/// From the message to start to the common start, on a host with enough cores.
const LEAD_NS: u64 = 50 * MS;
/// A context, and the first module of a process: measured on an H100 80GB HBM3, driver 580.
const CONTEXT_NS: u64 = 105 * MS;
const FIRST_MODULE_NS: u64 = 100 * MS;
/// Windows of the heating of a device that is steady from the start.
const HEATING_WINDOWS: u64 = 5;

// Guesses: no run on hardware has split these costs.

/// Filling the buffers of a workload, and clearing an output.
const FILL_NS: u64 = 20 * MS;
const CLEAR_NS: u64 = 2 * MS;
/// Starting and ending a process.
const TENANT_NS: u64 = 150 * MS;
/// Starting and ending a daemon, and a change of a device setting with its undoing.
const DAEMON_NS: u64 = 1_000 * MS;
const SWITCH_NS: u64 = 8_000 * MS;
/// Observations and digests after a cell.
const PROOF_NS: u64 = 20 * MS;
/// Sizing one workload, the probes of one kind under one mechanism, and what a fault trial takes
/// beside its window.
const SIZING_NS: u64 = 1_500 * MS;
const PROBE_NS: u64 = 3_000 * MS;
const TRIAL_NS: u64 = 1_000 * MS;

/// The time that each part of a run takes, those that take none left out.
pub fn time_of(plan: &Plan) -> Vec<PlannedTime> {
    let mut sums: BTreeMap<TimePart, u64> = BTreeMap::new();
    let mut add = |part, ns: u64| *sums.entry(part).or_insert(0) += ns;
    let (mut before, mut workloads): (Option<&Cell>, BTreeSet<&str>) = (None, BTreeSet::new());
    // The variants with processes in the present state of the host.
    let (mut switches, mut started) = (0_u64, BTreeSet::new());
    for cell in &plan.cells {
        let durations = plan.durations_of(cell);
        add(TimePart::WarmUp, durations.warmup_ns);
        add(TimePart::Windows, durations.cell_ns() - durations.warmup_ns);
        add(TimePart::Waiting, LEAD_NS + phase_ns(plan, cell));
        add(TimePart::Proofs, PROOF_NS);
        if before.is_none_or(|before| host_of(plan, before) != host_of(plan, cell)) {
            switches += 1;
            started.clear();
            let (part, ns) = match host_of(plan, cell).1 {
                None => (TimePart::Switches, 0),
                Some(one) if one.properties.mps_daemon => (TimePart::Daemons, DAEMON_NS),
                Some(_) => (TimePart::Switches, SWITCH_NS),
            };
            add(part, ns);
        }
        let tenants = cell.tenants.len() as u64;
        if started.insert(cell.variant.as_str()) {
            add(TimePart::Tenants, tenants * TENANT_NS);
            // They load it at the same time.
            add(TimePart::Modules, FIRST_MODULE_NS);
        }
        let stays = before.filter(|before| before.variant == cell.variant);
        if stays.is_none() {
            add(TimePart::Contexts, CONTEXT_NS);
        }
        let is_kept = stays.is_some_and(|before| before.victim == cell.victim);
        let busy = cell.tenants.iter().filter_map(|tenant| tenant.workload.as_deref());
        add(
            TimePart::Buffers,
            busy.clone().count() as u64 * if is_kept { CLEAR_NS } else { FILL_NS },
        );
        workloads.extend(busy);
        before = Some(cell);
    }
    add(TimePart::Calibration, workloads.len() as u64 * SIZING_NS);
    add(TimePart::Probes, (plan.probes.len() * plan.mechanisms.len()) as u64 * PROBE_NS);
    let trials = plan.fault_trials.iter();
    add(TimePart::Faults, trials.map(|trial| trial.window_ns + TRIAL_NS).sum());
    if let Some(soak) = plan.soak {
        let checks = 2 * switches + plan.device_time_ns() / soak.every_ns.max(1);
        add(TimePart::SpeedChecks, soak.limit_ns.min(HEATING_WINDOWS * soak.window_ns));
        add(TimePart::SpeedChecks, checks * (soak.check_ns + 2 * CONTEXT_NS));
    }
    let guessed = |part| {
        use TimePart::{Contexts, Modules, SpeedChecks, Waiting, WarmUp, Windows};
        !matches!(part, Windows | WarmUp | Waiting | Contexts | Modules | SpeedChecks)
    };
    let parts = sums.into_iter().filter(|(_, ns)| *ns > 0);
    parts.map(|(part, ns)| PlannedTime { part, ns, guessed: guessed(part) }).collect()
}

/// How long the units of a run take, beside each other: what a progress line needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Beside the loops of a cell.
    pub cell_ns: u64,
    /// One nanosecond of a loop takes a nanosecond divided by this.
    pub speed: u64,
    /// All probes of one mechanism.
    pub probes_ns: u64,
    /// A fault trial.
    pub trial_ns: u64,
}

impl Pace {
    /// On a GPU what the plan says. On a virtual one time is what the host computes: costs of a
    /// virtual H100 on two cores, of which only the proportions matter.
    pub fn of(plan: &Plan, is_virtual: bool) -> Self {
        use TimePart::{Calibration, Faults, Probes, WarmUp, Windows};
        let probes = plan.probes.len() as u64;
        if is_virtual {
            let (cell_ns, speed) = (20 * MS, 20);
            return Self { cell_ns, speed, probes_ns: probes * 250 * MS, trial_ns: 100 * MS };
        }
        let beside = time_of(plan).into_iter();
        let beside = beside
            .filter(|one| !matches!(one.part, Calibration | Faults | Probes | Windows | WarmUp));
        let beside_ns: u64 = beside.map(|one| one.ns).sum();
        let cells = plan.cells.len().max(1) as u64;
        let cell_ns = beside_ns / cells;
        Self { cell_ns, speed: 1, probes_ns: probes * PROBE_NS, trial_ns: TRIAL_NS }
    }
}

/// The state of the host that a cell needs, as far as a plan has it: its group, and the mechanism
/// that has a daemon or a setting of its own.
fn host_of<'p>(plan: &'p Plan, cell: &'p Cell) -> (&'p str, Option<&'p PlannedMechanism>) {
    let is_of = |one: &&PlannedMechanism| {
        one.variant == cell.variant || one.unprotected.as_ref() == Some(&cell.variant)
    };
    let own = plan.mechanisms.iter().find(is_of);
    let changes = |one: &&PlannedMechanism| {
        !one.host_changes.is_empty() && !one.properties.accounting_library
    };
    (&cell.group, own.filter(changes))
}
