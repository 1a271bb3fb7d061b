//! The touched 128-byte lines of each mapped range.

use std::collections::BTreeMap;

pub const LINE_BYTES: u64 = 128;

/// Lines per chunk of the bitmap.
const CHUNK_LINES: u64 = 4096;

/// Exact sets of touched lines and ranges. Bitmaps have chunks, as touched memory is small compared
/// with mapped memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    ranges: Vec<RangeLines>,
    lines: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RangeLines {
    read: bool,
    written: bool,
    chunks: BTreeMap<u64, Box<[u64; 64]>>,
}

impl Footprint {
    /// Records an access of `bytes` bytes at `offset` of range `range`.
    pub(crate) fn mark(&mut self, range: usize, offset: u64, bytes: u64, write: bool) {
        if self.ranges.len() <= range {
            self.ranges.resize_with(range + 1, RangeLines::default);
        }
        let lines = &mut self.ranges[range];
        if write {
            lines.written = true;
        } else {
            lines.read = true;
        }
        let (first, last) = (offset / LINE_BYTES, (offset + bytes.max(1) - 1) / LINE_BYTES);
        let mut chunk_id = u64::MAX;
        let mut chunk: Option<&mut Box<[u64; 64]>> = None;
        for line in first..=last {
            if chunk_id != line / CHUNK_LINES {
                chunk_id = line / CHUNK_LINES;
                chunk = Some(lines.chunks.entry(chunk_id).or_insert_with(|| Box::new([0; 64])));
            }
            let Some(words) = chunk.as_mut() else { continue };
            let (word, bit) = ((line % CHUNK_LINES / 64) as usize, 1u64 << (line % 64));
            self.lines += u64::from(words[word] & bit == 0);
            words[word] |= bit;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.lines * LINE_BYTES
    }

    pub fn read_ranges(&self) -> Vec<usize> {
        self.indices(|range| range.read)
    }

    pub fn written_ranges(&self) -> Vec<usize> {
        self.indices(|range| range.written)
    }

    /// First touched byte of a range and the one after the last, in whole lines; 0 and 0 if none.
    pub fn extent(&self, range: usize) -> (u64, u64) {
        let Some(chunks) = self.ranges.get(range).map(|range| &range.chunks) else { return (0, 0) };
        // A chunk exists only with a touched line: the outermost two give the extent.
        let set = |words: &[u64; 64]| {
            let touched = |word: &u64| *word != 0;
            let first = words.iter().position(touched)?;
            let last = words.iter().rposition(touched)?;
            let low = first as u64 * 64 + u64::from(words[first].trailing_zeros());
            let high = last as u64 * 64 + 63 - u64::from(words[last].leading_zeros());
            Some((low, high))
        };
        let first = chunks.first_key_value();
        let last = chunks.last_key_value();
        let first = first.and_then(|(id, words)| Some(id * CHUNK_LINES + set(words)?.0));
        let last = last.and_then(|(id, words)| Some(id * CHUNK_LINES + set(words)?.1));
        match (first, last) {
            (Some(first), Some(last)) => (first * LINE_BYTES, (last + 1) * LINE_BYTES),
            _ => (0, 0),
        }
    }

    /// Adds the lines of another execution on the same ranges.
    pub fn absorb(&mut self, other: Footprint) {
        if self.ranges.len() < other.ranges.len() {
            self.ranges.resize_with(other.ranges.len(), RangeLines::default);
        }
        for (mine, theirs) in self.ranges.iter_mut().zip(other.ranges) {
            mine.read |= theirs.read;
            mine.written |= theirs.written;
            for (id, words) in theirs.chunks {
                let chunk = mine.chunks.entry(id).or_insert_with(|| Box::new([0; 64]));
                for (word, more) in chunk.iter_mut().zip(words.iter()) {
                    self.lines += u64::from((more & !*word).count_ones());
                    *word |= more;
                }
            }
        }
    }

    fn indices(&self, wanted: impl Fn(&RangeLines) -> bool) -> Vec<usize> {
        let ranges = self.ranges.iter().enumerate();
        ranges.filter(|(_, range)| wanted(range)).map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_counts_once() {
        let mut footprint = Footprint::default();
        footprint.mark(1, 0, 4, false);
        footprint.mark(1, 124, 8, false);
        footprint.mark(1, 64, 4, true);
        footprint.mark(3, CHUNK_LINES * LINE_BYTES - 4, 8, true);
        assert_eq!(footprint.bytes(), 4 * LINE_BYTES);
        assert_eq!(footprint.read_ranges(), [1]);
        assert_eq!(footprint.written_ranges(), [1, 3]);
        assert_eq!(footprint.extent(1), (0, 2 * LINE_BYTES));
        let line = (CHUNK_LINES - 1) * LINE_BYTES;
        assert_eq!(footprint.extent(3), (line, line + 2 * LINE_BYTES));
        assert_eq!((footprint.extent(0), footprint.extent(9)), ((0, 0), (0, 0)));
    }

    proptest! {
        #[test]
        fn an_extent_goes_from_the_first_touched_line_to_the_last(
            marks in vec((0..3 * CHUNK_LINES * LINE_BYTES, 1..300_u64), 1..20),
        ) {
            let mut footprint = Footprint::default();
            for &(offset, bytes) in &marks {
                footprint.mark(0, offset, bytes, true);
            }
            let first = marks.iter().map(|(offset, _)| offset / LINE_BYTES).min();
            let last = marks.iter().map(|(offset, bytes)| (offset + bytes - 1) / LINE_BYTES).max();
            let expected = (
                first.unwrap() * LINE_BYTES,
                (last.unwrap() + 1) * LINE_BYTES,
            );
            prop_assert_eq!(footprint.extent(0), expected);
        }
    }
}
