//! Cells that a disturbance excludes must not choose the verdict: the level is computed a second
//! time with all of them, and a row whose level differs is inconclusive.

use super::row::Row;

/// Compares the printed rows with those of the second reading, which are in the same order.
pub(super) fn compare(rows: &mut [Row], again: &[Row]) {
    for (row, again) in rows.iter_mut().zip(again) {
        let Some(level) = row.range.filter(|range| range.decided().is_some()) else {
            continue;
        };
        let other = again.of_intervals;
        let Some(blocks) = row.disturbed_blocks().filter(|_| other != Some(level)) else {
            continue;
        };
        let found = other.map_or("without a level".to_owned(), |other| format!("at {other}"));
        let why = format!(
            "the level {level} rests on leaving out what a disturbance moved: with {blocks} the \
             row is {found}"
        );
        row.retract(&why, other.map(|other| level.with(other)));
    }
}
