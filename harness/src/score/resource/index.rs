//! The isolation index with its interval.

use gpubench_record::Estimate;
use gpubench_stats::{Confidence, NoEstimate, fieller};

use crate::figures::{Logs, Systematic, printed};
use crate::score::row::Row;

/// The isolation index `1 - ln R / ln U`, with Fieller's interval. The covariance of R and U counts
/// where both come from the same blocks.
pub(super) fn index(
    of_r: &Logs,
    of_u: &Logs,
    same_blocks: bool,
    row: &mut Row,
) -> Option<Estimate> {
    let ratio = if same_blocks {
        let (r, u) = of_r.shared(of_u);
        fieller::paired(&r, &u, Confidence::P95)
    } else {
        fieller::independent(&of_r.logs, &of_u.logs, Confidence::P95)
    };
    let index = ratio
        .and_then(fieller::isolation_index)
        .and_then(fieller::RatioSet::bounded)
        .and_then(|index| with_systematic(printed(index, "index"), of_r, of_u));
    match index {
        Ok(index) => Some(index),
        Err(error) => {
            row.warn(format!("no isolation index: {error}"));
            None
        }
    }
}

/// The index where both logarithms may lie anywhere within their systematic parts: it is monotone
/// in each, so its ends are among the four corners. Their distances from its value are added to the
/// ends of the statistical part.
fn with_systematic(index: Estimate, of_r: &Logs, of_u: &Logs) -> Result<Estimate, NoEstimate> {
    let (Some(r), Some(u)) = (of_r.mean(), of_u.mean()) else {
        return Ok(index);
    };
    let (of_r, of_u) = (of_r.systematic, of_u.systematic);
    if u + of_u.up >= 0.0 {
        let what = "the index beyond the systematic part of the effectiveness";
        return Err(NoEstimate::Unbounded { what });
    }
    let at = |r: f64, u: f64| 1.0 - r / u;
    let corners = [
        at(r - of_r.down, u - of_u.down),
        at(r - of_r.down, u + of_u.up),
        at(r + of_r.up, u - of_u.down),
        at(r + of_r.up, u + of_u.up),
    ];
    let from = at(r, u);
    let lo = index.lo - corners.iter().fold(0.0, |most, end| (from - end).max(most));
    let hi = index.hi + corners.iter().fold(0.0, |most, end| (end - from).max(most));
    let systematic = Systematic { known: of_r.known && of_u.known, ..Systematic::default() };
    Ok(systematic.with_ends(index, lo, hi))
}
