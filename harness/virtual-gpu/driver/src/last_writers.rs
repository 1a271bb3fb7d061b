//! The operation that wrote to a range of memory last.
//!
//! Effects on bytes come when a call is made, so a word can hold the result of an operation that
//! the device has not reached. A wait for the word has to wait for that operation. Ranges are host
//! addresses, which are the same for every view of the memory.

use std::collections::BTreeMap;
use std::ops::Range;

/// A stream and a sequence number in it.
type At = (u32, u64);

/// Writes kept for one allocation; of more, the oldest are dropped.
const WRITES: usize = 16;

/// Allocations with kept writes; beyond that, all but the present one are dropped.
const ALLOCATIONS: usize = 4096;

/// The last writes, by the address at which the allocation begins.
#[derive(Debug, Default)]
pub struct LastWriters {
    by_base: BTreeMap<usize, Vec<(Range<usize>, At)>>,
}

impl LastWriters {
    /// Notes that an operation writes to a part of an allocation, or to some of that part.
    pub fn note(&mut self, base: usize, part: Range<usize>, by: At) {
        if part.is_empty() {
            return;
        }
        if self.by_base.len() == ALLOCATIONS && !self.by_base.contains_key(&base) {
            self.by_base.clear();
        }
        let writes = self.by_base.entry(base).or_default();
        writes.retain(|(old, _)| old.start < part.start || part.end < old.end);
        if writes.len() == WRITES {
            writes.remove(0);
        }
        writes.push((part, by));
    }

    /// The last operation that may have written to a part of an allocation.
    pub fn last(&self, base: usize, part: &Range<usize>) -> Option<At> {
        let writes = self.by_base.get(&base)?;
        let overlaps = |old: &Range<usize>| old.start < part.end && part.start < old.end;
        let mut newest_first = writes.iter().rev();
        newest_first.find_map(|(old, by)| overlaps(old).then_some(*by))
    }

    /// Drops all writes: the streams may have ended.
    pub fn clear(&mut self) {
        self.by_base.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{ALLOCATIONS, LastWriters, WRITES};

    #[test]
    fn the_last_write_that_touches_a_part_counts() {
        let mut writers = LastWriters::default();
        for (base, part, by) in [
            (0, 0..64, (1, 1)),
            (0, 32..48, (2, 5)),
            (0, 40..40, (3, 9)),
            (4096, 4096..8192, (4, 7)),
        ] {
            writers.note(base, part, by);
        }
        for (base, part, expected) in [
            (0, 0..4, Some((1, 1))),
            (0, 32..36, Some((2, 5))),
            (0, 28..34, Some((2, 5))),
            (0, 48..52, Some((1, 1))),
            (0, 64..68, None),
            (4096, 5000..5004, Some((4, 7))),
            (8192, 0..4, None),
        ] {
            assert_eq!(writers.last(base, &part), expected, "{base} {part:?}");
        }
        writers.note(0, 0..64, (5, 1));
        assert_eq!(writers.last(0, &(32..36)), Some((5, 1)), "written over");
    }

    #[test]
    fn the_number_of_kept_writes_is_bounded() {
        let mut writers = LastWriters::default();
        for at in 0..2 * WRITES {
            writers.note(0, 8 * at..8 * at + 4, (1, at as u64));
        }
        assert_eq!(writers.by_base[&0].len(), WRITES);
        assert_eq!(
            writers.last(0, &(8 * WRITES..8 * WRITES + 4)),
            Some((1, WRITES as u64))
        );
        for base in 1..2 * ALLOCATIONS {
            writers.note(base, base..base + 1, (1, 1));
        }
        assert!(writers.by_base.len() <= ALLOCATIONS);
    }
}
