//! What changes verdicts of rows after each is judged by itself: the number of rows, and A/A pairs.

use gpubench_stats::NoEstimate;
use gpubench_stats::two_sample::{benjamini_hochberg, holm};

use super::super::hint::{self, Sides};
use super::super::options::ALPHA;
use super::super::verdict::Verdict;
use super::Draft;
use crate::session::Session;

/// How p values are corrected for their number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Correction {
    /// Of primary rows, whose verdicts rest on intervals.
    Holm,
    /// Of the others.
    BenjaminiHochberg,
}

/// Corrects p values for their number, with `further` ones that are corrected elsewhere; these and
/// rows without one count as p = 1. A change of a row that is not primary needs an adjusted p below
/// 5 %.
pub(super) fn adjust(
    drafts: &mut [Draft<'_>],
    correction: Correction,
    further: usize,
) -> Result<(), NoEstimate> {
    let p_of = |draft: &Draft<'_>| draft.judged.as_ref().map_or(1.0, |(judged, ..)| judged.p);
    let further = std::iter::repeat_n(1.0, further);
    let p_values: Vec<f64> = drafts.iter().map(p_of).chain(further).collect();
    let adjusted = match correction {
        Correction::Holm => holm(&p_values)?,
        Correction::BenjaminiHochberg => benjamini_hochberg(&p_values)?,
    };
    for (draft, p) in drafts.iter_mut().zip(adjusted) {
        let Some(figures) = &mut draft.row.figures else {
            continue;
        };
        figures.p_adjusted = p;
        let row = &mut draft.row;
        let is_change = matches!(row.verdict, Verdict::Regressed | Verdict::Improved);
        if correction == Correction::BenjaminiHochberg && is_change && p >= ALPHA {
            (row.verdict, row.confirmed) = (Verdict::Inconclusive, false);
            row.reason = Some("may be chance among so many rows".to_owned());
        }
    }
    Ok(())
}

/// Adds a hint to a change of rates, and takes the change back where repeated cells raise false
/// alarms.
pub(super) fn explain(
    draft: &mut Draft<'_>,
    sessions: [&[Session]; 2],
    uncalibrated: Option<&str>,
) {
    let row = &mut draft.row;
    let Some((judged, change, margin)) = &draft.judged else {
        return;
    };
    if row.key.metric.is_proportion() || row.bounds {
        return;
    }
    let moved = match row.verdict {
        Verdict::Regressed | Verdict::Improved => true,
        // Where the interval holds no change, no cause of one is named.
        Verdict::Inconclusive => {
            let [lo, hi] = judged.family;
            change.effect.value.abs() >= *margin && (lo > 0.0 || hi < 0.0)
        }
        _ => false,
    };
    if moved {
        let sides = Sides {
            sessions,
            series: [&draft.series[0], &draft.series[1]],
            key: &row.key,
            is_rate: !row.key.metric.is_latency(),
        };
        row.hint = hint::of(&sides, change, *margin);
    }
    let is_change = matches!(row.verdict, Verdict::Regressed | Verdict::Improved);
    if let (true, Some(why)) = (is_change, uncalibrated) {
        (row.verdict, row.confirmed) = (Verdict::Inconclusive, false);
        row.reason = Some(format!("uncalibrated: {why}"));
    }
}
