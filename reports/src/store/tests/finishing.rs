//! Finishing a record: stored files, kept logs, and errors.

use std::path::Path;
use std::process::Command;

use gpubench_record::SampleRow;

use super::{began, crashed_run, victim_rows, write_log};
use crate::sample_records;
use crate::store::samples_for_tests::row;
use crate::store::{
    CELLS_FOLDER, EVENTS_FILE, EventLog, LATENCIES_FILE, Record, SAMPLES_FILE, StoreError,
    TELEMETRY_FILE, finish, log_path, write_record_json,
};

#[test]
fn refuses_to_finish_the_record_of_a_live_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventLog::create(dir.path()).unwrap();
    events.append(&began()).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows());
    assert!(matches!(finish(dir.path()), Err(StoreError::InUse { .. })));
    assert!(dir.path().join(CELLS_FOLDER).exists());
    let reason = Record::open(dir.path()).unwrap().run().incomplete_reason.clone().unwrap();
    assert!(reason.starts_with("the run has not ended"), "{reason}");
    assert!(matches!(EventLog::create(dir.path()), Err(StoreError::Occupied { .. })));
    events.close().unwrap();
    assert_eq!(finish(dir.path()).unwrap().sample_rows, Some(200));
}

#[test]
fn the_same_logs_give_the_same_bytes() {
    let bytes = || {
        let dir = crashed_run();
        finish(dir.path()).unwrap();
        let names = [SAMPLES_FILE, TELEMETRY_FILE, LATENCIES_FILE];
        names.map(|name| std::fs::read(dir.path().join(name)).unwrap())
    };
    let first = bytes();
    assert_eq!(first, bytes());
    assert!(first[0].len() > 1000 && first[1].len() > 500 && first[2].len() > 300);
}

#[test]
fn moves_logs_that_cannot_be_stored_aside() {
    let dir = crashed_run();
    let torn = log_path(dir.path(), "b00-c001", "victim").unwrap();
    let half = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &half[..10]).unwrap();
    std::fs::write(dir.path().join("cells/b00-c000/stray.txt"), "mine").unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows()[..4]);
    std::fs::remove_file(log_path(dir.path(), "b00-c000", "neighbour-1").unwrap()).unwrap();
    let done = finish(dir.path()).unwrap();
    assert_eq!(done.sample_rows, Some(4));
    let text = done.warnings.join("\n");
    assert!(text.contains("has 10 bytes, but the header takes 64; moved to unreadable/"), "{text}");
    assert!(text.contains("the log of neighbour-1 in cell b00-c000 is missing, with 7 rows"));
    assert!(text.contains("the log of victim in cell b00-c000 has 4 of 7 rows"));
    assert!(text.contains("stray.txt is no planned log"));
    let aside = |name: &str| std::fs::read(dir.path().join("unreadable").join(name)).unwrap();
    assert_eq!(aside("b00-c001/victim.samples"), half[..10]);
    assert_eq!(aside("b00-c000/stray.txt"), b"mine");
    assert!(!dir.path().join(CELLS_FOLDER).exists());
}

#[test]
fn an_interrupted_finish_loses_nothing() {
    let dir = crashed_run();
    // Interrupted while it removed the stored logs.
    finish(dir.path()).unwrap();
    let stored = std::fs::read(dir.path().join(SAMPLES_FILE)).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows()[..1]);
    std::fs::rename(dir.path().join(CELLS_FOLDER), dir.path().join("cells.stored")).unwrap();
    finish(dir.path()).unwrap();
    assert_eq!(std::fs::read(dir.path().join(SAMPLES_FILE)).unwrap(), stored);
    assert!(!dir.path().join("cells.stored").exists());
    // Without logs and without a Parquet file the samples are lost.
    std::fs::remove_file(dir.path().join(SAMPLES_FILE)).unwrap();
    assert!(matches!(finish(dir.path()), Err(StoreError::SamplesLost { rows: 14, .. })));
}

#[test]
fn an_output_that_cannot_be_written_leaves_the_logs() {
    let dir = crashed_run();
    // Also root cannot replace a folder that is not empty by a file.
    std::fs::create_dir_all(dir.path().join(SAMPLES_FILE).join("in the way")).unwrap();
    let error = finish(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "replace", .. }), "{error}");
    let left = Record::open(dir.path()).unwrap().samples("b00-c000", "victim").unwrap();
    assert_eq!(left, victim_rows());
    let record = sample_records::real();
    let missing = dir.path().join("not/there");
    assert!(matches!(write_record_json(&missing, &record), Err(StoreError::Io { .. })));
    let file = dir.path().join(EVENTS_FILE);
    assert!(matches!(EventLog::create(&file), Err(StoreError::Io { .. })));
}

/// Runs itself again under a limit on the file size. Like a full disk, the limit accepts part of a
/// write and refuses the rest.
#[test]
fn a_full_disk_is_a_typed_error_and_leaves_the_logs() {
    const FOLDER: &str = "GPUBENCH_TEST_FULL_DISK";
    if let Some(dir) = std::env::var_os(FOLDER) {
        return fill_the_disk(Path::new(&dir));
    }
    let dir = crashed_run();
    let noise: Vec<_> = (0..40_000u64)
        .map(|seq| SampleRow { t_done_ns: seq.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..row(seq) })
        .collect();
    write_log(dir.path(), "b01-c003", "victim", &noise);
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::tests::finishing::a_full_disk_is_a_typed_error_and_leaves_the_logs",
        ])
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(status.status.success() && text.contains("1 passed"), "{text}");
    assert!(!dir.path().join(SAMPLES_FILE).exists());
    assert!(!dir.path().join("samples.parquet.part").exists());
    assert_eq!(finish(dir.path()).unwrap().sample_rows, Some(40_210), "with room again");
}

fn fill_the_disk(dir: &Path) {
    let error = finish(dir).unwrap_err();
    assert!(matches!(error, StoreError::Io { action: "write", .. }), "{error}");
    let other = dir.join("other");
    let mut events = EventLog::create(&other).unwrap();
    events.append(&began()).unwrap();
    let error = (0..2_000).find_map(|_| events.append(&began()).err());
    let error = error.expect("no write reached the limit");
    assert!(matches!(error, StoreError::Io { action: "append to", .. }), "{error}");
    // The half line is cut off: the file ends with a whole line.
    let bytes = std::fs::read(other.join(EVENTS_FILE)).unwrap();
    assert!(bytes.ends_with(b"}\n"));
}
