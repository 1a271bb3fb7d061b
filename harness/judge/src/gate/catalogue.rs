//! The list of gates: what each checks, and which figures of a cell its failure spoils.
//!
//! To add a gate, add its name in `record/src/gate.rs`, its entry here, and its judgement in the
//! file of this room that has the evidence.

use std::collections::BTreeMap;

use gpubench_record::{CellFigures, Gate, GateKind, GateResult, GateScope, GateState, Outcome};

#[derive(Debug)]
pub struct GateEntry {
    pub gate: Gate,
    /// What it asks.
    pub kind: GateKind,
    /// What its failure spoils.
    pub scope: GateScope,
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
        "no request failed, except by a refusal that is an answer, and each output equals that of \
         the same work alone",
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

// Figures and gates of a cell while they are collected.

/// Figures and judgements of a cell so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub figures: CellFigures,
    pub requests: BTreeMap<String, u64>,
    pub gates: Vec<GateResult>,
    /// Why the cell failed, where it is not merely inconclusive.
    broken: Option<String>,
}

/// The figure, where a file can hold it: not-a-number and infinity are no figures.
pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

impl Findings {
    pub(super) fn count_requests(&mut self, name: &str, count: usize) {
        self.requests.insert(name.to_owned(), count as u64);
    }

    /// Adds the judgement of a gate, with the scope that the catalogue gives the gate.
    pub(super) fn gate(&mut self, gate: Gate, state: GateState, detail: impl Into<String>) {
        let (kind, scope) = kind_and_scope_of(&gate);
        self.gates.push(GateResult {
            gate,
            kind,
            state,
            scope,
            value: None,
            limit: None,
            unit: None,
            detail: detail.into(),
        });
    }

    /// Adds figure and limit to the gate that was judged last. No file can hold infinity.
    pub(super) fn numbers(&mut self, value: Option<f64>, limit: Option<f64>, unit: &str) {
        if let Some(last) = self.gates.last_mut() {
            last.value = value.filter(|value| value.is_finite());
            last.limit = limit.filter(|limit| limit.is_finite());
            last.unit = Some(unit.to_owned());
        }
    }

    /// Passes or fails a gate.
    pub(super) fn holds(&mut self, gate: Gate, holds: bool, detail: impl Into<String>) {
        let state = if holds { GateState::Passed } else { GateState::Failed };
        self.gate(gate, state, detail);
    }

    pub(super) fn not_evaluated(&mut self, gate: Gate, why: impl Into<String>) {
        self.gate(gate, GateState::NotEvaluated, why);
    }

    /// Makes the cell failed. The first reason stays.
    pub(super) fn break_cell(&mut self, why: impl Into<String>) {
        self.broken.get_or_insert(why.into());
    }

    /// The state of a gate that was judged before.
    pub(super) fn state_of(&self, gate: &Gate) -> Option<GateState> {
        let found = self.gates.iter().find(|result| result.gate == *gate)?;
        Some(found.state)
    }

    /// The outcome of the cell: measured unless it broke or a gate failed that spoils the cell as a
    /// whole.
    pub(super) fn outcome(&self) -> Outcome {
        if let Some(why) = &self.broken {
            return Outcome::failed(why.clone());
        }
        let failed = self
            .gates
            .iter()
            .filter(|gate| gate.state == GateState::Failed && gate.scope == GateScope::Cell);
        let reasons: Vec<String> =
            failed.map(|gate| format!("{}: {}", gate.gate, gate.detail)).collect();
        if reasons.is_empty() {
            return Outcome::measured();
        }
        Outcome::inconclusive(reasons.join("; "))
    }
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
