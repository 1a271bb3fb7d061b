//! The queue from issuer to reaper: one writer, one reader, allocated once, no locks.
//!
//! Every word is an atomic, so the two sides need no `unsafe`; only head and tail have memory
//! order.

use gpubench_record::sample::{MISSING, Phase, SampleRow, SampleStatus};

use crate::sync::{AtomicU64, Ordering};

/// A bounded queue of requests in flight.
#[derive(Debug)]
pub(super) struct Ring {
    entries: Box<[[AtomicU64; 5]]>,
    /// Entries ever popped.
    head: AtomicU64,
    /// Entries ever pushed.
    tail: AtomicU64,
}

impl Ring {
    /// Room for `capacity` requests.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: (0..capacity.max(1)).map(|_| Default::default()).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
        }
    }

    /// Adds a request; false when there is no room. One thread only.
    pub(super) fn push(&self, row: &SampleRow) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        if tail - self.head.load(Ordering::Acquire) == self.entries.len() as u64 {
            return false;
        }
        let words = [row.seq, row.t_sched_ns, row.t_issue_ns, row.t_ret_ns, pack(row)];
        for (entry, word) in self.entry(tail).iter().zip(words) {
            entry.store(word, Ordering::Relaxed);
        }
        self.tail.store(tail + 1, Ordering::Release);
        true
    }

    /// Removes the oldest request. One thread at a time.
    pub(super) fn pop(&self) -> Option<SampleRow> {
        let head = self.head.load(Ordering::Relaxed);
        if head == self.tail.load(Ordering::Acquire) {
            return None;
        }
        let word = |i: usize| self.entry(head)[i].load(Ordering::Relaxed);
        let row = unpack(word(0), word(1), word(2), word(3), word(4));
        self.head.store(head + 1, Ordering::Release);
        Some(row)
    }

    /// Number of requests for which there is room.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn entry(&self, number: u64) -> &[AtomicU64; 5] {
        // The remainder is below a length that is a usize.
        &self.entries[(number % self.entries.len() as u64) as usize]
    }
}

/// All fields but the stamps, in one word.
fn pack(row: &SampleRow) -> u64 {
    u64::from(row.error.cast_unsigned())
        | u64::from(row.phase as u8) << 32
        | u64::from(row.status as u8) << 40
        | u64::from(row.issuer_idle) << 48
}

fn unpack(seq: u64, t_sched_ns: u64, t_issue_ns: u64, t_ret_ns: u64, rest: u64) -> SampleRow {
    let byte = |shift: u32| (rest >> shift & 0xff) as u8;
    SampleRow {
        seq,
        t_sched_ns,
        t_issue_ns,
        t_ret_ns,
        t_done_ns: MISSING,
        gpu_ns: MISSING,
        error: (rest & 0xffff_ffff) as u32 as i32,
        // Both were packed from a valid value of their type.
        phase: Phase::from_u8(byte(32)).unwrap_or(Phase::Drain),
        status: SampleStatus::from_u8(byte(40)).unwrap_or(SampleStatus::Error),
        issuer_idle: byte(48) != 0,
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn row(seq: u64) -> SampleRow {
        SampleRow {
            seq,
            t_sched_ns: seq * 3,
            t_issue_ns: seq * 5,
            t_ret_ns: seq * 7,
            t_done_ns: MISSING,
            gpu_ns: MISSING,
            error: -(seq as i32),
            phase: [Phase::Warmup, Phase::Closed, Phase::Open, Phase::Drain][seq as usize % 4],
            status: [SampleStatus::Ok, SampleStatus::Error][seq as usize % 2],
            issuer_idle: seq.is_multiple_of(3),
        }
    }

    #[test]
    fn it_keeps_order_and_bounds() {
        let ring = Ring::new(4);
        for lap in 0..5 {
            for seq in 0..4 {
                assert!(ring.push(&row(lap * 4 + seq)));
            }
            assert!(!ring.push(&row(99)), "a fifth entry in a ring of four");
            for seq in 0..4 {
                assert_eq!(ring.pop(), Some(row(lap * 4 + seq)));
            }
            assert_eq!(ring.pop(), None);
        }
    }

    #[test]
    fn two_threads_neither_lose_nor_mix_entries() {
        const COUNT: u64 = 6_000;
        let ring = Ring::new(64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seq = 0;
                while seq < COUNT {
                    if ring.push(&row(seq)) {
                        seq += 1;
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
            let mut seq = 0;
            while seq < COUNT {
                match ring.pop() {
                    Some(got) => {
                        assert_eq!(got, row(seq));
                        seq += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
    }
}
