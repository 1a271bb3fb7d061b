//! From judged cells to the measured matrix: `scoring-v1` as a pure function of a record.
//!
//! No I/O, no clock: an old record can be scored again. Cells are paired by group, block and
//! victim; the block is the unit of inference, and only cells whose gates all passed take part.
//! With P the closed-loop rate of fixed work, N native, S solo under the mechanism, C beside the
//! aggressor at full dose and U the same without protection:
//!
//! | figure | formula |
//! |---|---|
//! | retention | `R = P_C / P_S` |
//! | efficiency | `O = P_S / P_N` |
//! | guarantee | `G = P_C / P_N` |
//! | effectiveness | `U = P_U / P_N` |
//! | isolation index | `I = 1 - ln R / ln U` |
//! | jitter | `J = [(q99 - q50)_C - (q99 - q50)_N] / q50_N`, open loop |
//! | survival | requests honoured of those asked, where a refusal is an answer |
//!
//! Intervals are t intervals on block logarithms (Kalibera and Jones, arXiv 2007.10899), of I by
//! Fieller, of J on the blocks' values. Levels follow from interval ends, never from estimates.

mod alone;
mod cells;
mod fault;
mod figures;
mod jitter;
mod level;
mod memory;
mod overall;
mod pool;
mod probe_figures;
mod reference;
mod reservation;
mod resource;
mod row;
mod service;
mod tally;
mod tenant_limit;
#[cfg(test)]
mod tests;
mod word;

use std::collections::BTreeMap;

use gpubench_record::{
    Axis, Calibration, CellResult, FaultResult, FaultTally, MatrixRow, MechanismRow, OverallRow,
    Plan, ProbeFigure, ProbeResult, ServiceRow, TenantLimit,
};

use cells::{Cells, Pair};
pub use pool::{MACHINE_HASH, Pooled, pool};
use row::Row;

/// The version of the rules, as records name it.
pub const VERSION: &str = "scoring-v1";

/// Name of the mechanism under which native cells run.
const EXCLUSIVE: &str = "exclusive";

/// Fewest blocks in a profile that decides nothing, where an interval is shown all the same.
const BLOCKS_MIN_UNDECIDING: u32 = 6;

/// What scoring needs of a record.
#[derive(Debug, Clone, Copy)]
pub struct ScoreInput<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The cells after their gates, in any order.
    pub cells: &'a [CellResult],
    /// The fault trials, judged.
    pub fault_trials: &'a [FaultResult],
    /// Those of other records that count with them, each record by itself.
    pub earlier_trials: &'a [Vec<FaultResult>],
    /// Why no further trial was held, if the device was in no state for more.
    pub fault_stop: Option<&'a str>,
    /// Each mechanism with outcome and proofs.
    pub mechanisms: &'a [MechanismRow],
    /// By aggressor: what it reaches alone on the native GPU over its resource's measured peak.
    /// An aggressor that is not in there was not held against its peak.
    pub aggressor_peaks: &'a BTreeMap<String, f64>,
    /// What was found before the cells: it knows the workloads that this device cannot run.
    pub calibration: &'a Calibration,
    /// What probes found; empty where nobody asked for them.
    pub probes: &'a [ProbeResult],
    /// Lateness that the host's timers themselves show; `None` in virtual time.
    pub timer_floor_ns: Option<f64>,
}

/// What scoring finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The measured matrix.
    pub matrix: Vec<MatrixRow>,
    /// The overall levels.
    pub overall: Vec<OverallRow>,
    /// Figures of probes that are no scores.
    pub probe_figures: Vec<ProbeFigure>,
    /// What the trials of each fault come to.
    pub fault_tallies: Vec<FaultTally>,
    /// What victims got of a promised latency, and at several numbers of tenants.
    pub service: Vec<ServiceRow>,
    /// How many tenants there may be for a promised latency to be kept.
    pub tenant_limits: Vec<TenantLimit>,
}

/// A record that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScoreError {
    /// A result without a planned cell.
    #[error("cell {id} is not in the plan: only results of planned cells are accepted")]
    NotPlanned {
        /// The cell.
        id: String,
    },
    /// Two results of one cell.
    #[error("cell {id} has two results: one of each planned cell is accepted")]
    Twice {
        /// The cell.
        id: String,
    },
}

/// Scores a record.
///
/// # Errors
/// When results and plan do not belong together.
pub fn score(input: &ScoreInput<'_>) -> Result<Scored, ScoreError> {
    let context = Context {
        input,
        cells: Cells::index(input)?,
        blocks_min: blocks_min(input.plan),
    };
    let rows = rows(&context);
    let overall = overall::rows(input.plan, &rows);
    let service = service::rows(&context);
    Ok(Scored {
        matrix: rows.into_iter().map(|row| row.matrix).collect(),
        overall,
        probe_figures: probe_figures::figures(input.plan, input.probes),
        fault_tallies: context
            .under_test()
            .into_iter()
            .flat_map(|mechanism| fault::tallies(&context, mechanism))
            .collect(),
        tenant_limits: tenant_limit::limits(input.plan, &service),
        service,
    })
}

/// What every row is made from.
struct Context<'a> {
    input: &'a ScoreInput<'a>,
    cells: Cells<'a>,
    blocks_min: u32,
}

fn blocks_min(plan: &Plan) -> u32 {
    let least = plan.thresholds.blocks_min;
    if plan.decides {
        least
    } else {
        least.min(BLOCKS_MIN_UNDECIDING)
    }
}

/// The rows in report order: the reference first, then mechanism by mechanism.
fn rows(context: &Context<'_>) -> Vec<Row> {
    let asked = Asked::of(context);
    let mut rows = reference::rows(context);
    for mechanism in context.under_test() {
        if alone::admits_one_tenant(context, mechanism) {
            rows.extend(alone::rows(context, mechanism, &asked));
            continue;
        }
        for pair in &asked.pairs {
            rows.push(if reservation::is_asked(context, pair) {
                reservation::row(context, mechanism, pair)
            } else {
                resource::row(context, mechanism, pair)
            });
        }
        rows.extend(memory::rows(context, mechanism));
        if let Some(pair) = &asked.jitter {
            rows.push(jitter::row(context, mechanism, pair));
        }
        rows.extend(fault::rows(context, mechanism));
    }
    let neighbours = &context.input.plan.neighbours;
    if neighbours.len() > 1 {
        for row in rows.iter_mut().filter(|row| row.matrix.aggressor.is_some()) {
            row.warn(format!("neighbours: {}", neighbours.join(", ")));
        }
    }
    if context.input.plan.user_victim.is_some() {
        for row in &mut rows {
            row.warn("the victim is the user's own program, which no share binds");
        }
    }
    if !context.input.plan.decides {
        let profile = &context.input.plan.profile;
        for row in &mut rows {
            row.warn(format!("profile {profile} decides nothing"));
        }
    }
    rows
}

/// The rows that the profile asked for and the plan has cells of.
struct Asked {
    pairs: Vec<Pair>,
    /// The pair whose open loops give the jitter: the usual one of its sub-axis.
    jitter: Option<Pair>,
}

impl Asked {
    fn of(context: &Context<'_>) -> Self {
        let planned = context.cells.pairs();
        let plan = context.input.plan;
        let jitter = planned
            .iter()
            .find(|pair| pair.sub_axis == plan.jitter_from)
            .filter(|_| asks(plan, "jitter"))
            .cloned();
        let is_asked = |pair: &Pair| {
            let axis = pair.sub_axis.axis().as_str();
            asks(plan, axis) || asks(plan, &format!("{axis}/{}", pair.sub_axis.as_str()))
        };
        Self {
            pairs: planned.into_iter().filter(is_asked).collect(),
            jitter,
        }
    }
}

/// Whether the profile asked for this name. Records that do not say asked for all.
fn asks(plan: &Plan, name: &str) -> bool {
    plan.axes.is_empty() || plan.axes.iter().any(|axis| axis == "all" || axis == name)
}

impl<'a> Context<'a> {
    /// Every mechanism but the reference, planned ones first and in their order.
    fn under_test(&self) -> Vec<&'a MechanismRow> {
        let place = |row: &MechanismRow| {
            let mut planned = self.input.plan.mechanisms.iter();
            planned
                .position(|one| one.variant == row.variant)
                .unwrap_or(usize::MAX)
        };
        let mut rows: Vec<&MechanismRow> = self
            .input
            .mechanisms
            .iter()
            .filter(|row| row.name != EXCLUSIVE)
            .collect();
        rows.sort_by_key(|row| (place(row), row.variant.clone()));
        rows
    }

    /// `source: word`, one for each overview that speaks of this mechanism and axis.
    fn claimed(&self, mechanism: &str, axis: Axis) -> Vec<String> {
        let claimed = self.input.plan.claimed.iter();
        let of_both = claimed.filter(|one| one.mechanism == mechanism && one.axis == axis);
        of_both
            .map(|one| format!("{}: {}", one.source, one.word))
            .collect()
    }

    fn reference(&self) -> Option<&'a MechanismRow> {
        self.input
            .mechanisms
            .iter()
            .find(|row| row.name == EXCLUSIVE)
    }
}
