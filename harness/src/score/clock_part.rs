//! The part of the retention that the SM clock took.
//!
//! A neighbour whose power lowers the victim's clock interferes, so the retention stays a ratio of
//! rates in time and nothing is widened. The ratio of the clocks says which part of it is power:
//! the retention over the ratio of the clocks is a ratio of cycles, which is what the neighbour
//! takes of the SMs and of memory.

use super::Context;
use super::row::Row;
use crate::figures::Key;
use crate::figures::{Logs, in_words};

/// A ratio of clocks below this is reported in words.
const USUAL: f64 = 0.99;

/// Adds the ratio of the clocks to a row, with a warning where it is below [`USUAL`].
pub(super) fn add(context: &Context<'_>, contended: &Key, solo: &Key, row: &mut Row) {
    let Some(pairs) = context.cells.pair(contended, solo) else {
        return;
    };
    // Records of format 1.0, and devices that report no clock, have none.
    let Ok(part) = Logs::of_clocks(&pairs).ratio() else {
        return;
    };
    if part.hi < USUAL
        && let Ok(time) = Logs::of_rates(&pairs).ratio()
    {
        row.warn(format!(
            "clock: beside the neighbour the SMs have {} of their solo clock: retention is {:.3} \
             in time and {:.3} in cycles",
            in_words(&part),
            time.value,
            time.value / part.value
        ));
    }
    row.matrix.clock_part = Some(part);
}
