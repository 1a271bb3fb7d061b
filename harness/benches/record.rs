//! What becomes of a record: gates from its samples, scores, its reading, report and comparison.
//!
//! The first bench is a plain JSON parse of the same file by a library: `ci/check_benches.py`
//! compares the others with it, because times of two machines cannot be compared.
#![expect(clippy::disallowed_methods, reason = "the record is made by the built program")]

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use criterion::{Criterion, criterion_group, criterion_main};
use gpubench::verbs::session::sessions;
use gpubench::verbs::{Repair, open_scored, rescore};
use gpubench_compare::diff::{Options, diff};
use gpubench_record::RunRecord;
use gpubench_reports::format;
use gpubench_reports::format::RenderOptions;
use gpubench_store::{RECORD_FILE, Record};

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/examples/h100_580.159.04_matrix");

fn reading(c: &mut Criterion) {
    let dir = Path::new(EXAMPLE);
    let text = std::fs::read(dir.join(RECORD_FILE)).unwrap();
    c.bench_function("parse", |b| {
        b.iter(|| serde_json::from_slice::<serde::de::IgnoredAny>(&text).unwrap());
    });
    c.bench_function("store", |b| b.iter(|| Record::open(dir).unwrap()));
}

fn scoring(c: &mut Criterion) {
    let run = Record::open(Path::new(EXAMPLE)).unwrap().into_run();
    c.bench_function("score", |b| {
        b.iter_batched_ref(
            || run.clone(),
            |run| rescore(run, &[]).unwrap(),
            criterion::BatchSize::LargeInput,
        );
    });
}

/// A run that ended before its scores: they come from events and samples.
fn gates(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpubench"));
    command.args(["matrix", "--device", "virtual", "--profile", "smoke", "--quiet", "--out"]);
    assert!(command.arg(&run).stdout(Stdio::null()).status().unwrap().success());
    std::fs::remove_file(run.join(RECORD_FILE)).unwrap();
    c.bench_function("gate", |b| b.iter(|| open_scored(&run, Repair::No).unwrap()));
}

fn reporting(c: &mut Criterion) {
    let run: RunRecord = Record::open(Path::new(EXAMPLE)).unwrap().into_run();
    for name in ["text", "html"] {
        let format = format::find(name).unwrap();
        let options = RenderOptions::default();
        c.bench_function(&format!("report {name}"), |b| {
            b.iter(|| {
                let mut page = Vec::new();
                (format.render)(&run, &options, &mut page).unwrap();
                page
            });
        });
    }
}

fn comparing(c: &mut Criterion) {
    let side = sessions(&[EXAMPLE.into()]).unwrap().sessions;
    let (before, after) = (vec![side[0].clone(); 3], vec![side[0].clone(); 3]);
    c.bench_function("diff", |b| {
        b.iter(|| diff(black_box(&before), black_box(&after), &Options::default()).unwrap());
    });
}

criterion_group!(benches, reading, scoring, gates, reporting, comparing);
criterion_main!(benches);
