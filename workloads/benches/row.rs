//! The cost of recording one row in the log, without its stamps. The limit is 60 ns.
#![allow(clippy::disallowed_methods, reason = "tests start processes and read the clock")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use gpubench_record::sample::MISSING;
use gpubench_record::{Phase, SampleRow, SampleStatus};
use gpubench_workloads::log::LogWriter;

/// Rows per log: enough that its pages stay in the cache no better than a tenant's do.
const ROWS: u64 = 1 << 20;

fn one_row(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut number = 0u32;
    let mut new_log = || {
        number += 1;
        let path = folder.path().join(number.to_string());
        let log = LogWriter::create(&path, ROWS).expect("space for a log");
        // Only the mapping is needed, so the next log finds disk space.
        std::fs::remove_file(path).expect("the log just made");
        log
    };
    let mut log = new_log();
    let mut row = SampleRow {
        seq: 0,
        t_sched_ns: 1_000,
        t_issue_ns: 1_100,
        t_ret_ns: 5_000,
        t_done_ns: MISSING,
        gpu_ns: MISSING,
        error: 0,
        phase: Phase::Open,
        status: SampleStatus::Ok,
        issuer_idle: true,
    };
    c.bench_function("one row without stamps", |bencher| {
        bencher.iter_custom(|rows| {
            let mut elapsed = std::time::Duration::ZERO;
            let mut left = rows;
            while left > 0 {
                let room = ROWS - log.committed_rows();
                if room == 0 {
                    log = new_log();
                    continue;
                }
                let now = left.min(room);
                let begun = std::time::Instant::now();
                for _ in 0..now {
                    row.seq += 1;
                    black_box(log.push(black_box(&row)));
                }
                elapsed += begun.elapsed();
                left -= now;
            }
            elapsed
        });
    });
}

criterion_group!(rows, one_row);
criterion_main!(rows);
