//! Finishing a record: what is stored, what is kept, and what happens when it cannot be.

use std::path::Path;
use std::process::Command;

use gpubench_record::SampleRow;

use super::{began, crashed_run, victim_rows, write_log};
use crate::sample_records;
use crate::store::samples_for_tests::row;
use crate::store::{
    CELLS_FOLDER, EVENTS_FILE, EventLog, Record, SAMPLES_FILE, StoreError, TELEMETRY_FILE, finish,
    log_path, write_record_json,
};

#[test]
fn a_run_that_still_writes_is_not_finished_by_anyone_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventLog::create(dir.path()).unwrap();
    events.append(&began()).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows());
    assert!(matches!(finish(dir.path()), Err(StoreError::InUse { .. })));
    assert!(dir.path().join(CELLS_FOLDER).exists());
    let reason = Record::open(dir.path())
        .unwrap()
        .run()
        .incomplete_reason
        .clone()
        .unwrap();
    assert!(reason.starts_with("the run is still going"), "{reason}");
    assert!(matches!(
        EventLog::create(dir.path()),
        Err(StoreError::Occupied { .. })
    ));
    events.close().unwrap();
    assert_eq!(finish(dir.path()).unwrap().sample_rows, Some(200));
}

#[test]
fn two_writes_of_the_same_logs_give_the_same_bytes() {
    let bytes = || {
        let dir = crashed_run();
        finish(dir.path()).unwrap();
        [SAMPLES_FILE, TELEMETRY_FILE].map(|name| std::fs::read(dir.path().join(name)).unwrap())
    };
    let first = bytes();
    assert_eq!(first, bytes());
    assert!(first[0].len() > 1000 && first[1].len() > 500);
}

#[test]
fn what_cannot_be_stored_is_set_aside_and_never_deleted() {
    let dir = crashed_run();
    let torn = log_path(dir.path(), "b00-c001", "victim").unwrap();
    let half = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &half[..100]).unwrap();
    std::fs::write(dir.path().join("cells/b00-c000/stray.txt"), "mine").unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows()[..4]);
    std::fs::remove_file(log_path(dir.path(), "b00-c000", "neighbour-1").unwrap()).unwrap();
    let done = finish(dir.path()).unwrap();
    assert_eq!(done.sample_rows, Some(4));
    let text = done.warnings.join("\n");
    assert!(
        text.contains("end before the last of them; set aside"),
        "{text}"
    );
    assert!(text.contains("the log of neighbour-1 in cell b00-c000 is gone, with its 7 rows"));
    assert!(text.contains("the log of victim in cell b00-c000 has 4 of 7 rows"));
    assert!(text.contains("stray.txt is no planned log"));
    let aside = |name: &str| std::fs::read(dir.path().join("unreadable").join(name)).unwrap();
    assert_eq!(aside("b00-c001/victim.samples"), half[..100]);
    assert_eq!(aside("b00-c000/stray.txt"), b"mine");
    assert!(!dir.path().join(CELLS_FOLDER).exists());
}

#[test]
fn a_finish_that_was_broken_off_loses_nothing() {
    let dir = crashed_run();
    // Broken off while the stored logs were being removed.
    finish(dir.path()).unwrap();
    let stored = std::fs::read(dir.path().join(SAMPLES_FILE)).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows()[..1]);
    std::fs::rename(
        dir.path().join(CELLS_FOLDER),
        dir.path().join("cells.stored"),
    )
    .unwrap();
    finish(dir.path()).unwrap();
    assert_eq!(
        std::fs::read(dir.path().join(SAMPLES_FILE)).unwrap(),
        stored
    );
    assert!(!dir.path().join("cells.stored").exists());
    // And with both gone there is nothing to make a file of.
    std::fs::remove_file(dir.path().join(SAMPLES_FILE)).unwrap();
    assert!(matches!(
        finish(dir.path()),
        Err(StoreError::SamplesLost { rows: 14, .. })
    ));
}

#[test]
fn an_output_that_cannot_be_written_leaves_the_logs() {
    let dir = crashed_run();
    // Holds for every user: a folder with something in it cannot be replaced by a file.
    std::fs::create_dir_all(dir.path().join(SAMPLES_FILE).join("in the way")).unwrap();
    let error = finish(dir.path()).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Io {
                action: "replace",
                ..
            }
        ),
        "{error}"
    );
    let left = Record::open(dir.path())
        .unwrap()
        .samples("b00-c000", "victim")
        .unwrap();
    assert_eq!(left, victim_rows());
    let record = sample_records::real();
    let missing = dir.path().join("not/there");
    assert!(matches!(
        write_record_json(&missing, &record),
        Err(StoreError::Io { .. })
    ));
    let file = dir.path().join(EVENTS_FILE);
    assert!(matches!(
        EventLog::create(&file),
        Err(StoreError::Io { .. })
    ));
}

/// Runs itself again under a limit on the size of files, which a write meets as it meets a full
/// disk: part of it is taken and the rest refused.
#[test]
fn a_full_disk_is_a_typed_error_and_leaves_the_logs() {
    const FOLDER: &str = "GPUBENCH_TEST_FULL_DISK";
    if let Some(dir) = std::env::var_os(FOLDER) {
        return fill_the_disk(Path::new(&dir));
    }
    let dir = crashed_run();
    let noise: Vec<_> = (0..40_000u64)
        .map(|seq| SampleRow {
            t_done_ns: seq.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ..row(seq)
        })
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
    assert!(
        status.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert!(!dir.path().join(SAMPLES_FILE).exists());
    assert!(!dir.path().join("samples.parquet.part").exists());
    assert_eq!(
        finish(dir.path()).unwrap().sample_rows,
        Some(40_210),
        "with room again"
    );
}

fn fill_the_disk(dir: &Path) {
    let error = finish(dir).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Io {
                action: "write",
                ..
            }
        ),
        "{error}"
    );
    let other = dir.join("other");
    let mut events = EventLog::create(&other).unwrap();
    events.append(&began()).unwrap();
    let refused = (0..2_000).find_map(|_| events.append(&began()).err());
    let error = refused.expect("the limit never came");
    assert!(
        matches!(
            error,
            StoreError::Io {
                action: "append to",
                ..
            }
        ),
        "{error}"
    );
    // The half line is gone: the file ends with the last whole one.
    let bytes = std::fs::read(other.join(EVENTS_FILE)).unwrap();
    assert!(bytes.ends_with(b"}\n"));
}
