//! Finishing a record: stored files, kept logs, and errors.

use std::path::Path;
use std::process::Command;

use gpubench_record::{RunRecord, SampleRow, TelemetryRow};
use gpubench_sample_records as sample_records;

use super::{append_bytes, began, cell_ended, crashed_run, reading, victim_rows, write_log};
use crate::samples_for_tests::row;
use crate::{
    CELLS_FOLDER, CHECKSUMS_FILE, EVENTS_FILE, EventLog, LATENCIES_FILE, RECORD_FILE, Record,
    SAMPLES_FILE, StoreError, TELEMETRY_FILE, TELEMETRY_LOG_FILE, TelemetryLog, finish, log_path,
    read_events, reopen, seal, write_record_json,
};

#[test]
fn logs_that_were_put_beside_a_finished_record_hide_nothing() {
    let dir = crashed_run();
    let path = |name: &str| dir.path().join(name);
    finish(dir.path()).unwrap();
    let run = Record::open(dir.path()).unwrap().into_run();
    std::fs::write(path(RECORD_FILE), serde_json::to_string(&run).unwrap()).unwrap();
    seal(dir.path()).unwrap();
    let rows = Record::open(dir.path()).unwrap().samples("b00-c000", "victim").unwrap();
    std::fs::create_dir(path(CELLS_FOLDER)).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows()[..4]);
    let record = Record::open(dir.path()).unwrap();
    assert!(record.warnings().is_empty(), "{:?}", record.warnings());
    assert!(record.samples("b00-c000", "victim").unwrap() == rows);
    append_bytes(&path(LATENCIES_FILE), b"x");
    let damaged = Record::open(dir.path()).unwrap();
    assert!(damaged.is_damaged(LATENCIES_FILE), "{:?}", damaged.warnings());
    // A name that is listed again is not read again.
    let twice = std::fs::read_to_string(path(CHECKSUMS_FILE)).unwrap();
    std::fs::write(path(CHECKSUMS_FILE), twice.repeat(2)).unwrap();
    let twice = Record::open(dir.path()).unwrap();
    assert!(twice.is_damaged(CHECKSUMS_FILE), "{:?}", twice.warnings());
    // Without checksums a file that every run writes is missed all the same.
    std::fs::remove_file(path(CHECKSUMS_FILE)).unwrap();
    std::fs::remove_file(path(TELEMETRY_FILE)).unwrap();
    let lost = Record::open(dir.path()).unwrap();
    assert_eq!(lost.warnings(), ["telemetry.parquet is missing, which every run writes"]);
}

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
        .args(["--exact", "tests::finishing::a_full_disk_is_a_typed_error_and_leaves_the_logs"])
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

// Reopening a record: its rows are logs again, and finishing it gives the same files.

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

// Every file of a record, cut at many places: the record is refused, or its loss is named, or
// nothing is lost.

/// Cuts of one file; a longer file is cut at every k-th byte.
const CUTS: usize = 200;

/// Everything that a record holds.
#[derive(Debug, PartialEq)]
struct Content {
    run: RunRecord,
    samples: Vec<Vec<SampleRow>>,
    latencies: Vec<u64>,
    telemetry: Vec<TelemetryRow>,
}

fn read(dir: &Path) -> Result<(Content, Vec<String>), StoreError> {
    let record = Record::open(dir)?;
    let mut content = Content {
        run: record.run().clone(),
        samples: Vec::new(),
        latencies: Vec::new(),
        telemetry: record.telemetry()?,
    };
    for (cell, tenant) in
        [("b00-c000", "victim"), ("b00-c000", "neighbour-1"), ("b00-c001", "victim")]
    {
        content.samples.push(record.samples(cell, tenant)?);
        content.latencies.push(record.latencies(cell, tenant)?.count());
    }
    let mut said = record.warnings().to_vec();
    said.extend(record.run().incomplete_reason.clone());
    Ok((content, said))
}

/// Cuts the file and reads the record after each cut; returns how many cuts were refused, read with
/// their loss named, and without a loss.
#[expect(clippy::print_stdout, reason = "a test prints where it cuts")]
fn cut(dir: &Path, name: &str) -> [usize; 3] {
    let path = dir.join(name);
    let bytes = std::fs::read(&path).unwrap();
    let (whole, said_before) = read(dir).unwrap();
    let step = bytes.len().div_ceil(CUTS);
    println!("{name}: {} bytes, cut at every {step}. byte and near its end", bytes.len());
    let mut counts = [0; 3];
    let places = (0..bytes.len()).filter(|at| at % step == 0 || at + 12 > bytes.len());
    for at in places {
        std::fs::write(&path, &bytes[..at]).unwrap();
        match read(dir) {
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&*dir.to_string_lossy()), "{name} at {at}: {text}");
                counts[0] += 1;
            }
            Ok((left, said)) if said != said_before => {
                let pairs = left.samples.iter().zip(&whole.samples);
                assert!(pairs.into_iter().all(|(left, whole)| whole.starts_with(left)));
                assert!(whole.telemetry.starts_with(&left.telemetry));
                counts[1] += 1;
            }
            Ok((mut left, said)) => {
                // A crash between two readings leaves the same file, and is named.
                let is_line_end = at == 0 || bytes[at - 1] == b'\n';
                if name == TELEMETRY_LOG_FILE && is_line_end {
                    assert!(said.iter().any(|text| text.starts_with("the run crashed")));
                    assert!(whole.telemetry.starts_with(&left.telemetry));
                    left.telemetry.clone_from(&whole.telemetry);
                }
                assert!(left == whole, "{name} at {at}: a loss that nothing names");
                counts[2] += 1;
            }
        }
    }
    std::fs::write(&path, &bytes).unwrap();
    counts
}

#[test]
fn a_cut_of_any_file_of_a_crashed_run_is_refused_or_named() {
    let dir = crashed_run();
    let log = |cell: &str, tenant: &str| format!("cells/{cell}/{tenant}.samples");
    let events = cut(dir.path(), EVENTS_FILE);
    assert!(events[0] > 0 && events[1] > 0, "{events:?}");
    let telemetry = cut(dir.path(), TELEMETRY_LOG_FILE);
    assert!(telemetry[1] > 0, "{telemetry:?}");
    for name in [log("b00-c000", "victim"), log("b00-c001", "victim")] {
        let counts = cut(dir.path(), &name);
        assert!(counts[0] > 0 && counts[1] > 0, "{name}: {counts:?}");
    }
}

#[test]
fn a_cut_of_any_file_of_a_finished_run_is_refused_or_named() {
    let dir = crashed_run();
    finish(dir.path()).unwrap();
    for name in [SAMPLES_FILE, TELEMETRY_FILE] {
        let counts = cut(dir.path(), name);
        assert!(counts[1] > 0 && counts[2] == 0, "{name}: {counts:?}");
        // With the footer torn off every row is still there.
        let path = dir.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        let whole = read(dir.path()).unwrap().0;
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(read(dir.path()).unwrap().0, whole, "{name}");
        std::fs::write(&path, &bytes).unwrap();
    }
    let latencies = cut(dir.path(), LATENCIES_FILE);
    assert!(latencies[0] > 0 && latencies[1..] == [0, 0], "{latencies:?}");
    // Without its last line feed the file has every checksum.
    let checksums = cut(dir.path(), CHECKSUMS_FILE);
    assert_eq!(checksums[2], 1, "{checksums:?}");
    write_record_json(dir.path(), &sample_records::real()).unwrap();
    let record = cut(dir.path(), RECORD_FILE);
    assert_eq!(record[1..], [0, 1], "{record:?}");
}
