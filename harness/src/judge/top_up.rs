//! The look at a run after its planned blocks: which rows straddle a boundary, or are less precise
//! than the profile wants, and what their spread asks for. It happens once, so no row stops on its
//! own result, and levels are decided once, from all blocks.

use std::path::Path;

use gpubench_record::{Cell, Estimate, MatrixRow, OutcomeKind, Plan, TopUp, TopUpReason};
use gpubench_reports::Record;

use super::record::{JudgeError, judged, look as look_at};
use crate::plan::{MoreBlocks, extend};
use crate::profile::Profile;
use crate::run::TopUpDecision;
use crate::score::{Look, Straddling};

/// Most blocks of a row that asks for them for its precision.
const BLOCKS_MAX: u32 = 20;

/// The look of a profile; `None` where it decides nothing or wants none.
pub(super) fn look(profile: &Profile) -> Option<TopUpDecision> {
    let device_time_ns = profile.device_time.ns;
    let half_width = profile.blocks.half_width;
    let is_on = profile.blocks.top_up && profile.decides;
    is_on.then(|| -> TopUpDecision {
        Box::new(move |out: &Path| {
            let decided = decide(out, device_time_ns, half_width);
            decided.map_err(|error| error.to_string())
        })
    })
}

/// The decision, and the cells to run; `None` where no row asks for blocks.
fn decide(
    out: &Path,
    device_time_ns: u64,
    half_width: f64,
) -> Result<Option<(TopUp, Vec<Cell>)>, JudgeError> {
    let run = judged(&Record::open(out)?)?.run;
    let Look { matrix, straddling } = look_at(&run)?;
    let rows = wanted(&run.plan, &matrix, &straddling, half_width);
    let left_ns = device_time_ns.saturating_sub(run.plan.device_time_ns());
    Ok((!rows.is_empty()).then(|| extend(&run.plan, left_ns, rows)))
}

/// The rows that ask for more blocks.
fn wanted(
    plan: &Plan,
    matrix: &[MatrixRow],
    straddling: &[Straddling],
    half_width: f64,
) -> Vec<MoreBlocks> {
    let mut pairs = plan.pairs.iter();
    let jitter = pairs.find(|pair| pair.sub_axis == plan.jitter_from);
    let more = |(place, row): (usize, &MatrixRow)| {
        let deciding = row.retention.as_ref().or(row.jitter.as_ref())?;
        let open = straddling.iter().find(|open| open.row == place);
        let (reason, wanted) = match (open, row.outcome.outcome) {
            (Some(open), _) => (TopUpReason::Straddles, open.blocks_wanted),
            (None, OutcomeKind::Measured) => {
                let precise = blocks_for_precision(row.retention.as_ref()?, half_width)?;
                (TopUpReason::Wide, precise)
            }
            _ => return None,
        };
        let of_jitter = jitter.filter(|_| row.retention.is_none());
        let victim = of_jitter.map(|pair| &pair.victim).or(row.victim.as_ref());
        let aggressor = of_jitter.map(|pair| &pair.aggressor).or(row.aggressor.as_ref());
        Some(MoreBlocks {
            variant: row.variant.clone(),
            axis: row.axis.clone(),
            victim: victim?.clone(),
            aggressor: aggressor?.clone(),
            reason,
            blocks: deciding.n,
            wanted,
        })
    };
    matrix.iter().enumerate().filter_map(more).collect()
}

/// The blocks at which the half-width of a retention, on the log scale, is the wanted one; at most
/// [`BLOCKS_MAX`]. `None` where it is that narrow, or the profile has no rule.
fn blocks_for_precision(retention: &Estimate, half_width: f64) -> Option<u32> {
    let half = (retention.hi / retention.lo).ln() / 2.0;
    let target = half_width.ln_1p();
    let is_wide = target > 0.0 && half.is_finite() && half > target;
    let wanted = (f64::from(retention.n) * (half / target).powi(2)).ceil();
    (is_wide && retention.n < BLOCKS_MAX)
        .then(|| (wanted.min(BLOCKS_MAX.into()) as u32).max(retention.n + 1))
}

#[cfg(test)]
mod tests {
    use gpubench_record::Ends;

    use super::*;

    fn figure(value: f64, lo: f64, hi: f64) -> Estimate {
        Estimate {
            value,
            lo,
            hi,
            ends: Ends::Interval,
            parts: None,
            n: 8,
            unit: "ratio".to_owned(),
        }
    }

    #[test]
    fn a_wide_interval_asks_for_blocks_up_to_the_limit() {
        // Half-widths of 2 % and 1.5 %: 8 (ln 1.02 / ln 1.015)^2 = 14.2.
        let wide = figure(0.5, 0.5 / 1.02, 0.5 * 1.02);
        assert_eq!(blocks_for_precision(&wide, 0.015), Some(15));
        assert_eq!(blocks_for_precision(&wide, 0.0), None);
        assert_eq!(blocks_for_precision(&wide, 0.02), None);
        assert_eq!(blocks_for_precision(&wide, 0.001), Some(BLOCKS_MAX));
    }
}
