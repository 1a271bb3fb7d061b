//! Rows of victims whose refused requests are answers: how many of the requests that were made
//! beside the hog were honoured.
//!
//! Levels are those of a proportion (see `memory`). One below L2 has to beat what the unprotected
//! form honours, by as much of an isolation index as elsewhere: what a hog leaves over between two
//! grabs is no protection. With s the part that is honoured and u that of the unprotected form, the
//! ends of `1 - ln s / ln u` are taken from the ends of both, which is wider than need be; a
//! mechanism that is its own unprotected form is no better than that by identity.

use gpubench_record::{CellResult, Condition, Estimate, MechanismRow};
use gpubench_stats::moments::moments;
use gpubench_stats::student_t;

use super::Context;
use super::cells::{Key, Pair};
use super::figures::told;
use super::level::{Level, LevelRange};
use super::memory::{SHARE_L3, Share, of_share};
use super::probe_figures::bypass;
use super::resource::unprotected_form;
use super::row::Row;
use super::word::{Evidence, with_bypass};
use crate::gate::{ASKED_REQUESTS, HONOURED_REQUESTS};

/// What is counted.
const UNIT: &str = "requests honoured";

/// Whether refusals answer the requests of the victim of this pair.
pub(super) fn is_asked(context: &Context<'_>, pair: &Pair) -> bool {
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
    row.count(UNIT, &pairs, context);
    let (beside, alone): (Vec<&CellResult>, Vec<&CellResult>) = pairs
        .measured
        .iter()
        .map(|(_, beside, alone)| (*beside, *alone))
        .unzip();
    row.matrix.requests = beside.iter().map(|cell| counted(cell).1).sum();
    let share = honoured(&beside, "beside the hog", &mut row);
    let all = honoured(&alone, "alone", &mut row);
    if let Some(alone) = all.filter(|alone| alone.value < SHARE_L3) {
        let told = told(&alone);
        row.doubt(format!("alone not all is honoured either: {told}"));
    }
    let unprotected = unprotected(context, contended, mechanism, &mut row);
    if let Some(share) = &share
        && !row.is_doubtful()
    {
        let index_l1 = context.input.plan.thresholds.index_l1;
        let range = levels(share, &unprotected, index_l1);
        row.set_range(range, vec!["more blocks would tell".to_owned()]);
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
    let (word, told) = with_bypass(level, Evidence::of(mechanism), tried);
    if let Some(told) = told {
        row.warn(told);
    }
    row.matrix.word = Some(word.to_owned());
}

/// What is known of the unprotected form.
enum Unprotected {
    /// Nothing.
    Unknown,
    /// It is the mechanism itself, and these its cells.
    Itself,
    /// The part that it honours.
    Honours(Estimate),
}

/// The levels that both intervals leave open.
fn levels(share: &Estimate, unprotected: &Unprotected, index_l1: f64) -> LevelRange {
    let index: [f64; 2] = match unprotected {
        Unprotected::Unknown => return of_share(share).weaker(LevelRange::at(Level::L2)),
        Unprotected::Itself => [0.0; 2],
        Unprotected::Honours(part) => {
            [(share.lo, part.hi), (share.hi, part.lo)].map(|(s, u)| 1.0 - s.ln() / u.ln())
        }
    };
    let at = |level: Level, index: f64| {
        let no_better = level < Level::L2 && index < index_l1;
        if no_better { Level::L0 } else { level }
    };
    let range = of_share(share);
    LevelRange {
        worst: at(range.worst, index[0]),
        best: at(range.best, index[1]),
    }
}

/// What the unprotected form honours; the hog must take something from it.
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
    let Some(share) = honoured(&cells, "unprotected", row) else {
        return Unprotected::Unknown;
    };
    let most = context.input.plan.thresholds.effectiveness_max;
    if share.hi > most {
        let told = told(&share);
        row.doubt(format!(
            "the aggressor is too weak to show anything: unprotected {told}, accepted is up to \
             {most}"
        ));
    }
    if key == contended {
        Unprotected::Itself
    } else {
        Unprotected::Honours(share)
    }
}

/// Requests honoured, and made.
fn counted(cell: &CellResult) -> (u64, u64) {
    let count = |name| cell.requests.get(name).copied().unwrap_or(0);
    (count(HONOURED_REQUESTS), count(ASKED_REQUESTS))
}

/// The part of the requests that was honoured. Its interval takes requests for independent, and is
/// widened to that of the blocks where those differ more than independent requests would.
fn honoured(cells: &[&CellResult], whose: &str, row: &mut Row) -> Option<Estimate> {
    let counts: Vec<(u64, u64)> = cells.iter().map(|cell| counted(cell)).collect();
    let mut share = Share::default();
    for &(good, trials) in &counts {
        share.add(UNIT, good, trials);
    }
    let mut estimate = row.take(&format!("part of {UNIT} {whose}"), share.estimate())?;
    let parts = counts.iter().filter(|(_, trials)| *trials > 0);
    let parts: Vec<f64> = parts.map(|(good, of)| *good as f64 / *of as f64).collect();
    // One block has no spread.
    if let Ok(blocks) = moments(&parts)
        && let Ok(t) = student_t::two_sided_quantile(0.05, f64::from(blocks.n) - 1.0)
    {
        let half = t * blocks.sd / f64::from(blocks.n).sqrt();
        estimate.lo = estimate.lo.min((estimate.value - half).max(0.0));
        estimate.hi = estimate.hi.max((estimate.value + half).min(1.0));
    }
    let (good, trials) = share.counts();
    row.warn(format!("{whose} {good} of {trials} {UNIT}"));
    Some(estimate)
}
