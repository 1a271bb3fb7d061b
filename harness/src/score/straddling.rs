//! The rows that more blocks would decide, with the number of blocks that the spread of each asks
//! for.

use super::row::Row;

/// A row that more blocks would decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Straddling {
    /// Its place in the matrix.
    pub row: usize,
    pub blocks: u32,
    /// The blocks that its spread asks for: an upper estimate, because a t interval of more blocks
    /// has a smaller t.
    pub blocks_wanted: u32,
}

/// The rows whose interval straddles a bound of levels and would not with more blocks.
pub(super) fn of(rows: &[Row]) -> Vec<Straddling> {
    let wanted = |(place, row): (usize, &Row)| {
        let deciding = row.matrix.retention.as_ref().or(row.matrix.jitter.as_ref());
        Some(Straddling { row: place, blocks: deciding?.n, blocks_wanted: row.blocks_wanted? })
    };
    rows.iter().enumerate().filter_map(wanted).collect()
}
