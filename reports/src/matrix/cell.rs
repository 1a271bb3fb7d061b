//! One cell of the matrix: the figure that decides, its level and its sign.

use gpubench_record::{ClaimedWord, Estimate, MatrixRow, OutcomeKind, RunRecord};

use super::column::Column;
use super::faults::{is_at_least_bounded, summary};
use super::{Row, Selection};
use gpubench_show::{clean, list};

/// What is known about the isolation, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// L0.
    None,
    Failed,
    /// L1.
    Partial,
    /// Inconclusive: no level, or several are open.
    Open,
    /// L2.
    Bounded,
    /// L3.
    Strong,
    /// Did not run.
    Waived,
}

impl Standing {
    /// The standings with a sign in the legend, the strongest first.
    pub const LEGEND: [Self; 6] =
        [Self::Strong, Self::Bounded, Self::Partial, Self::None, Self::Open, Self::Failed];

    /// The sign beside a figure.
    pub const fn sign(self) -> char {
        match self {
            Self::Strong => '#',
            Self::Bounded => '+',
            Self::Partial => '~',
            Self::None => '!',
            Self::Open => '?',
            Self::Failed => 'x',
            Self::Waived => '-',
        }
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Strong => "strong (L3)",
            Self::Bounded => "bounded (L2)",
            Self::Partial => "partial (L1)",
            Self::None => "none (L0)",
            Self::Open => "inconclusive",
            Self::Failed => "failed",
            Self::Waived => "not run",
        }
    }

    pub const fn is_decided(self) -> bool {
        matches!(self, Self::Strong | Self::Bounded | Self::Partial | Self::None)
    }

    /// That of a level as records have it.
    pub fn of_level(level: Option<&str>) -> Self {
        match level {
            Some("L3") => Self::Strong,
            Some("L2") => Self::Bounded,
            Some("L1") => Self::Partial,
            Some("L0") => Self::None,
            _ => Self::Open,
        }
    }

    pub(super) fn of_row(row: &MatrixRow) -> Self {
        match row.outcome.outcome {
            OutcomeKind::Measured => Self::of_level(row.level.as_deref()),
            OutcomeKind::Inconclusive => Self::Open,
            OutcomeKind::Failed => Self::Failed,
            OutcomeKind::Waived => Self::Waived,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    Estimate(Estimate),
    /// How many parts hold: sub-axes of memory at L2 or L3, faults that harmed no victim.
    HeldOf([usize; 2]),
}

#[derive(Debug, Clone, PartialEq)]
pub struct MatrixCell {
    /// The figure that decides; `None` where nothing was measured.
    pub figure: Option<Figure>,
    pub standing: Standing,
    /// The level, or the levels that are open: `L3`, `L0..L2`.
    pub level: Option<String>,
    pub word: Option<String>,
    /// Published words about what was measured here.
    pub published: Vec<String>,
    /// Why there is no level.
    pub reason: Option<String>,
    /// Rows of the record behind the cell, by index in `RunRecord::matrix`.
    pub rows: Vec<usize>,
    /// The row whose figure is shown, likewise.
    pub deciding: Option<usize>,
}

/// The cell of a variant in a column; `None` where the record has no row for it.
pub(super) fn cell(record: &RunRecord, variant: &str, column: &Column) -> Option<MatrixCell> {
    let own: Vec<(usize, &MatrixRow)> = record
        .matrix
        .iter()
        .enumerate()
        .filter(|(_, row)| row.variant == variant && column.has(row))
        .collect();
    let rows: Vec<usize> = own.iter().map(|(at, _)| *at).collect();
    let (deciding, weakest) = *own.iter().min_by(|(_, a), (_, b)| {
        let by_standing = Standing::of_row(a).cmp(&Standing::of_row(b));
        by_standing.then(strength(a).total_cmp(&strength(b)))
    })?;
    let ran = own.iter().filter(|(_, row)| Standing::of_row(row) != Standing::Waived);
    let published = published(record, ran.clone().map(|(_, row)| *row));
    if own.iter().any(|(_, row)| row.is_of_fault()) {
        return Some(of_faults(record, variant, column, published, rows));
    }
    let held = ran.clone().filter(|(_, row)| Standing::of_row(row) >= Standing::Bounded);
    let figure = if column.axis == "memory" && column.sub_axis.is_none() {
        // An open check has neither passed nor failed.
        let decided = ran.clone().filter(|(_, row)| Standing::of_row(row) != Standing::Open);
        let of = [held.count(), decided.count()];
        (of[1] > 0).then_some(Figure::HeldOf(of))
    } else {
        let row = weakest;
        let estimate = [&row.retention, &row.jitter, &row.survival, &row.overshoot];
        estimate.into_iter().flatten().next().cloned().map(Figure::Estimate)
    };
    let standing = match Standing::of_row(weakest) {
        Standing::Partial if own.iter().any(|(_, row)| may_be_none(row)) => Standing::Open,
        decided => decided,
    };
    Some(MatrixCell {
        figure,
        standing,
        level: weakest.level.clone(),
        word: weakest.word.clone(),
        published,
        reason: weakest.outcome.reason.as_deref().map(clean),
        rows,
        deciding: Some(deciding),
    })
}

/// Whether a row without a level may be at L0, which would decide the cell.
fn may_be_none(row: &MatrixRow) -> bool {
    let worst = row.level.as_deref().unwrap_or("L0");
    matches!(Standing::of_row(row), Standing::Open | Standing::Failed) && worst.starts_with("L0")
}

/// The smaller, the weaker: jitter counts downwards.
fn strength(row: &MatrixRow) -> f64 {
    let up = [&row.retention, &row.survival].into_iter().flatten().next();
    match (up, &row.jitter) {
        (Some(up), _) => up.value,
        (None, Some(jitter)) => -jitter.value,
        _ => f64::INFINITY,
    }
}

fn of_faults(
    record: &RunRecord,
    variant: &str,
    column: &Column,
    published: Vec<String>,
    rows: Vec<usize>,
) -> MatrixCell {
    let class = column.sub_axis.iter().map(|class| format!("fault/{class}"));
    let classes = Selection { axes: class.collect(), ..Selection::default() };
    let all = summary(record, variant, &classes);
    let standing = match all.outcome {
        OutcomeKind::Measured => Standing::of_level(all.level.as_deref()),
        OutcomeKind::Failed => Standing::Failed,
        OutcomeKind::Inconclusive if is_at_least_bounded(all.level.as_deref()) => Standing::Bounded,
        OutcomeKind::Inconclusive => Standing::Open,
        OutcomeKind::Waived => Standing::Waived,
    };
    MatrixCell {
        figure: (all.held_of[1] > 0).then_some(Figure::HeldOf(all.held_of)),
        standing,
        level: all.level,
        word: all.word,
        published,
        reason: all.note,
        rows,
        deciding: None,
    }
}

// Where a measured level differs from what publications claim.

/// The published words about exactly these rows of a mechanism: about their resources, or beside
/// any neighbour where they lie beside every aggressor of the plan. A word about more than was
/// measured, or about something else, is printed in tables and compared with nothing.
fn published<'a>(
    record: &RunRecord,
    rows: impl Iterator<Item = &'a MatrixRow> + Clone,
) -> Vec<String> {
    let Some(first) = rows.clone().next() else {
        return Vec::new();
    };
    let plan = &record.plan;
    let of_rows = plan
        .claimed
        .iter()
        .filter(|one| one.mechanism == first.mechanism && one.axis.as_str() == first.axis);
    let is_same = |word: &&ClaimedWord| match &word.sub_axes[..] {
        [] => {
            let is_beside =
                |name: &str| rows.clone().any(|row| row.aggressor.as_deref() == Some(name));
            !plan.pairs.is_empty() && plan.pairs.iter().all(|pair| is_beside(&pair.aggressor))
        }
        about => {
            rows.clone().all(|row| row.sub_axis.as_ref().is_some_and(|one| about.contains(one)))
        }
    };
    of_rows.filter(is_same).map(|one| clean(&one.word)).collect()
}

/// How a measured word compares with the claims of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    Weaker,
    Stronger,
}

impl MatrixCell {
    /// Whether no publication claims what was measured. A cell without a level says nothing.
    pub fn differs_from_claims(&self) -> bool {
        difference(self).is_some()
    }
}

/// The words in the order of their strength. Publications also write `Soft` and `Incomplete`.
fn rank(word: &str) -> Option<u8> {
    Some(match word {
        "None" | "High" => 0,
        "Partial" | "Incomplete" | "Low-Medium" => 1,
        "Software" | "Soft" | "Negligible" => 2,
        "Hardware" => 3,
        _ => return None,
    })
}

fn difference(cell: &MatrixCell) -> Option<Difference> {
    if matches!(cell.standing, Standing::Open | Standing::Failed | Standing::Waived) {
        return None;
    }
    let measured = rank(cell.word.as_deref()?)?;
    let claimed: Vec<u8> = cell.published.iter().filter_map(|word| rank(word)).collect();
    if claimed.iter().all(|claim| *claim > measured) && !claimed.is_empty() {
        Some(Difference::Weaker)
    } else if claimed.iter().all(|claim| *claim < measured) && !claimed.is_empty() {
        Some(Difference::Stronger)
    } else {
        None
    }
}

/// One line for each direction and column: the claimed words, and the mechanisms.
pub(super) fn differences(columns: &[Column], rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (direction, verb) in [
        (Difference::Weaker, "weaker than published"),
        (Difference::Stronger, "stronger than published"),
    ] {
        let mut parts = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            // Mechanisms with the same claimed word share a part.
            let mut words: Vec<(String, Vec<&str>)> = Vec::new();
            for row in rows {
                let Some(cell) = row.cells[at].as_ref() else {
                    continue;
                };
                if difference(cell) != Some(direction) {
                    continue;
                }
                let mut claimed = cell.published.clone();
                claimed.dedup();
                let word = claimed.join("/");
                match words.iter_mut().find(|(known, _)| *known == word) {
                    Some((_, labels)) => labels.push(&row.label),
                    None => words.push((word, vec![&row.label])),
                }
            }
            parts.extend(words.into_iter().map(|(word, labels)| {
                format!("{} of {} ({word})", column.heading, list(&labels, "and"))
            }));
        }
        if !parts.is_empty() {
            lines.push(format!("{verb}: {}", parts.join("; ")));
        }
    }
    lines
}
