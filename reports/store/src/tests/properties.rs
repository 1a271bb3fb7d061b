//! Properties: any rows read back, any damage is an error.

use std::path::Path;

use gpubench_record::Json;
use proptest::prelude::*;

use super::{began, cell_ended, crashed_run, victim_rows, write_log};
use crate::samples_for_tests::any_row;
use crate::{
    CHECKSUMS_FILE, EventLog, LATENCIES_FILE, Record, SAMPLES_FILE, SampleFile, StoreError,
    TELEMETRY_FILE, finish, parse_events,
};

#[test]
fn a_damaged_parquet_file_without_a_checksum_is_an_error() {
    let dir = crashed_run();
    finish(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join(CHECKSUMS_FILE)).unwrap();
    let path = dir.path().join(SAMPLES_FILE);
    let bytes = std::fs::read(&path).unwrap();
    let read = || Record::open(dir.path()).unwrap().samples("b00-c000", "victim");
    assert_eq!(read().unwrap(), victim_rows());
    for damaged in [[&bytes[9..20], &bytes[20..]].concat(), b"PAR1".repeat(3)] {
        std::fs::write(&path, damaged).unwrap();
        let error = read().unwrap_err();
        assert!(matches!(error, StoreError::Parquet { .. } | StoreError::Io { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}

/// The decoder allocates what page headers count, and a failed allocation ends the process: numbers
/// of any size anywhere in the first pages give rows or an error.
#[test]
fn a_page_header_that_counts_what_is_not_there_is_an_error() {
    let dir = crashed_run();
    finish(dir.path()).unwrap();
    std::fs::remove_file(dir.path().join(CHECKSUMS_FILE)).unwrap();
    let path = dir.path().join(SAMPLES_FILE);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in 4..400 {
        // Of thrift: the most negative and large numbers, in place of what is there.
        for number in [&[0xff; 4][..], &[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0xff; 1], &[0x80, 0x10]] {
            let mut bytes = whole.clone();
            bytes[at..at + number.len()].copy_from_slice(number);
            std::fs::write(&path, bytes).unwrap();
            let read = SampleFile::open(&path).and_then(|file| file.load("b00-c000", "victim"));
            if let Err(error) = read {
                assert_eq!(error.to_string().lines().count(), 1, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 400, "{refused} files");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_rows_read_back_from_parquet(
        victim in prop::collection::vec(any_row(), 0..60),
        neighbour in prop::collection::vec(any_row(), 0..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut events = EventLog::create(dir.path()).unwrap();
        events.append(&began()).unwrap();
        events.close().unwrap();
        write_log(dir.path(), "b01-c003", "neighbour-1", &neighbour);
        write_log(dir.path(), "b00-c001", "victim", &victim);
        let done = finish(dir.path()).unwrap();
        prop_assert_eq!(done.sample_rows, Some((victim.len() + neighbour.len()) as u64));
        let file = SampleFile::open(&dir.path().join(SAMPLES_FILE)).unwrap();
        prop_assert_eq!(file.load("b00-c001", "victim").unwrap(), victim);
        prop_assert_eq!(file.load("b01-c003", "neighbour-1").unwrap(), neighbour);
        for segment in file.segments() {
            let block = u32::from(segment.key.cell == "b01-c003");
            prop_assert_eq!((segment.key.block, segment.key.session), (block, 0));
        }
    }

    #[test]
    fn damaged_events_give_events_or_an_error(
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        for event in [began(), cell_ended("b00-c000", 7), cell_ended("b00-c001", 7)] {
            bytes.extend(event.to_json().unwrap().into_bytes());
            bytes.push(b'\n');
        }
        let at = at.index(bytes.len());
        bytes[at] = value;
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(read) = parse_events(Path::new("events.jsonl"), &bytes) {
            prop_assert!(!read.events.is_empty() && read.events.len() <= 3);
        }
    }

    #[test]
    fn damaged_files_are_not_decoded(
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let dir = crashed_run();
        finish(dir.path()).unwrap();
        for name in [SAMPLES_FILE, TELEMETRY_FILE, LATENCIES_FILE] {
            let path = dir.path().join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            std::fs::write(&path, bytes).unwrap();
        }
        let record = Record::open(dir.path()).unwrap();
        let damaged = |error: StoreError| matches!(error, StoreError::Damaged { .. });
        prop_assert!(record.latencies("b00-c000", "victim").is_err_and(damaged));
        // What is left of a torn file is read, and the record says so. Another end of the file than
        // that of its format is a tear too.
        let is_torn = |name: &str| {
            let text = format!("{name} is torn: ");
            record.warnings().iter().any(|warning| warning.contains(&text))
        };
        let torn = [SAMPLES_FILE, TELEMETRY_FILE].map(is_torn);
        prop_assert!(cut.is_none() || torn == [true; 2]);
        if cut.is_none() {
            prop_assert!(torn[0] || record.samples("b00-c000", "victim").is_err_and(damaged));
            prop_assert!(torn[1] || record.telemetry().is_err_and(damaged));
        } else if let Ok(rows) = record.samples("b00-c000", "victim") {
            prop_assert!(rows.len() <= victim_rows().len());
        }
    }
}
