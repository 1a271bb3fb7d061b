//! Figures and gates of a cell while they are collected.

use std::collections::BTreeMap;

use gpubench_record::{CellFigures, Gate, GateResult, GateScope, GateState, Outcome};

use super::catalogue::kind_and_scope_of;

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
    /// Adds a count of requests.
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
