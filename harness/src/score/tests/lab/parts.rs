//! The parts of a constructed run: its plan, and valid results of cells and mechanisms.

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Axis, Calibration, CeilingKind, Cell, CellFigures, CellResult, ClaimedWord, Durations, Gate,
    GateKind, GateResult, GateScope, GateState, MechanismRow, Outcome, PeakEntry, Plan,
    PlannedPair, Proof, ProofTime, SubAxis, Thresholds,
};

use super::Figures;
use crate::gate::{CLOSED_REQUESTS, OPEN_REQUESTS};

pub(super) fn name(variant: &str) -> &str {
    variant.split('[').next().unwrap_or(variant)
}

pub(super) fn plan(mechanisms: Vec<PlannedMechanism>, blocks: u32) -> Plan {
    Plan {
        profile: "default".to_owned(),
        profile_hash: String::new(),
        decides: true,
        required_proofs: Some(BTreeMap::new()),
        user_victim: None,
        seed: 1,
        tenants: 2,
        share: 3.0 / 7.0,
        load: 0.25,
        bursts: None,
        slo_ns: None,
        slo_share: 0.99,
        neighbours: Vec::new(),
        sweep: Vec::new(),
        service_ns: 1_000_000,
        telemetry_period_ns: 0,
        axes: vec!["compute".to_owned(), "jitter".to_owned()],
        blocks,
        durations: Durations { warmup_ns: 1, closed_ns: 1, open_ns: 1, gap_ns: 1 },
        thresholds: Thresholds::default(),
        margins: None,
        mechanisms,
        cells: Vec::new(),
        fault_trials: Vec::new(),
        probes: Vec::new(),
        workloads: BTreeMap::new(),
        pairs: ["fma-hog", "block-slots"].map(pair).into(),
        jitter_from: SubAxis::Sm,
        reference: "exclusive".to_owned(),
        claimed: claimed(),
        claims: Vec::new(),
        skips: Vec::new(),
        rotation: None,
        soak: None,
        top_up: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
    }
}

/// A calibration in which the usual aggressor reaches the peak of its resource.
pub(super) fn calibrated() -> Calibration {
    let peaks = BTreeMap::from([("fma-hog".to_owned(), peak(0.99))]);
    Calibration { peaks, ..Calibration::default() }
}

/// An aggressor that reaches this share of the hardware's peak.
pub(super) fn peak(share: f64) -> PeakEntry {
    PeakEntry {
        alone_per_s: share * 2e12,
        peak_per_s: 2e12,
        ceiling: CeilingKind::Hardware,
        source: "clock x width".to_owned(),
        unit: "operations".to_owned(),
    }
}

fn pair(aggressor: &str) -> PlannedPair {
    PlannedPair {
        sub_axis: SubAxis::Sm,
        victim: "compute".to_owned(),
        aggressor: aggressor.to_owned(),
    }
}

fn claimed() -> Vec<ClaimedWord> {
    let words = [
        ("S0", "time-slicing", Axis::Compute, "None"),
        ("S1", "time-slicing", Axis::Compute, "None"),
        ("S0", "time-slicing", Axis::Jitter, "High"),
        ("S0", "mps-quota", Axis::Compute, "None"),
        ("S0", "mps-quota", Axis::Jitter, "Low-Medium"),
        ("S0", "hami", Axis::Compute, "Software"),
        ("S1", "hami", Axis::Compute, "Soft"),
    ];
    let claimed = |(source, mechanism, axis, word): (&str, &str, Axis, &str)| ClaimedWord {
        source: source.to_owned(),
        mechanism: mechanism.to_owned(),
        axis,
        word: word.to_owned(),
    };
    words.map(claimed).into()
}

pub(super) fn mechanism(variant: &str) -> MechanismRow {
    MechanismRow {
        name: name(variant).to_owned(),
        variant: variant.to_owned(),
        outcome: Outcome::measured(),
        remedy: None,
        proof: vec![proof(true)],
    }
}

pub(in crate::score::tests) fn proof(holds: bool) -> Proof {
    Proof {
        when: ProofTime::During,
        t_ns: None,
        check: "processes on the device".to_owned(),
        holds,
        evidence: "two".to_owned(),
        hardware: false,
        limiter: false,
    }
}

/// A failed gate.
pub(in crate::score::tests) fn gate(
    gate: Gate,
    kind: GateKind,
    scope: GateScope,
    detail: &str,
) -> GateResult {
    GateResult {
        gate,
        kind,
        state: GateState::Failed,
        scope,
        value: None,
        limit: None,
        unit: None,
        detail: detail.to_owned(),
    }
}

/// The result of a cell with these figures.
pub(super) fn result(cell: &Cell, figures: Figures) -> CellResult {
    let figures = CellFigures {
        closed_rate_per_s: Some(figures.rate_per_s),
        open_latency_p50_ns: Some(figures.p50 * 1e6),
        open_latency_p99_ns: Some(figures.p99 * 1e6),
        offered_per_s: Some(250.0),
        goodput_per_s: Some(250.0),
        backlog_slope_per_s: Some(0.0),
        ..CellFigures::default()
    };
    let in_virtual_time = |of: Gate| GateResult {
        state: GateState::NotApplicable,
        ..gate(of, GateKind::Disturbance, GateScope::Cell, "")
    };
    let overload = GateResult {
        state: GateState::Passed,
        ..gate(Gate::Overload, GateKind::Validity, GateScope::Cell, "")
    };
    CellResult {
        cell: cell.clone(),
        figures,
        requests: BTreeMap::from([
            (CLOSED_REQUESTS.to_owned(), 850),
            (OPEN_REQUESTS.to_owned(), 450),
        ]),
        outcome: Outcome::measured(),
        gates: [overload, in_virtual_time(Gate::Lateness), in_virtual_time(Gate::CpuGap)].into(),
        tenant_results: Vec::new(),
    }
}
