//! Every file of a record, cut at many places: the record is refused, or its loss is named, or
//! nothing is lost.

use std::path::Path;

use gpubench_record::{RunRecord, SampleRow, TelemetryRow};

use super::crashed_run;
use crate::sample_records;
use crate::store::{
    CHECKSUMS_FILE, EVENTS_FILE, LATENCIES_FILE, RECORD_FILE, Record, SAMPLES_FILE, StoreError,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE, finish, write_record_json,
};

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

/// The content of a record and what it says of losses.
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
