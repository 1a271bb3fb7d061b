//! The code that threads and processes share without a lock, in every order of execution that the
//! memory model allows, up to a bound of context switches. Compiled with `--cfg loom` only; `bash
//! ci/long.sh loom` runs it.
#![cfg(loom)]

use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};
use loom::sync::Arc;
use loom::thread;

use sync::{AtomicU64, Ordering};

#[path = "../src/log/committed.rs"]
mod committed;
#[expect(dead_code, reason = "the product has callers of all of it")]
#[path = "../src/generator/ring.rs"]
mod ring;

/// In place of the atomics of `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
}

/// Context switches of one execution. More find nothing new and take minutes.
const PREEMPTIONS_MAX: usize = 3;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(check);
}

fn row(seq: u64) -> SampleRow {
    SampleRow {
        seq,
        t_sched_ns: 10 * seq + 1,
        t_issue_ns: 10 * seq + 2,
        t_ret_ns: 10 * seq + 3,
        t_done_ns: MISSING,
        gpu_ns: MISSING,
        error: -1,
        phase: Phase::Open,
        status: SampleStatus::Error,
        issuer_idle: true,
    }
}

#[test]
fn the_reaper_pops_what_the_issuer_pushed_also_where_entries_are_used_again() {
    model(|| {
        let ring = Arc::new(ring::Ring::new(2));
        let issuer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                for seq in 0..3 {
                    while !ring.push(&row(seq)) {
                        thread::yield_now();
                    }
                }
            })
        };
        for seq in 0..3 {
            let popped = loop {
                match ring.pop() {
                    Some(popped) => break popped,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(popped, row(seq));
        }
        assert_eq!(ring.pop(), None);
        assert!(issuer.join().is_ok());
    });
}

#[test]
fn a_reader_that_sees_the_count_sees_the_rows() {
    model(|| {
        let rows: Arc<[AtomicU64; 2]> = Arc::new(Default::default());
        let count = Arc::new(AtomicU64::new(0));
        let writer = {
            let (rows, count) = (Arc::clone(&rows), Arc::clone(&count));
            thread::spawn(move || {
                for (row, done) in rows.iter().zip(1..) {
                    // A row is written without any order of memory.
                    row.store(7, Ordering::Relaxed);
                    committed::publish(&count, done);
                }
            })
        };
        let committed = u64::from_le(count.load(Ordering::Acquire));
        for row in &rows[..committed as usize] {
            assert_eq!(row.load(Ordering::Relaxed), 7);
        }
        assert!(writer.join().is_ok());
    });
}
