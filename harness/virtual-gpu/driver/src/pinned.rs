//! Host memory that the device may use.

use crate::entries::PinnedEntry;
use crate::process::Tables;

/// The pinned memory that holds a range.
pub fn covering(tables: &Tables, address: usize, bytes: usize) -> Option<(usize, &PinnedEntry)> {
    let (&start, entry) = tables.pinned.range(..=address).next_back()?;
    let end = address.checked_add(bytes)?;
    (end <= start + entry.bytes).then_some((start, entry))
}
