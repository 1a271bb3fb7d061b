//! From judged cells to the measured matrix: `scoring-v4` as a pure function of a record.
//!
//! No I/O, no clock: an old record can be scored again. Only measured cells count. Cells are paired
//! by group, block and victim, and the block is the unit of inference. P is the closed-loop rate of
//! fixed work in a condition: N native, S solo under the mechanism, C beside the aggressor at full
//! dose, U as C without the mechanism's protection. q50 and q99 are quantiles of
//! requests that find their own queue empty.
//!
//! | figure | formula |
//! |---|---|
//! | retention | `R = P_C / P_S` |
//! | efficiency | `O = P_S / P_N` |
//! | guarantee | `G = P_C / P_N` |
//! | effectiveness | `U = P_U / P_N` |
//! | isolation index | `I = 1 - ln R / ln U` |
//! | service jitter | `J = [(q99 - q50)_C - s (q99 - q50)_N] / q50_N`, `s = q50_C / q50_N` |
//! | survival | honoured requests over answered requests; contained trials over all trials |
//!
//! The interval of a ratio is a t interval over the logarithms of its blocks (Kalibera and Jones,
//! arXiv 2007.10899). That of I is Fieller's interval for a ratio of two means. That of J is a t
//! interval over groups of blocks. That of survival is Clopper and Pearson's. Levels follow from
//! interval ends, never from estimates.

mod dose;
mod fault;
mod jitter;
mod level;
mod memory;
mod meters;
mod operator;
mod probe_figures;
mod reference;
mod resource;
mod row;
mod service;
pub mod spread;
mod tally;
mod tenant_limit;
#[cfg(test)]
mod tests;
mod transient;
mod word;

use gpubench_record::{
    AttributionRow, Axis, Calibration, CellResult, DoseCurve, EnergyRow, FaultResult, FaultTally,
    MatrixRow, MechanismRow, OperatorRow, OverallRow, Plan, ProbeFigure, ProbeResult, ServiceRow,
    TenantLimit, TransientRow,
};

use crate::figures::{Cells, CellsError, Reading};
use crate::gate::open_loop_doubt;
pub use jitter::is_other_figure;
pub use level::{PROPORTION_L0, PROPORTION_L2, PROPORTION_L3};
use row::Requested;
use row::Row;
pub use row::Straddling;
pub use row::plans_jitter;
pub use tally::{MACHINE_HASH, Pooled, pool};
pub use transient::SM_FAULT;

/// The version of the rules, as records name it.
pub const VERSION: &str = "scoring-v4";

/// The parts of a record that scoring reads.
#[derive(Debug, Clone, Copy)]
pub struct ScoreInput<'a> {
    pub plan: &'a Plan,
    /// The judged cells, in any order.
    pub cells: &'a [CellResult],
    pub fault_trials: &'a [FaultResult],
    /// Fault trials of other records that count with them, one list for each record.
    pub earlier_trials: &'a [Vec<FaultResult>],
    /// Why the run stopped before the last planned trial; `None` where it held them all.
    pub fault_stop: Option<&'a str>,
    pub mechanisms: &'a [MechanismRow],
    /// The calibration: the peaks of aggressors, and the workloads that this device cannot run.
    pub calibration: &'a Calibration,
    /// The findings of probes; empty where the run has none.
    pub probes: &'a [ProbeResult],
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    pub matrix: Vec<MatrixRow>,
    pub overall: Vec<OverallRow>,
    /// Figures of probes, which change no level.
    pub probe_figures: Vec<ProbeFigure>,
    pub fault_tallies: Vec<FaultTally>,
    /// How victims kept the promised latency, also at smaller numbers of tenants.
    pub service: Vec<ServiceRow>,
    /// What events of neighbours did.
    pub transients: Vec<TransientRow>,
    /// Energy for a request.
    pub energy: Vec<EnergyRow>,
    /// What counters say that tenants used.
    pub attribution: Vec<AttributionRow>,
    /// The number of tenants at which the promised latency is kept.
    pub tenant_limits: Vec<TenantLimit>,
    pub dose_curves: Vec<DoseCurve>,
    /// Progress and GPU time of all tenants.
    pub operator: Vec<OperatorRow>,
}

/// Scores a record.
/// Fails when results and plan do not belong together.
pub fn score(input: &ScoreInput<'_>) -> Result<Scored, CellsError> {
    let (context, rows) = judged_rows(input)?;
    let overall = word::rows(input.plan, &rows);
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
        dose_curves: dose::curves(&context),
        service,
        transients: transient::rows(&context),
        energy: meters::energy(&context),
        attribution: meters::attribution(&context),
        operator: operator::rows(&context),
    })
}

/// The rows of a run that goes on, and which of them more blocks would decide.
pub struct Look {
    /// The matrix as the cells so far make it.
    pub matrix: Vec<MatrixRow>,
    /// Rows whose interval straddles a bound of levels, which more blocks would decide.
    pub straddling: Vec<Straddling>,
}

/// Looks at a run before its end: the rows alone.
/// Fails as [`score`].
pub fn look(input: &ScoreInput<'_>) -> Result<Look, CellsError> {
    let (_, rows) = judged_rows(input)?;
    let straddling = row::of(&rows);
    Ok(Look { matrix: rows.into_iter().map(|row| row.matrix).collect(), straddling })
}

/// The rows with their levels, after the controls and the second reading.
fn judged_rows<'a>(input: &'a ScoreInput<'a>) -> Result<(Context<'a>, Vec<Row>), CellsError> {
    let context = Context::new(input, Reading::Printed)?;
    let mut rows = rows(&context);
    reference::family(&mut rows);
    if context.excludes_disturbed() {
        let again = Context::new(input, Reading::WithDisturbed)?;
        row::compare(&mut rows, &self::rows(&again));
    }
    Ok((context, rows))
}

struct Context<'a> {
    input: &'a ScoreInput<'a>,
    cells: Cells<'a>,
}

/// The rows in report order: the reference first, then mechanism by mechanism.
fn rows(context: &Context<'_>) -> Vec<Row> {
    let requested = Requested::of(context);
    let mut rows = reference::rows(context);
    for mechanism in context.under_test() {
        if reference::applies_to(context, mechanism) {
            rows.extend(reference::single_tenant_rows(context, mechanism, &requested));
            continue;
        }
        for pair in &requested.pairs {
            rows.push(if memory::applies_to(context, pair) {
                memory::reservation_row(context, mechanism, pair)
            } else {
                resource::row(context, mechanism, pair)
            });
        }
        rows.extend(memory::rows(context, mechanism));
        let pairs = requested.jitter.iter();
        let mut jitter: Vec<Row> =
            pairs.map(|pair| jitter::row(context, mechanism, pair)).collect();
        jitter::name_missing(&requested.without_jitter, &mut jitter);
        rows.extend(jitter);
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
            row.warn(
                "the victim is the user's own program, which does not limit itself to a share",
            );
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

impl<'a> Context<'a> {
    fn new(input: &'a ScoreInput<'a>, reading: Reading) -> Result<Self, CellsError> {
        Ok(Self { input, cells: Cells::index(input.plan, input.cells, reading)? })
    }

    /// Whether a cell, or the open loop of one, does not count for a disturbance alone.
    fn excludes_disturbed(&self) -> bool {
        let mut cells = self.input.cells.iter();
        cells.any(|cell| cell.is_excluded_for_a_disturbance() || open_loop_doubt(cell).is_some())
    }

    /// Every mechanism but the reference, planned ones first and in their order.
    fn under_test(&self) -> Vec<&'a MechanismRow> {
        let position = |row: &MechanismRow| {
            let mut planned = self.input.plan.mechanisms.iter();
            planned.position(|one| one.variant == row.variant).unwrap_or(usize::MAX)
        };
        let mut rows: Vec<&MechanismRow> =
            self.input.mechanisms.iter().filter(|row| !self.is_reference(row)).collect();
        rows.sort_by_key(|row| (position(row), row.variant.clone()));
        rows
    }

    /// `source: word`, one for each overview that claims something of this mechanism and axis.
    fn claimed(&self, mechanism: &str, axis: Axis) -> Vec<String> {
        let claimed = self.input.plan.claimed.iter();
        let of_both = claimed.filter(|one| one.mechanism == mechanism && one.axis == axis);
        of_both.map(|one| format!("{}: {}", one.source, one.word)).collect()
    }

    fn is_reference(&self, mechanism: &MechanismRow) -> bool {
        mechanism.variant == self.input.plan.reference
    }

    fn reference(&self) -> Option<&'a MechanismRow> {
        let mut rows = self.input.mechanisms.iter();
        rows.find(|row| self.is_reference(row))
    }
}
