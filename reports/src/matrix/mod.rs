//! The matrix of a record at a glance: mechanisms by axes, with sentences, reasons and counts.
//!
//! A pure model of the record. The terminal and the page draw the same model.

mod cell;
mod column;
pub(crate) mod faults;
mod reasons;
mod sentences;
#[cfg(test)]
mod tests;

use gpubench_record::{
    CellResult, Condition, Ends, EscapeOutcome, Estimate, Gate, MatrixRow, MechanismRow,
    OutcomeKind, ProbeFound, ProbeResult, RunRecord,
};
use gpubench_show::list;

pub use cell::{Figure, MatrixCell, Standing};
pub use column::Column;
pub(crate) use column::without_jitter;
pub use faults::NotRun;
pub(crate) use reasons::without_levels;
pub use reasons::{ReasonGroup, Subject};

use gpubench_show::{Labels, clean};

/// The axis of a selection that stands for the overall levels.
pub const OVERALL: &str = "overall";

/// What part of a record is shown. An empty list selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub mechanisms: Vec<String>,
    pub axes: Vec<String>,
    /// Faults by name, of the selected axes.
    pub faults: Vec<String>,
    /// The id of one cell of the run.
    pub cell: Option<String>,
}

impl Selection {
    /// Whether a variant is shown.
    pub fn has_mechanism(&self, name: &str, variant: &str) -> bool {
        let wanted = &self.mechanisms;
        wanted.is_empty() || wanted.iter().any(|one| one == name || one == variant)
    }

    /// Whether the fault of a row is shown.
    pub fn has_fault(&self, aggressor: Option<&str>) -> bool {
        let is = |fault: &String| aggressor == Some(fault.as_str());
        self.faults.is_empty() || self.faults.iter().any(is)
    }

    /// Whether the overall levels are shown.
    pub fn has_overall(&self) -> bool {
        self.axes.is_empty() || self.axes.iter().any(|one| one == OVERALL)
    }

    /// Whether an axis or one of its sub-axes is shown.
    pub fn has_axis(&self, axis: &str, sub_axis: Option<&str>) -> bool {
        let is_whole = |one: &str| {
            let rest = one.strip_prefix(axis).and_then(|rest| rest.strip_prefix('/'));
            rest.is_some() && rest == sub_axis
        };
        let is = |one: &String| one == axis || Some(one.as_str()) == sub_axis || is_whole(one);
        self.axes.is_empty() || self.axes.iter().any(is)
    }
}

/// The name of a row on the screen: its resource alone, of jitter with the axis.
pub(crate) fn place(row: &MatrixRow) -> String {
    match (row.axis.as_str(), row.sub_axis.as_deref()) {
        ("jitter", Some(sub_axis)) => format!("jitter/{}", clean(sub_axis)),
        ("fault", _) => row.axis.clone(),
        (axis, sub_axis) => clean(sub_axis.unwrap_or(axis)),
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Glance {
    pub columns: Vec<Column>,
    /// The mechanisms under which a neighbour ran, in the order of the record.
    pub rows: Vec<Row>,
    /// What is isolated and what is not, from the levels alone.
    pub sentences: Vec<String>,
    /// Where levels differ from published claims.
    pub claims: Vec<String>,
    /// Mechanisms and axes that did not run, grouped by reason and remedy.
    pub not_run: Vec<NotRun>,
    /// Why cells of the matrix have no level, grouped.
    pub open: Vec<ReasonGroup>,
    /// Every doubt about rows, blocks and cells of the run, grouped and counted.
    pub reasons: Vec<ReasonGroup>,
    /// Half of the widest interval among the decided rates and among the decided jitters.
    pub widest: Widest,
    pub cells: CellCounts,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub mechanism: String,
    pub variant: String,
    /// A short label: `mps-quota 50%`.
    pub label: String,
    /// Variants of this mechanism that the row stands for besides its own, which is the weakest.
    pub more: usize,
    /// A cell for each column; `None` where nothing was planned.
    pub cells: Vec<Option<MatrixCell>>,
    /// The overall level, or the levels that are open.
    pub overall: Option<String>,
    /// The axis on which the overall level rests, where it is one.
    pub alone: Option<String>,
}

impl Row {
    /// The overall level; one above L0 that rests on one axis names it.
    pub fn overall_text(&self) -> String {
        match (self.overall.as_deref(), self.alone.as_deref()) {
            (None, _) => "open".to_owned(),
            (Some(level), Some(axis)) if level != "L0" => format!("{level} of {axis} alone"),
            (Some(level), _) => level.to_owned(),
        }
    }
}

/// Half of the widest interval of each kind of figure that has a level; `None` without such a
/// figure.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Widest {
    pub retention: Option<f64>,
    /// Of jitter, in native medians.
    pub jitter: Option<f64>,
}

/// The cells of the run by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellCounts {
    pub planned: usize,
    pub measured: usize,
    /// Not to be trusted.
    pub inconclusive: usize,
    pub failed: usize,
    /// Cannot be measured here.
    pub waived: usize,
    /// Planned, and not in the record.
    pub not_run: usize,
}

impl Glance {
    /// The matrix of a record, with at most `rows_max` rows: where there are more variants, each
    /// mechanism has one row, that of its weakest variant.
    pub fn of(record: &RunRecord, selection: &Selection, rows_max: usize) -> Self {
        let columns = column::columns(record, selection);
        let labels = Labels::of_records(&[record]);
        let mut rows = rows(record, selection, &columns, &labels);
        if rows.len() > rows_max {
            rows = fold(rows);
        }
        let kept = column::used(&rows, columns.len());
        for row in &mut rows {
            row.cells = kept.iter().map(|&at| row.cells[at].clone()).collect();
        }
        let columns: Vec<Column> = kept.iter().map(|&at| columns[at].clone()).collect();
        let mut levels = sentences::sentences(&sentences::standings(&columns, &rows));
        // Long texts are cut at the end; the first one is the verdict.
        let rest = levels.split_off(levels.len().min(1));
        levels.extend(bypasses(record, selection, &labels));
        Self {
            sentences: levels
                .into_iter()
                .chain(rest)
                .chain(one_cause(record, &columns, &rows))
                .chain(power(record, selection, &labels))
                .collect(),
            claims: cell::differences(&columns, &rows),
            not_run: faults::not_run(record, selection, &labels),
            open: reasons::open(record, &columns, &rows),
            reasons: reasons::reasons(record, selection, &labels),
            widest: widest(record, &rows),
            cells: counts(record),
            columns,
            rows,
        }
    }

    /// The gate that most cells fail which do not count.
    pub fn gate_of_most_lost_cells(&self) -> Option<&str> {
        let mut groups = self.reasons.iter().filter(|one| one.subject == Subject::Cell);
        groups.find_map(|one| one.reason.strip_suffix(reasons::CELL_LOST))
    }
}

fn rows(
    record: &RunRecord,
    selection: &Selection,
    columns: &[Column],
    labels: &Labels,
) -> Vec<Row> {
    let shown = record.mechanisms.iter().filter(|one| {
        one.name != record.plan.reference
            && selection.has_mechanism(&one.name, &one.variant)
            && !record.plan.is_unprotected_form(&one.variant)
    });
    let overall = |variant: &str| record.overall.iter().find(|row| row.variant == variant);
    let rows = shown.map(|one| Row {
        mechanism: clean(&one.name),
        variant: clean(&one.variant),
        label: labels.get(&one.variant),
        more: 0,
        cells: columns.iter().map(|column| cell::cell(record, &one.variant, column)).collect(),
        overall: overall(&one.variant).and_then(|row| row.level.clone()),
        alone: overall(&one.variant).and_then(|row| match &row.axes[..] {
            [axis] => Some(clean(axis)),
            _ => None,
        }),
    });
    // A mechanism without any figure is among those that did not run.
    let has_content = |row: &Row| {
        let mut cells = row.cells.iter().flatten();
        cells.any(|cell| cell.standing != Standing::Waived)
    };
    rows.filter(has_content).collect()
}

/// One row for each mechanism: its variant with the weakest overall level, then the weakest cells.
fn fold(rows: Vec<Row>) -> Vec<Row> {
    let weakness = |row: &Row| {
        let mut standings: Vec<Standing> =
            row.cells.iter().flatten().map(|cell| cell.standing).collect();
        standings.sort_unstable();
        (row.overall.is_none(), row.overall.clone(), standings)
    };
    let mut folded: Vec<Row> = Vec::new();
    for row in rows {
        match folded.iter_mut().find(|known| known.mechanism == row.mechanism) {
            None => folded.push(row),
            Some(known) => {
                let more = known.more + 1;
                if weakness(&row) < weakness(known) {
                    *known = row;
                }
                known.more = more;
            }
        }
    }
    folded
}

/// Names the one cause of rates that agree within their intervals where tenants take turns: a
/// victim with one request outstanding gives its turn back with each, whatever it stresses.
fn one_cause(record: &RunRecord, columns: &[Column], rows: &[Row]) -> Vec<String> {
    let takes_turns = |variant: &str| {
        let mut planned = record.plan.mechanisms.iter();
        let in_force = |one: &MechanismRow| one.variant == variant && !one.proof.is_empty();
        planned.any(|one| one.variant == variant && one.properties.takes_turns())
            && record.mechanisms.iter().any(in_force)
    };
    let sentence = |row: &Row| {
        let cells = columns.iter().zip(&row.cells);
        let rates: Vec<(&str, &Estimate)> = cells
            .filter_map(|(column, cell)| match cell.as_ref()?.figure.as_ref()? {
                Figure::Estimate(of) if of.unit == "ratio" && of.ends == Ends::Interval => {
                    Some((column.noun.as_str(), of))
                }
                _ => None,
            })
            .collect();
        let lo = rates.iter().map(|(_, of)| of.lo).fold(f64::NEG_INFINITY, f64::max);
        let hi = rates.iter().map(|(_, of)| of.hi).fold(f64::INFINITY, f64::min);
        let nouns: Vec<&str> = rates.iter().map(|(noun, _)| *noun).collect();
        (rates.len() > 1 && lo <= hi && takes_turns(&row.variant)).then(|| {
            format!(
                "The rates of {} in {} agree and have one cause: a victim with one request \
                 outstanding gives its turn back after each.",
                row.label,
                list(&nouns, "and")
            )
        })
    };
    rows.iter().filter_map(sentence).collect()
}

/// A clock part below this is a finding, as in the warning of its row.
const CLOCK_USUAL: f64 = 0.99;

/// Names what the SM clock took of a retention: time and cycles then give different figures. The
/// row whose clock fell most, and how many others there are.
fn power(record: &RunRecord, selection: &Selection, labels: &Labels) -> Option<String> {
    let fell = record.matrix.iter().filter_map(|row| {
        let shown = selection.has_mechanism(&row.mechanism, &row.variant)
            && selection.has_axis(&row.axis, row.sub_axis.as_deref());
        let clock = row.clock_part.as_ref().filter(|part| shown && part.hi < CLOCK_USUAL)?;
        Some((row, clock.value, row.retention.as_ref()?.value))
    });
    let fell: Vec<_> = fell.collect();
    let (row, clock, time) = fell.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let capped = |one: &CellResult| {
        let throttle = one.gates.iter().find(|gate| gate.gate == Gate::Throttle);
        one.cell.variant == row.variant
            && one.cell.condition == Condition::C
            && throttle.is_some_and(|gate| gate.detail.contains("power"))
    };
    let cause = match record.cells.iter().any(capped) {
        true => "Power: the limit of the board lowers the SM clock",
        false => "The SM clock falls",
    };
    let others = match fell.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more {}", if more == 1 { "row" } else { "rows" }),
    };
    Some(format!(
        "{cause} beside a neighbour, to {clock:.2} of the solo clock in {} of {}{others}: there \
         retention is {time:.2} in time and {:.2} in cycles.",
        clean(row.sub_axis.as_deref().unwrap_or(&row.axis)),
        labels.get(&row.variant),
        time / clock
    ))
}

/// What came of the ways around the limit of each mechanism.
fn bypasses(record: &RunRecord, selection: &Selection, labels: &Labels) -> Vec<String> {
    let of = |probe: &ProbeResult| {
        let ProbeFound::Escape { routes, .. } = &probe.found else {
            return None;
        };
        let mut rows = record.matrix.iter().filter(|row| row.variant == probe.variant);
        rows.find(|row| selection.has_mechanism(&row.mechanism, &row.variant))?;
        let is_route = |name: &str| routes.iter().any(|route| route.route == name);
        let figures = record.probe_figures.iter();
        let tried = figures.filter(|one| one.variant == probe.variant && is_route(&one.figure));
        let verdicts: Vec<&str> = tried.filter_map(|one| one.verdict.as_deref()).collect();
        let count = |wanted: &str| verdicts.iter().filter(|one| **one == wanted).count();
        let (label, escaped) = (labels.get(&probe.variant), count("escaped"));
        let (judged, contained) = (verdicts.len(), count("contained"));
        let mut text = match escaped {
            0 if contained == judged => format!("{label} held against {judged} routes tried"),
            0 => format!("{label} held against {contained} of {judged} routes tried"),
            _ => format!("{label}: {escaped} of {judged} ways around its limit worked"),
        };
        let untried = routes.iter().filter(|one| one.outcome == EscapeOutcome::Untried);
        let untried: Vec<String> = untried.map(|one| clean(&one.route)).collect();
        if !untried.is_empty() {
            text.push_str(&format!("; not tried: {}", untried.join(", ")));
        }
        (judged > 0).then(|| text + ".")
    };
    record.probes.iter().filter_map(of).collect()
}

/// Of every row behind a cell, and not only of the one whose figure it shows.
fn widest(record: &RunRecord, rows: &[Row]) -> Widest {
    let mut widest = Widest::default();
    let behind = rows.iter().flat_map(|row| row.cells.iter().flatten()).flat_map(|one| &one.rows);
    for row in behind.filter_map(|at| record.matrix.get(*at)) {
        if !Standing::of_row(row).is_decided() {
            continue;
        }
        for (figure, known) in
            [(&row.retention, &mut widest.retention), (&row.jitter, &mut widest.jitter)]
        {
            let Some(of) = figure.as_ref().filter(|one| one.ends != Ends::AtMost) else {
                continue;
            };
            let half = (of.hi - of.value).max(of.value - of.lo);
            if half.is_finite() {
                *known = Some(known.map_or(half, |known: f64| known.max(half)));
            }
        }
    }
    widest
}

fn counts(record: &RunRecord) -> CellCounts {
    let count = |kind| {
        let cells = record.cells.iter();
        cells.filter(|cell| cell.outcome.outcome == kind).count()
    };
    let planned = record.plan.cells.len();
    CellCounts {
        planned,
        measured: count(OutcomeKind::Measured),
        inconclusive: count(OutcomeKind::Inconclusive),
        failed: count(OutcomeKind::Failed),
        waived: count(OutcomeKind::Waived),
        not_run: planned.saturating_sub(record.cells.len()),
    }
}
