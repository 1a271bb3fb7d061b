//! A constructed run: a plan, its cells with the rates that a test chooses, and its mechanisms.

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Axis, Calibration, CeilingKind, Cell, CellFigures, CellResult, ClaimedWord, Condition,
    Durations, Gate, GateKind, GateResult, GateScope, GateState, MatrixRow, MechanismProperties,
    MechanismRow, Outcome, OverallRow, PeakEntry, Plan, PlannedPair, ProbeResult, Proof, ProofTime,
    Shape, Sparse, SubAxis, Thresholds,
};

use crate::gate::{CLOSED_REQUESTS, OPEN_REQUESTS};
use crate::score::{ScoreInput, Scored, score};

pub(super) const SLICING: &str = "time-slicing[slice=default]";
pub(super) const QUOTA: &str = "mps-quota[pct=50]";
pub(super) const MIG: &str = "mig[3g+3g]";
const GROUP: &str = "plain";

/// Owns what [`ScoreInput`] borrows.
#[derive(Debug, Clone)]
pub(super) struct Lab {
    pub plan: Plan,
    pub cells: Vec<CellResult>,
    pub mechanisms: Vec<MechanismRow>,
    pub probes: Vec<ProbeResult>,
    pub calibration: Calibration,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub rate_per_s: f64,
    /// Median and p99 of the open loop, in native medians of 1 ms.
    pub p50: f64,
    pub p99: f64,
}

/// This rate, with the latencies of the native GPU.
pub(super) fn rate(rate_per_s: f64) -> Figures {
    Figures { rate_per_s, p50: 1.0, p99: 1.2 }
}

impl Lab {
    /// Blocks of one sub-axis under the given variants, each with its unprotected form. A form that
    /// is not among the variants has U cells of its own. `figures` gives the figures of a cell by
    /// variant, condition and block.
    pub(super) fn new(
        variants: &[(&str, Option<&str>)],
        blocks: u32,
        figures: impl Fn(&str, Condition, u32) -> Figures,
    ) -> Self {
        let mut planned = Vec::new();
        let mut conditions = vec![("exclusive", Condition::N), ("exclusive", Condition::NAgain)];
        for (variant, form) in variants {
            planned.push(PlannedMechanism {
                properties: MechanismProperties::of_format_1_0(name(variant)),
                name: name(variant).to_owned(),
                variant: (*variant).to_owned(),
                host_changes: Vec::new(),
                unprotected: form.map(str::to_owned),
            });
            conditions
                .extend([Condition::S, Condition::SAgain, Condition::C].map(|c| (*variant, c)));
            let own_cells = form.filter(|form| !variants.iter().any(|(one, _)| one == form));
            conditions.extend(own_cells.map(|form| (form, Condition::U)));
        }
        let mut lab = Self {
            plan: plan(planned, blocks),
            cells: Vec::new(),
            mechanisms: std::iter::once("exclusive")
                .chain(variants.iter().map(|(variant, _)| *variant))
                .map(mechanism)
                .collect(),
            probes: Vec::new(),
            calibration: calibrated(),
        };
        for block in 0..blocks {
            for (variant, condition) in &conditions {
                lab.push(variant, *condition, block, figures(variant, *condition, block));
            }
        }
        lab
    }

    /// Only time-slicing, with rates of N, S and C that are the same in every block.
    pub(super) fn slicing(native: f64, solo: f64, contended: f64) -> Self {
        Self::new(&[(SLICING, Some(SLICING))], 8, |_, condition, _| {
            rate(match condition {
                Condition::N | Condition::NAgain => native,
                Condition::S | Condition::SAgain => solo,
                Condition::C | Condition::U => contended,
            })
        })
    }

    /// A variant whose unprotected form is `mps`, with rates of N, S, C and U.
    pub(super) fn protected(variant: &str, rates: [f64; 4]) -> Self {
        let [native, solo, contended, unprotected] = rates;
        Self::new(&[(variant, Some("mps"))], 8, |_, condition, _| {
            rate(match condition {
                Condition::N | Condition::NAgain => native,
                Condition::S | Condition::SAgain => solo,
                Condition::C => contended,
                Condition::U => unprotected,
            })
        })
    }

    fn push(&mut self, variant: &str, condition: Condition, block: u32, figures: Figures) {
        let cell = Cell {
            id: format!("{:04}-b{block:02}-{}", self.cells.len(), condition.as_str()),
            block,
            group: GROUP.to_owned(),
            mechanism: name(variant).to_owned(),
            variant: variant.to_owned(),
            sub_axis: SubAxis::Sm,
            condition,
            victim: "compute".to_owned(),
            aggressor: condition.has_aggressor().then(|| "fma-hog".to_owned()),
            dose: if condition.has_aggressor() { 1.0 } else { 0.0 },
            tenants: Vec::new(),
            schedule_seed: 0,
            closed_only: false,
            sparse: Some(Sparse { length_ns: 1, pause_ns: 1 }),
            shape: Shape::default(),
        };
        self.cells.push(result(&cell, figures));
        self.plan.cells.push(cell);
    }

    /// Sets the share of its resource's peak that an aggressor reaches.
    pub(super) fn peak(&mut self, aggressor: &str, share: f64) {
        let entry = peak(share);
        self.calibration.peaks.insert(aggressor.to_owned(), entry);
    }

    pub(super) fn score(&self) -> Scored {
        score(&self.input()).expect("results and plan belong together")
    }

    pub(super) fn input(&self) -> ScoreInput<'_> {
        ScoreInput {
            plan: &self.plan,
            cells: &self.cells,
            fault_trials: &[],
            earlier_trials: &[],
            fault_stop: None,
            mechanisms: &self.mechanisms,
            calibration: &self.calibration,
            probes: &self.probes,
        }
    }

    pub(super) fn row(&self, variant: &str, axis: &str) -> MatrixRow {
        let rows = self.score().matrix;
        let found = rows.into_iter().find(|row| row.variant == variant && row.axis == axis);
        found.expect("a row of that variant and axis")
    }

    pub(super) fn overall(&self, variant: &str) -> OverallRow {
        let rows = self.score().overall;
        rows.into_iter().find(|row| row.variant == variant).expect("an overall row")
    }

    pub(super) fn each(&mut self, condition: Condition) -> impl Iterator<Item = &mut CellResult> {
        self.cells.iter_mut().filter(move |result| result.cell.condition == condition)
    }

    /// Replaces the proofs of a variant.
    pub(super) fn prove(&mut self, variant: &str, hardware: bool, limiter: bool) {
        for row in self.mechanisms.iter_mut().filter(|row| row.variant == variant) {
            row.proof = vec![Proof { hardware, limiter, ..proof(true) }];
        }
    }
}

/// The level and the word of a row.
pub(super) fn verdict(row: &MatrixRow) -> (Option<&str>, Option<&str>) {
    (row.level.as_deref(), row.word.as_deref())
}

// The parts of a constructed run: its plan, and valid results of cells and mechanisms.

fn name(variant: &str) -> &str {
    variant.split('[').next().unwrap_or(variant)
}

fn plan(mechanisms: Vec<PlannedMechanism>, blocks: u32) -> Plan {
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
        meters: Vec::new(),
        axes: vec!["compute".to_owned(), "jitter".to_owned()],
        blocks,
        looks: 1,
        durations: Durations { warmup_ns: 1, closed_ns: 1, open_ns: 1, gap_ns: 1, sparse_ns: 0 },
        thresholds: Thresholds::default(),
        margins: None,
        mechanisms,
        cells: Vec::new(),
        fault_trials: Vec::new(),
        probes: Vec::new(),
        workloads: BTreeMap::new(),
        pairs: ["fma-hog", "block-slots"].map(pair).into(),
        jitter_from: SubAxis::Sm,
        jitter_pairs: None,
        reference: "exclusive".to_owned(),
        claimed: claimed(),
        claims: Vec::new(),
        skips: Vec::new(),
        rotation: None,
        soak: None,
        time: Vec::new(),
        top_up: None,
        frozen: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
    }
}

/// A calibration in which the usual aggressor reaches the peak of its resource.
fn calibrated() -> Calibration {
    let peaks = BTreeMap::from([("fma-hog".to_owned(), peak(0.99))]);
    Calibration { peaks, ..Calibration::default() }
}

/// An aggressor that reaches this share of the hardware's peak.
fn peak(share: f64) -> PeakEntry {
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
        cited: None,
        sub_axes: Vec::new(),
        source: source.to_owned(),
        mechanism: mechanism.to_owned(),
        axis,
        word: word.to_owned(),
    };
    words.map(claimed).into()
}

fn mechanism(variant: &str) -> MechanismRow {
    MechanismRow {
        name: name(variant).to_owned(),
        variant: variant.to_owned(),
        outcome: Outcome::measured(),
        remedy: None,
        proof: vec![proof(true)],
        tenants: BTreeMap::new(),
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

/// Lone requests with the same median and 99th percentile.
pub(in crate::score::tests) fn lone_ns(figures: &CellFigures) -> Vec<u64> {
    let ns = |quantile: Option<f64>| quantile.unwrap_or(0.0) as u64;
    let (p50, p99) = (ns(figures.open_latency_p50_ns), ns(figures.open_latency_p99_ns));
    [vec![p50; 196], vec![p99; 4]].concat()
}

fn result(cell: &Cell, figures: Figures) -> CellResult {
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
        lone_ns: lone_ns(&figures),
        meters: Vec::new(),
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
