//! The levels of a row whose blocks have two modes.

use gpubench_record::Thresholds;

use crate::figures::TwoModes;
use crate::score::boundary::reaching;
use crate::score::level::{LevelRange, Resource};
use crate::score::row::Row;

/// Both modes of the logarithm of the retention.
#[derive(Debug)]
pub(super) struct Both {
    pub modes: TwoModes,
    /// The mean logarithm of the effectiveness.
    pub of_u: Option<f64>,
}

/// The levels of a row with two modes. A t interval of few blocks with two modes covers too rarely,
/// but whatever the share of each mode, the true mean lies between them. So the row is decided
/// where the whole range has one level, and in doubt elsewhere.
pub(super) fn range(
    both: &Both,
    figures: &Resource<'_>,
    thresholds: &Thresholds,
    row: &mut Row,
) -> LevelRange {
    let Both { modes, of_u } = both;
    let text = modes.in_words(f64::exp);
    let ends = [modes.low, modes.high];
    let retention = reaching(figures.retention, ends.map(f64::exp));
    let guarantee = figures.guarantee.map(|guarantee| {
        let scale = guarantee.value / figures.retention.value;
        reaching(guarantee, ends.map(|log| scale * log.exp()))
    });
    let index = figures.index.map(|index| match of_u {
        Some(of_u) => reaching(index, ends.map(|log| 1.0 - log / of_u)),
        None => index.clone(),
    });
    let range = Resource {
        retention: &retention,
        guarantee: guarantee.as_ref(),
        index: index.as_ref(),
        capped: figures.capped,
    }
    .range(thresholds);
    match range.decided() {
        Some(level) => row.warn(format!("{text}; both are at {level}")),
        None => row.doubt(format!("{text}, which leave {range} open")),
    }
    range
}
