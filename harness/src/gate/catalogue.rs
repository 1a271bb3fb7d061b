//! The list of gates: what each checks, and which figures of a cell its failure spoils.
//!
//! To add a gate, add its name in `record/src/gate.rs`, its entry here, and its judgement in the
//! file of this room that has the evidence.

use gpubench_record::{Gate, GateKind, GateScope};

#[derive(Debug)]
pub struct GateEntry {
    pub gate: Gate,
    /// What it asks.
    pub kind: GateKind,
    /// What its failure spoils.
    pub scope: GateScope,
    /// What it checks, in one line.
    pub summary: &'static str,
}

const fn entry(gate: Gate, kind: GateKind, scope: GateScope, summary: &'static str) -> GateEntry {
    GateEntry { gate, kind, scope, summary }
}

const fn of_cell(gate: Gate, summary: &'static str) -> GateEntry {
    entry(gate, GateKind::Validity, GateScope::Cell, summary)
}

const fn of_rows(gate: Gate, summary: &'static str) -> GateEntry {
    entry(gate, GateKind::Validity, GateScope::Nothing, summary)
}

/// A gate on what a disturbance did to the figures of this scope.
const fn disturbance(gate: Gate, scope: GateScope, summary: &'static str) -> GateEntry {
    entry(gate, GateKind::Disturbance, scope, summary)
}

/// Every gate, in the order of judgement.
pub const CATALOGUE: &[GateEntry] = &[
    of_cell(Gate::Completed, "the coordinator ran the cell to its end"),
    of_cell(Gate::TenantsAlive, "no tenant ended before the cell did"),
    of_cell(Gate::LogComplete, "the log of each tenant holds every request once"),
    of_cell(
        Gate::Results,
        "every request computed the right result, or was refused where that is an answer",
    ),
    of_cell(Gate::NeighboursIdle, "idle neighbours issued no request"),
    of_cell(Gate::ClosedRate, "the closed loop has enough completions for a rate"),
    disturbance(
        Gate::WarmUp,
        GateScope::Cell,
        "MSER-5 finds the steady state within the first half of the closed loop, or what it cuts \
         differs by 10 % at most",
    ),
    disturbance(
        Gate::Drift,
        GateScope::Cell,
        "the halves of the closed loop differ by 10 % at most",
    ),
    of_cell(Gate::Overload, "the victim kept up with the offered requests"),
    of_cell(Gate::Schedule, "requests of the open loop were due when the seed of the block says"),
    of_cell(Gate::Dose, "an aggressor below full dose was busy for the planned share of the time"),
    of_cell(
        Gate::CoResidencyClosed,
        "victim and aggressor had work outstanding together in the closed loop",
    ),
    of_cell(Gate::CoResidencyOpen, "the aggressor had work outstanding throughout the open loop"),
    of_cell(
        Gate::VictimInEveryTenth,
        "the victim issued in every tenth of the open loop that has an arrival",
    ),
    of_cell(Gate::AggressorAlive, "every aggressor lived to the end"),
    // The closed loop has no schedule, so its rate does not depend on this gate.
    disturbance(
        Gate::Lateness,
        GateScope::OpenLoop,
        "requests that the harness issued late lengthened the percentiles by a tenth of the native \
         service time or of the tail at most",
    ),
    of_cell(Gate::MechanismInForce, "the mechanism was in force while samples were taken"),
    of_cell(Gate::ForeignProcess, "no process other than the tenants was on the GPU"),
    of_cell(Gate::Throttle, "no hardware protection held the clocks of the GPU down"),
    of_cell(Gate::Xid, "the device reported no Xid"),
    of_cell(Gate::Ecc, "the device counted no error that its memory could not correct"),
    of_rows(Gate::EccCorrected, "the device counted no corrected memory error"),
    of_cell(
        Gate::TimeNamespace,
        "every process that stamps samples is in the time namespace of the coordinator",
    ),
    disturbance(
        Gate::CpuSteal,
        GateScope::Nothing,
        "no hypervisor took more than 0.5 % of the CPU time of all cores",
    ),
    disturbance(
        Gate::CpuGap,
        GateScope::Cell,
        "CPU time that the victim's threads lost lowered its rate by 10 % at most",
    ),
    of_rows(Gate::ServiceDrift, "native requests take within 10 % of the calibrated service time"),
    disturbance(
        Gate::DeviceDrift,
        GateScope::Nothing,
        "the check kernel ran before and after the cell at rates that differ by drift_max at most",
    ),
];

/// What a gate asks, and what its failure spoils.
pub(super) fn kind_and_scope_of(gate: &Gate) -> (GateKind, GateScope) {
    let entry = CATALOGUE.iter().find(|entry| entry.gate == *gate);
    entry.map_or_else(Default::default, |entry| (entry.kind, entry.scope))
}

#[cfg(test)]
mod tests {
    use super::{CATALOGUE, Gate};

    #[test]
    fn every_gate_has_one_entry_with_a_text() {
        for gate in Gate::ALL {
            let entries = CATALOGUE.iter().filter(|entry| entry.gate == *gate);
            assert_eq!(entries.count(), 1, "{gate}");
        }
        assert_eq!(CATALOGUE.len(), Gate::ALL.len());
        assert!(CATALOGUE.iter().all(|entry| !entry.summary.is_empty()));
    }
}
