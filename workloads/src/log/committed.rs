//! The count of rows that a reader of a log may read, and the order of memory that makes it true.

use crate::sync::{AtomicU64, Ordering};

/// Makes the first `rows` rows visible: a reader that sees the count sees the rows.
#[inline]
pub(super) fn publish(count: &AtomicU64, rows: u64) {
    // Little endian as the format says.
    count.store(rows.to_le(), Ordering::Release);
}
