//! Rows of victims with answering codes: the proportion of requests for memory that are honoured
//! beside the memory hog.
//!
//! The level is that of the proportion ([`LevelRange::of_proportion`]). A level below L2 also needs
//! an isolation index of at least the profile's bound, because memory that the hog leaves free
//! between two allocations is no protection. With `s` the proportion honoured under the mechanism
//! and `u` that of the unprotected form, the index is `1 - ln s / ln u`; its ends combine the worst
//! ends of both intervals, which makes the interval conservative. Where the mechanism is its own
//! unprotected form, the index is 0.

use gpubench_record::{BLOCKS_MIN, CellResult, Condition, Estimate, MechanismRow, SubAxis};
use gpubench_stats::moments::moments;
use gpubench_stats::student_t;

use super::Context;
use super::level::{Level, LevelRange, PROPORTION_L3};
use super::probe_figures::bypass;
use super::proportion::Proportion;
use super::resource::unprotected_form;
use super::row::Row;
use super::word::{enforcing, with_bypass};
use crate::figures::in_words;
use crate::figures::{Key, Pair};
use crate::gate::{ANSWERED_REQUESTS, HONOURED_REQUESTS};

/// What is counted.
const UNIT: &str = "requests honoured";

/// Whether the victim of this pair has answering codes.
pub(super) fn applies_to(context: &Context<'_>, pair: &Pair) -> bool {
    let facts = context.input.plan.workloads.get(&pair.victim);
    facts.is_some_and(|facts| !facts.answering_codes.is_empty())
}

/// The row of one variant and pair.
pub(super) fn row(context: &Context<'_>, mechanism: &MechanismRow, pair: &Pair) -> Row {
    let mut row = Row::of_mechanism(context, mechanism, pair.sub_axis.axis(), Some(pair));
    if !row.matrix.outcome.is_measured() {
        return row;
    }
    let Some(contended) = context.cells.contended(&mechanism.variant, pair) else {
        row.doubt("no contended cell was planned");
        return row.finish();
    };
    row.matrix.aggressor.clone_from(&pair.aggressor);
    let solo = contended.with(Condition::S);
    let Some(pairs) = context.cells.pair(contended, &solo) else {
        row.doubt("no solo cell was planned");
        return row.finish();
    };
    row.decide_by(UNIT, &pairs);
    let (beside, solo_cells): (Vec<&CellResult>, Vec<&CellResult>) =
        pairs.measured.iter().map(|(_, beside, solo)| (*beside, *solo)).unzip();
    row.matrix.requests = beside.iter().map(|cell| counted(cell).1).sum();
    let share = honoured(&beside, "beside the hog", &mut row);
    let without_hog = honoured(&solo_cells, "without the hog", &mut row);
    if let Some(found) = without_hog.filter(|found| found.value < PROPORTION_L3) {
        let found = in_words(&found);
        row.doubt(format!("requests are refused without the hog as well: {found}"));
    }
    let unprotected = unprotected(context, contended, mechanism, &mut row);
    if let Some(share) = &share
        && !row.is_doubtful()
    {
        let index_l1 = context.input.plan.thresholds.index_l1;
        let range = levels(share, &unprotected, index_l1);
        row.set_range(range, vec!["more blocks would decide".to_owned().into()]);
        word(context, mechanism, range, &mut row);
    }
    row.matrix.survival = share;
    row.finish()
}

fn word(context: &Context<'_>, mechanism: &MechanismRow, range: LevelRange, row: &mut Row) {
    let Some(level) = range.decided() else {
        return;
    };
    let tried = bypass(context.input.probes, &mechanism.variant, "memory");
    let (word, warning) = with_bypass(level, enforcing(mechanism, SubAxis::Capacity), tried);
    if let Some(warning) = warning {
        row.warn(warning);
    }
    row.matrix.word = Some(word.to_owned());
}

/// The unprotected form of a mechanism.
enum Unprotected {
    /// It was not measured.
    Unknown,
    /// It is the mechanism itself.
    Itself,
    /// The proportion that it honours.
    Honours(Estimate),
}

/// The levels that both intervals leave open.
fn levels(share: &Estimate, unprotected: &Unprotected, index_l1: f64) -> LevelRange {
    let index: [f64; 2] = match unprotected {
        Unprotected::Unknown => {
            return LevelRange::of_proportion(share).weaker(LevelRange::at(Level::L2));
        }
        Unprotected::Itself => [0.0; 2],
        Unprotected::Honours(form) => {
            [(share.lo, form.hi), (share.hi, form.lo)].map(|(s, u)| 1.0 - s.ln() / u.ln())
        }
    };
    let at = |level: Level, index: f64| {
        let no_better = level < Level::L2 && index < index_l1;
        if no_better { Level::L0 } else { level }
    };
    let range = LevelRange::of_proportion(share);
    LevelRange { worst: at(range.worst, index[0]), best: at(range.best, index[1]) }
}

/// What the unprotected form honours. A hog that leaves it nearly everything is too weak.
fn unprotected(
    context: &Context<'_>,
    contended: &Key,
    mechanism: &MechanismRow,
    row: &mut Row,
) -> Unprotected {
    let Some((key, u_kind)) = unprotected_form(context, contended, mechanism, row) else {
        return Unprotected::Unknown;
    };
    row.matrix.u_kind = Some(u_kind);
    let cells = context.cells.blocks(key).into_iter().flatten();
    let cells: Vec<&CellResult> = cells.filter_map(|(_, cell)| cell.measured()).collect();
    let (have, need) = (cells.len(), BLOCKS_MIN as usize);
    if have < need {
        row.doubt(format!(
            "{UNIT} unprotected rests on {}, {need} are needed",
            gpubench_record::counted(have, "block")
        ));
    }
    let Some(share) = honoured(&cells, "unprotected", row) else {
        return Unprotected::Unknown;
    };
    let max = context.input.plan.thresholds.effectiveness_max;
    if share.hi > max {
        let found = in_words(&share);
        row.doubt(format!(
            "the aggressor is too weak to show anything: unprotected {found}, accepted is up to \
             {max}"
        ));
    }
    if key == contended { Unprotected::Itself } else { Unprotected::Honours(share) }
}

/// Honoured requests, and answered requests.
fn counted(cell: &CellResult) -> (u64, u64) {
    let count = |name| cell.requests.get(name).copied().unwrap_or(0);
    (count(HONOURED_REQUESTS), count(ANSWERED_REQUESTS))
}

/// The proportion of answered requests that were honoured. The interval is the union of two:
/// Clopper-Pearson over all requests, which assumes that requests are independent, and a t interval
/// over the blocks' proportions, which is wider where blocks differ more than that.
fn honoured(cells: &[&CellResult], when: &str, row: &mut Row) -> Option<Estimate> {
    let counts: Vec<(u64, u64)> = cells.iter().map(|cell| counted(cell)).collect();
    let mut share = Proportion::default();
    for &(good, trials) in &counts {
        share.add(UNIT, good, trials);
    }
    let mut estimate = row.take(&format!("proportion of {UNIT} {when}"), share.estimate())?;
    let parts = counts.iter().filter(|(_, trials)| *trials > 0);
    let parts: Vec<f64> = parts.map(|(good, of)| *good as f64 / *of as f64).collect();
    // A single block has no spread.
    if let Ok(blocks) = moments(&parts)
        && let Ok(t) = student_t::two_sided_quantile(0.05, f64::from(blocks.n) - 1.0)
    {
        let half = t * blocks.sd / f64::from(blocks.n).sqrt();
        estimate.lo = estimate.lo.min((estimate.value - half).max(0.0));
        estimate.hi = estimate.hi.max((estimate.value + half).min(1.0));
    }
    let (good, trials) = share.counts();
    row.warn(format!("{when} {good} of {trials} {UNIT}"));
    Some(estimate)
}
