//! A run made by hand: a plan, its cells with the rates that a test wants, and its mechanisms.

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Axis, Calibration, Cell, CellResult, ClaimedWord, Condition, Durations, GateResult, GateScope,
    GateState, MatrixRow, MechanismRow, Outcome, OverallRow, Plan, PlannedPair, ProbeResult, Proof,
    SubAxis, Thresholds,
};

use crate::gate::figure::{
    BACKLOG_SLOPE_PER_S, CLOSED_RATE_PER_S, GOODPUT_PER_S, OFFERED_PER_S, OPEN_LATENCY_P50_NS,
    OPEN_LATENCY_P99_NS,
};
use crate::gate::{CLOSED_REQUESTS, OPEN_REQUESTS, OVERLOAD_GATE};
use crate::score::{ScoreInput, Scored, score};

pub(super) const SLICING: &str = "time-slicing[slice=default]";
pub(super) const QUOTA: &str = "mps-quota[pct=50]";
pub(super) const MIG: &str = "mig[3g+3g]";
const GROUP: &str = "plain";

/// Everything that scoring takes, owned and open to change.
#[derive(Debug, Clone)]
pub(super) struct Lab {
    pub plan: Plan,
    pub cells: Vec<CellResult>,
    pub mechanisms: Vec<MechanismRow>,
    pub peaks: BTreeMap<String, f64>,
    pub timer_floor_ns: Option<f64>,
    pub probes: Vec<ProbeResult>,
    pub calibration: Calibration,
}

/// What one cell shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shows {
    pub rate_per_s: f64,
    /// Median and p99 of the open loop, in native medians of 1 ms.
    pub p50: f64,
    pub p99: f64,
}

/// Cells whose tails are those of the native GPU.
pub(super) fn rate(rate_per_s: f64) -> Shows {
    Shows {
        rate_per_s,
        p50: 1.0,
        p99: 1.2,
    }
}

impl Lab {
    /// Eight blocks of one sub-axis under the given variants, each with its unprotected form. A
    /// form that is no variant gets U cells of its own. `shows` says what the cell of a variant,
    /// condition and block shows.
    pub(super) fn new(
        variants: &[(&str, Option<&str>)],
        blocks: u32,
        shows: impl Fn(&str, Condition, u32) -> Shows,
    ) -> Self {
        let mut planned = Vec::new();
        let mut places = vec![
            ("exclusive", Condition::N),
            ("exclusive", Condition::NAgain),
        ];
        for (variant, form) in variants {
            planned.push(PlannedMechanism {
                properties: gpubench_record::MechanismProperties::of_format_1_0(name(variant)),
                name: name(variant).to_owned(),
                variant: (*variant).to_owned(),
                host_changes: Vec::new(),
                unprotected: form.map(str::to_owned),
            });
            places.extend([Condition::S, Condition::SAgain, Condition::C].map(|c| (*variant, c)));
            let own_cells = form.filter(|form| !variants.iter().any(|(one, _)| one == form));
            places.extend(own_cells.map(|form| (form, Condition::U)));
        }
        let mut lab = Self {
            plan: plan(planned, blocks),
            cells: Vec::new(),
            mechanisms: std::iter::once("exclusive")
                .chain(variants.iter().map(|(variant, _)| *variant))
                .map(mechanism)
                .collect(),
            peaks: BTreeMap::from([("fma-hog".to_owned(), 0.99)]),
            timer_floor_ns: None,
            probes: Vec::new(),
            calibration: Calibration::new(BTreeMap::new()),
        };
        for block in 0..blocks {
            for (variant, condition) in &places {
                lab.push(
                    variant,
                    *condition,
                    block,
                    shows(variant, *condition, block),
                );
            }
        }
        lab
    }

    /// Time-slicing alone: `rates` of N, S and C, the same in every block.
    pub(super) fn slicing(native: f64, solo: f64, contended: f64) -> Self {
        Self::new(&[(SLICING, Some(SLICING))], 8, |_, condition, _| {
            rate(match condition {
                Condition::N | Condition::NAgain => native,
                Condition::S | Condition::SAgain => solo,
                Condition::C | Condition::U => contended,
            })
        })
    }

    /// A variant that is held against an unprotected form with cells of its own.
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

    fn push(&mut self, variant: &str, condition: Condition, block: u32, shows: Shows) {
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
        };
        self.cells.push(result(&cell, shows));
        self.plan.cells.push(cell);
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
            aggressor_peaks: &self.peaks,
            calibration: &self.calibration,
            probes: &self.probes,
            timer_floor_ns: self.timer_floor_ns,
        }
    }

    /// The row of this variant and axis.
    pub(super) fn row(&self, variant: &str, axis: &str) -> MatrixRow {
        let rows = self.score().matrix;
        let found = rows
            .into_iter()
            .find(|row| row.variant == variant && row.axis == axis);
        found.expect("a row of that variant and axis")
    }

    pub(super) fn overall(&self, variant: &str) -> OverallRow {
        let rows = self.score().overall;
        rows.into_iter()
            .find(|row| row.variant == variant)
            .expect("an overall row")
    }

    /// The cells of one condition, to be changed.
    pub(super) fn each(&mut self, condition: Condition) -> impl Iterator<Item = &mut CellResult> {
        self.cells
            .iter_mut()
            .filter(move |result| result.cell.condition == condition)
    }

    pub(super) fn prove(&mut self, variant: &str, hardware: bool, limiter: bool) {
        for row in self
            .mechanisms
            .iter_mut()
            .filter(|row| row.variant == variant)
        {
            row.proof = vec![Proof {
                hardware,
                limiter,
                ..proof(true)
            }];
        }
    }
}

fn name(variant: &str) -> &str {
    variant.split('[').next().unwrap_or(variant)
}

fn plan(mechanisms: Vec<PlannedMechanism>, blocks: u32) -> Plan {
    Plan {
        profile: "default".to_owned(),
        profile_hash: String::new(),
        decides: true,
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
        durations: Durations {
            warmup_ns: 1,
            closed_ns: 1,
            open_ns: 1,
            gap_ns: 1,
        },
        thresholds: Thresholds::default(),
        mechanisms,
        cells: Vec::new(),
        fault_trials: Vec::new(),
        workloads: BTreeMap::new(),
        pairs: ["fma-hog", "block-slots"].map(pair).into(),
        jitter_from: SubAxis::Sm,
        claimed: claimed(),
        skips: Vec::new(),
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

fn mechanism(variant: &str) -> MechanismRow {
    MechanismRow {
        name: name(variant).to_owned(),
        variant: variant.to_owned(),
        outcome: Outcome::measured(),
        remedy: None,
        proof: vec![proof(true)],
    }
}

pub(super) fn proof(holds: bool) -> Proof {
    Proof {
        when: "during".to_owned(),
        check: "processes on the device".to_owned(),
        holds,
        evidence: "two".to_owned(),
        hardware: false,
        limiter: false,
    }
}

fn result(cell: &Cell, shows: Shows) -> CellResult {
    let figures = [
        (CLOSED_RATE_PER_S, shows.rate_per_s),
        (OPEN_LATENCY_P50_NS, shows.p50 * 1e6),
        (OPEN_LATENCY_P99_NS, shows.p99 * 1e6),
        (OFFERED_PER_S, 250.0),
        (GOODPUT_PER_S, 250.0),
        (BACKLOG_SLOPE_PER_S, 0.0),
    ];
    let gate = GateResult {
        gate: OVERLOAD_GATE.to_owned(),
        state: GateState::Passed,
        scope: GateScope::Cell,
        detail: String::new(),
    };
    CellResult {
        cell: cell.clone(),
        rates: figures
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        requests: BTreeMap::from([
            (CLOSED_REQUESTS.to_owned(), 850),
            (OPEN_REQUESTS.to_owned(), 450),
        ]),
        outcome: Outcome::measured(),
        gates: vec![gate],
        tenant_results: Vec::new(),
    }
}
