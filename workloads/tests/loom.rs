//! The code that threads and processes share without a lock, in every order of execution that the
//! memory model allows, up to a bound of context switches. Compiled with `--cfg loom` only; `bash
//! ci/long.sh loom` runs it.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;

use sync::{AtomicU64, Ordering};

#[path = "../src/log/committed.rs"]
mod committed;

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
