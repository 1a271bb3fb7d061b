//! Files of a record: `record.json`, a sample log, `samples.parquet`.

use std::path::Path;

use gpubench::verbs::{Repair, open_scored};
use gpubench_reports::{CATALOGUE, RenderOptions};
use gpubench_store::{SampleFile, SampleLog};

use crate::edit::input;
use crate::is_one_line;

const LOGS: [&[u8]; 1] = [include_bytes!("samples/victim.samples")];
const PARQUET: [&[u8]; 1] = [include_bytes!("samples/samples.parquet")];

#[test]
fn record() {
    let dir = tempfile::tempdir().expect("a folder");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/golden");
    let records = ["virtual.format-2.3.json", "real.format-1.0.json"]
        .map(|name| std::fs::read(golden.join(name)).expect("a record"));
    let records = [&*records[0], &*records[1]];
    bolero::check!(name = "record").for_each(|bytes: &[u8]| {
        let file = dir.path().join("record.json");
        std::fs::write(file, input(bytes, &records)).expect("a file");
        let opened = match open_scored(dir.path(), Repair::No) {
            Ok(opened) => opened,
            Err(error) => return is_one_line(&error.to_string()),
        };
        for format in CATALOGUE {
            let mut out = Vec::new();
            if let Err(error) = (format.render)(&opened.run, &RenderOptions::default(), &mut out) {
                is_one_line(&error.to_string());
            }
        }
    });
}

#[test]
fn samples_log() {
    bolero::check!(name = "samples_log").for_each(|bytes: &[u8]| {
        let bytes = input(bytes, &LOGS);
        let opened = SampleLog::new(bytes.as_slice(), bytes.len() as u64);
        let read = opened.and_then(|mut log| {
            while !log.next_rows(1 << 12)?.is_empty() {}
            Ok(())
        });
        if let Err(error) = read {
            is_one_line(&error.to_string());
        }
    });
}

#[test]
fn sample_parquet() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("samples.parquet");
    bolero::check!(name = "sample_parquet").for_each(|bytes: &[u8]| {
        std::fs::write(&path, input(bytes, &PARQUET)).expect("a file");
        read_samples(&path);
    });
}

fn read_samples(path: &Path) {
    let file = match SampleFile::open(path) {
        Ok(file) => file,
        Err(error) => return is_one_line(&error.to_string()),
    };
    for segment in file.segments() {
        if let Err(error) = file.load(&segment.key.cell, &segment.key.tenant) {
            is_one_line(&error.to_string());
        }
    }
}
