//! Reopening a record: its rows are logs again, and finishing it gives the same files.

use std::path::Path;

use super::{append_bytes, began, cell_ended, crashed_run, reading, victim_rows};
use crate::store::{
    CELLS_FOLDER, EVENTS_FILE, EventLog, LATENCIES_FILE, RECORD_FILE, Record, SAMPLES_FILE,
    StoreError, TELEMETRY_FILE, TELEMETRY_LOG_FILE, TelemetryLog, finish, read_events, reopen,
    seal, write_record_json,
};

const MADE_AT_THE_END: [&str; 3] = [SAMPLES_FILE, LATENCIES_FILE, TELEMETRY_FILE];

fn bytes(dir: &Path) -> [Vec<u8>; 3] {
    MADE_AT_THE_END.map(|name| std::fs::read(dir.join(name)).unwrap())
}

#[test]
fn a_finished_record_becomes_that_of_a_run_and_back() {
    let dir = crashed_run();
    let dir = dir.path();
    finish(dir).unwrap();
    write_record_json(dir, Record::open(dir).unwrap().run()).unwrap();
    seal(dir).unwrap();
    let before = bytes(dir);
    reopen(dir).unwrap();
    for gone in [&MADE_AT_THE_END[..], &[RECORD_FILE, "checksums.b3"]].concat() {
        assert!(!dir.join(gone).exists(), "{gone}");
    }
    let record = Record::open(dir).unwrap();
    assert_eq!(record.samples("b00-c000", "victim").unwrap(), victim_rows());
    assert_eq!(record.telemetry().unwrap(), (0..5).map(reading).collect::<Vec<_>>());
    // A second call finds nothing to do.
    reopen(dir).unwrap();
    finish(dir).unwrap();
    assert_eq!(bytes(dir), before);
}

#[test]
fn a_reopened_record_that_was_cut_between_two_steps_is_reopened_again() {
    let dir = crashed_run();
    let dir = dir.path();
    finish(dir).unwrap();
    let before = bytes(dir);
    std::fs::create_dir_all(dir.join("cells.part/b00-c000")).unwrap();
    std::fs::write(dir.join("cells.part/b00-c000/victim.samples"), "half").unwrap();
    reopen(dir).unwrap();
    // The logs were written, and the files that they came from not yet removed.
    for (name, bytes) in MADE_AT_THE_END.iter().zip(&before) {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    reopen(dir).unwrap();
    assert!(!dir.join(SAMPLES_FILE).exists() && dir.join(CELLS_FOLDER).exists());
    finish(dir).unwrap();
    assert_eq!(bytes(dir), before);
}

#[test]
fn damaged_samples_are_refused_and_nothing_is_removed() {
    let dir = crashed_run();
    let dir = dir.path();
    finish(dir).unwrap();
    seal(dir).unwrap();
    append_bytes(&dir.join(SAMPLES_FILE), b"x");
    let error = reopen(dir).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    for kept in MADE_AT_THE_END {
        assert!(dir.join(kept).exists(), "{kept}");
    }
    assert!(!dir.join(TELEMETRY_LOG_FILE).exists());
}

#[test]
fn events_and_readings_go_on_behind_the_last_whole_line() {
    for torn in ["{\"event\": \"cell-be", ""] {
        let dir = crashed_run();
        let dir = dir.path();
        append_bytes(&dir.join(EVENTS_FILE), torn.as_bytes());
        let before = read_events(dir).unwrap().events;
        let mut events = EventLog::reopen(dir).unwrap();
        assert!(matches!(EventLog::reopen(dir), Err(StoreError::InUse { .. })));
        events.append(&cell_ended("b00-c001", 3)).unwrap();
        events.close().unwrap();
        let mut telemetry = TelemetryLog::reopen(dir).unwrap();
        telemetry.append(&reading(5)).unwrap();
        telemetry.close().unwrap();
        let after = read_events(dir).unwrap();
        assert_eq!(after.warnings, [""; 0]);
        assert_eq!(after.events[..before.len()], before);
        assert_eq!(after.events.len(), before.len() + 1);
        assert_eq!(Record::open(dir).unwrap().telemetry().unwrap().len(), 6);
    }
}

#[test]
fn an_event_that_lacks_only_its_line_feed_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventLog::create(dir.path()).unwrap();
    events.append(&began()).unwrap();
    events.append(&cell_ended("b00-c000", 0)).unwrap();
    events.close().unwrap();
    let path = dir.path().join(EVENTS_FILE);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    EventLog::reopen(dir.path()).unwrap().close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
