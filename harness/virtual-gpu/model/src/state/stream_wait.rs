//! Stream waits for words in memory (`cuStreamWaitValue`).
//!
//! A wait is met when a process finds that the word passes its test. The row also records the
//! operation that wrote the word, because bytes change here when a call is made: the stream
//! continues when the device has completed that operation.

use std::ops::Range;

use super::{NONE, State};

/// Maximum number of waits at one time.
pub const STREAM_WAITS: usize = 64;

/// One wait of one stream for one word.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct StreamWait {
    /// Whether the row is in use.
    pub live: bool,
    /// Distinguishes waits that use this row one after the other.
    pub number: u64,
    /// The stream that waits.
    pub stream: u32,
    /// Process slot of the stream's owner.
    pub process: u32,
    /// Offset of the word in device memory; [`super::NEVER`] if it is in the owner's host memory.
    pub offset: u64,
    /// Address of the word in the process that owns the stream.
    pub host: u64,
    /// The test that the word must pass.
    pub test: Test,
    /// The word has passed.
    pub met: bool,
    /// When it passed.
    pub met_ns: u64,
    /// Stream of the operation that wrote the word, [`NONE`] if the host did.
    pub by: u32,
    /// Sequence number of that operation.
    pub by_seq: u64,
    /// Stream and sequence number of an operation that may store to the word when it completes; the
    /// sequence number is 0 if there is none.
    pub look: (u32, u64),
}

/// A range of a process's memory to which an operation stores when it completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingStore {
    /// Addresses in the process.
    pub part: Range<usize>,
    /// Stream and sequence number of the operation.
    pub by: (u32, u64),
}

impl StreamWait {
    /// Requests a recheck after the first operation that may store to the word.
    pub fn recheck_after(&mut self, owed: &[PendingStore]) {
        let mut owed = owed
            .iter()
            .filter(|owed| owed.part.contains(&(self.host as usize)));
        if self.look.1 == 0
            && let Some(first) = owed.next()
        {
            self.look = first.by;
        }
    }
}

/// The condition of a wait (`CUstreamWaitValue_flags`, cuda.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Test {
    /// Length of the word: 4 or 8.
    pub bytes: u32,
    /// 0 cyclic not less, 1 equal, 2 any common bit, 3 not all bits.
    pub kind: u32,
    /// What the word is compared with.
    pub value: u64,
}

impl Test {
    /// Whether a word passes the test.
    #[must_use]
    pub fn accepts(&self, found: u64) -> bool {
        let value = self.value;
        let mask = if self.bytes == 4 {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        match self.kind & 3 {
            0 if self.bytes == 4 => (found as u32).wrapping_sub(value as u32) as i32 >= 0,
            0 => found.wrapping_sub(value) as i64 >= 0,
            1 => found & mask == value & mask,
            2 => found & value & mask != 0,
            _ => !(found | value) & mask != 0,
        }
    }

    /// The condition in words, for reports.
    #[must_use]
    pub fn describe(&self) -> String {
        let what = [
            "to reach",
            "to equal",
            "to share a bit with",
            "to lack a bit of",
        ];
        format!("{} {:#x}", what[(self.kind & 3) as usize], self.value)
    }
}

/// Whether the thread that waits must wake: the wait is over, or an operation that may have stored
/// to the word has completed.
#[must_use]
pub fn is_over(state: &State, row: usize, number: u64) -> bool {
    let (stream, seq) = state.stream_waits.rows[row].look;
    let done = seq > 0 && state.streams.rows[stream as usize].completed >= seq;
    done || is_met_or_gone(state, row, number)
}

/// Whether wait `number` in row `row` is over: met by a completed operation, or cancelled, or its
/// stream has ended.
#[must_use]
pub fn is_met_or_gone(state: &State, row: usize, number: u64) -> bool {
    let stream_wait = &state.stream_waits.rows[row];
    if !stream_wait.live || stream_wait.number != number {
        return true;
    }
    let stream = &state.streams.rows[stream_wait.stream as usize];
    if !stream.live || state.contexts.rows[stream.context as usize].sticky != 0 {
        return true;
    }
    stream_wait.met && {
        let by = state.streams.rows.get(stream_wait.by as usize);
        stream_wait.by == NONE || by.is_none_or(|by| !by.live || by.completed >= stream_wait.by_seq)
    }
}

#[cfg(test)]
mod tests {
    use super::{PendingStore, StreamWait, Test, is_met_or_gone, is_over};
    use crate::state::{NONE, State, Stream};

    #[test]
    fn tests_are_those_of_the_header() {
        for (found, value, bytes, kind, expected) in [
            (5, 5, 4, 0, true),
            (4, 5, 4, 0, false),
            (1, 0xFFFF_FFFF, 4, 0, true),
            (1, 0xFFFF_FFFF, 8, 0, false),
            (5, 5, 8, 1, true),
            (6, 5, 8, 1, false),
            (6, 2, 4, 2, true),
            (4, 2, 4, 2, false),
            (0xFFFF_FFF0, 0xF, 4, 3, false),
            (0xFFFF_FF00, 0xF, 4, 3, true),
        ] {
            let test = Test { bytes, kind, value };
            assert_eq!(test.accepts(found), expected, "{found:#x} {test:?}");
        }
    }

    #[test]
    fn a_wait_is_over_when_the_write_completes_or_the_context_fails() {
        let mut state = State::new(1, 0);
        for _ in 0..2 {
            let slot = state.streams.claim(|_| false).expect("room");
            let live = true;
            state.streams.rows[slot] = Stream {
                live,
                submitted: 9,
                ..Stream::default()
            };
        }
        let row = state.stream_waits.claim(|_| false).expect("room");
        let (live, number, by) = (true, 7, NONE);
        state.stream_waits.rows[row] = StreamWait {
            live,
            number,
            by,
            ..StreamWait::default()
        };
        assert!(!is_over(&state, row, 7));
        assert!(is_over(&state, row, 6), "an earlier wait in this row");
        state.stream_waits.rows[row].met = true;
        assert!(is_over(&state, row, 7), "the host wrote");
        (
            state.stream_waits.rows[row].by,
            state.stream_waits.rows[row].by_seq,
        ) = (1, 4);
        assert!(!is_over(&state, row, 7), "the write has not completed");
        state.streams.rows[1].completed = 4;
        assert!(is_over(&state, row, 7));
        state.stream_waits.rows[row].met = false;
        state.contexts.rows[0].sticky = 700;
        assert!(is_over(&state, row, 7), "the context failed");
        state.contexts.rows[0].sticky = 0;
        let (part, by) = (64..128, (1, 6));
        state.stream_waits.rows[row].host = 128;
        state.stream_waits.rows[row].recheck_after(&[PendingStore {
            part: part.clone(),
            by,
        }]);
        assert_eq!(
            state.stream_waits.rows[row].look,
            (0, 0),
            "outside the range"
        );
        state.stream_waits.rows[row].host = 127;
        state.stream_waits.rows[row].recheck_after(&[PendingStore { part, by }]);
        assert!(!is_over(&state, row, 7));
        state.streams.rows[1].completed = 6;
        assert!(is_over(&state, row, 7), "recheck");
        assert!(!is_met_or_gone(&state, row, 7));
    }
}
