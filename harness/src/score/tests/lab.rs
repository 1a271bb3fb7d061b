//! A constructed run: a plan, its cells with the rates that a test chooses, and its mechanisms.

mod parts;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Calibration, Cell, CellResult, Condition, MatrixRow, MechanismProperties, MechanismRow,
    OverallRow, Plan, ProbeResult, Proof, SubAxis,
};

use parts::{calibrated, mechanism, name, peak, plan, result};
pub(super) use parts::{gate, proof};

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
    pub timer_floor_ns: Result<Option<f64>, &'static str>,
    pub probes: Vec<ProbeResult>,
    pub calibration: Calibration,
}

/// The figures of one cell.
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
            timer_floor_ns: Ok(None),
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
            timer_floor_ns: self.timer_floor_ns,
        }
    }

    /// The row of this variant and axis.
    pub(super) fn row(&self, variant: &str, axis: &str) -> MatrixRow {
        let rows = self.score().matrix;
        let found = rows.into_iter().find(|row| row.variant == variant && row.axis == axis);
        found.expect("a row of that variant and axis")
    }

    pub(super) fn overall(&self, variant: &str) -> OverallRow {
        let rows = self.score().overall;
        rows.into_iter().find(|row| row.variant == variant).expect("an overall row")
    }

    /// The results of one condition.
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
