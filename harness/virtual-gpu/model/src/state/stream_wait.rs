//! Words that streams wait for: what the memory at an address has to say before the stream goes on.
//!
//! A hold is met when somebody finds that its word says so. Who changed the word is kept with it,
//! because effects on bytes come early here (see `launch`): the stream goes on when the device has
//! come to the operation that wrote.

use std::ops::Range;

use super::{NONE, State};

/// Streams that wait for words at most.
pub const STREAM_WAITS: usize = 64;

/// One wait of one stream for one word.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct StreamWait {
    /// Whether the row is in use.
    pub live: bool,
    /// Tells the holds apart that have this row one after the other.
    pub number: u64,
    /// The stream that waits.
    pub stream: u32,
    /// Process slot of the stream's owner.
    pub process: u32,
    /// Where the word lies in device memory; [`super::NEVER`] if it is in the owner's host memory.
    pub offset: u64,
    /// Where the owner of the stream reads it.
    pub host: u64,
    /// What it is held against.
    pub test: Test,
    /// It has been met.
    pub met: bool,
    /// When that was found.
    pub met_ns: u64,
    /// Stream of the operation that wrote the word, [`NONE`] if the host did.
    pub by: u32,
    /// Place of that operation in its stream.
    pub by_seq: u64,
    /// Stream of an operation whose stores are only known when it is over, and its place there; 0
    /// as the place if there is none.
    pub look: (u32, u64),
}

/// A part of a process's memory to which an operation will store when it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The part, where the host finds it.
    pub part: Range<usize>,
    /// Stream of the operation, and its place there.
    pub by: (u32, u64),
}

impl StreamWait {
    /// Looks again after the first of those that may store to the word.
    pub fn look_after(&mut self, owed: &[Owed]) {
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
    /// Whether a word passes.
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

/// Whether whoever waits has to wake: the wait is over, or something is done that may have stored
/// to the word.
#[must_use]
pub fn is_over(state: &State, row: usize, number: u64) -> bool {
    let (stream, seq) = state.stream_waits.rows[row].look;
    let done = seq > 0 && state.streams.rows[stream as usize].completed >= seq;
    done || is_met_or_gone(state, row, number)
}

/// Whether the wait number `number` in row `row` is over: met by something that has happened, or
/// given up, or its stream is no more.
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
    use super::{Owed, StreamWait, Test, is_met_or_gone, is_over};
    use crate::state::{NONE, State, Stream};

    #[test]
    fn conditions_are_those_of_the_header() {
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
    fn a_wait_is_over_when_the_device_has_come_to_the_write_or_cannot_any_more() {
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
        assert!(is_over(&state, row, 6), "an earlier one in this row");
        state.stream_waits.rows[row].met = true;
        assert!(is_over(&state, row, 7), "the host wrote");
        (
            state.stream_waits.rows[row].by,
            state.stream_waits.rows[row].by_seq,
        ) = (1, 4);
        assert!(!is_over(&state, row, 7), "the device has yet to come to it");
        state.streams.rows[1].completed = 4;
        assert!(is_over(&state, row, 7));
        state.stream_waits.rows[row].met = false;
        state.contexts.rows[0].sticky = 700;
        assert!(is_over(&state, row, 7), "the context broke");
        state.contexts.rows[0].sticky = 0;
        let (part, by) = (64..128, (1, 6));
        state.stream_waits.rows[row].host = 128;
        state.stream_waits.rows[row].look_after(&[Owed {
            part: part.clone(),
            by,
        }]);
        assert_eq!(state.stream_waits.rows[row].look, (0, 0), "beside it");
        state.stream_waits.rows[row].host = 127;
        state.stream_waits.rows[row].look_after(&[Owed { part, by }]);
        assert!(!is_over(&state, row, 7));
        state.streams.rows[1].completed = 6;
        assert!(is_over(&state, row, 7), "look again");
        assert!(!is_met_or_gone(&state, row, 7));
    }
}
