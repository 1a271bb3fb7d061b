//! Turns the folder of an ended run back into that of a run: its samples and telemetry into logs,
//! so that a later start of the run appends to them.
//!
//! The steps can be interrupted anywhere and repeated. Logs are complete before they have their
//! name, and a file is removed only once its rows are in logs.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gpubench_record::sample::{
    CAPACITY_OFFSET, COMMITTED_OFFSET, HEADER_BYTES, LOG_MAGIC, ROW_BYTES,
};
use gpubench_record::{Json, SampleRow, TelemetryRow};

use super::checksums::{CHECKSUMS_FILE, SIGNATURE_FILE};
use super::error::StoreError;
use super::events::lock_events;
use super::finish::remove_stored;
use super::json_lines::{parse, read_bytes};
use super::losses::PAGE_FILE;
use super::replace::{replace, sync_folder_of};
use super::sample_log::read_log;
use super::{
    CELLS_FOLDER, LATENCIES_FILE, LOG_EXTENSION, RECORD_FILE, SAMPLES_FILE, SampleFile,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE, log_path, read_telemetry,
};

/// The logs until all of them are written.
const PART_FOLDER: &str = "cells.part";

/// Turns `samples.parquet` and `telemetry.parquet` of the record in `dir` into logs, and removes
/// what the end of the run made. The folder of a run that crashed stays as it is.
///
/// # Errors
/// When a run still writes the record, or a file is damaged or cannot be written. Nothing is
/// removed then.
pub fn reopen(dir: &Path) -> Result<(), StoreError> {
    let _lock = lock_events(dir)?;
    remove_stored(dir)?;
    let samples = dir.join(SAMPLES_FILE);
    let cells = dir.join(CELLS_FOLDER);
    if samples.exists() && !cells.exists() {
        write_logs(dir, &SampleFile::open(&samples)?, &cells)?;
    }
    let (telemetry, log) = (dir.join(TELEMETRY_FILE), dir.join(TELEMETRY_LOG_FILE));
    if telemetry.exists() && !log.exists() {
        write_readings(&telemetry, &log)?;
    }
    // The checksums first, so that no file is missed that they list.
    for name in [
        SIGNATURE_FILE,
        CHECKSUMS_FILE,
        RECORD_FILE,
        PAGE_FILE,
        LATENCIES_FILE,
        SAMPLES_FILE,
        TELEMETRY_FILE,
    ] {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes a log for each segment, reads it back, and gives the folder its name.
fn write_logs(dir: &Path, file: &SampleFile, cells: &Path) -> Result<(), StoreError> {
    let part = dir.join(PART_FOLDER);
    if part.exists() {
        std::fs::remove_dir_all(&part).map_err(StoreError::io("remove", &part))?;
    }
    if file.is_torn() {
        return Err(StoreError::Damaged { path: dir.join(SAMPLES_FILE) });
    }
    std::fs::create_dir(&part).map_err(StoreError::io("create", &part))?;
    for segment in file.segments() {
        let (cell, tenant) = (&segment.key.cell, &segment.key.tenant);
        // It refuses names that lead out of the folder.
        log_path(dir, cell, tenant)?;
        let folder = part.join(cell);
        std::fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        let path = folder.join(format!("{tenant}.{LOG_EXTENSION}"));
        let rows = file.load(cell, tenant)?;
        write_log(&path, &rows).map_err(StoreError::io("write", &path))?;
        if read_log(&path)? != rows {
            return Err(differs(&path));
        }
    }
    std::fs::rename(&part, cells).map_err(StoreError::io("rename", &part))?;
    sync_folder_of(cells)
}

/// Writes rows as the log of a tenant that committed all of them.
fn write_log(path: &Path, rows: &[SampleRow]) -> std::io::Result<()> {
    let count = (rows.len() as u64).to_le_bytes();
    let mut header = [0_u8; HEADER_BYTES];
    header[..LOG_MAGIC.len()].copy_from_slice(&LOG_MAGIC);
    for at in [CAPACITY_OFFSET, COMMITTED_OFFSET] {
        header[at..at + count.len()].copy_from_slice(&count);
    }
    let mut file = BufWriter::with_capacity(1024 * ROW_BYTES, File::create(path)?);
    file.write_all(&header)?;
    for row in rows {
        file.write_all(&row.to_bytes())?;
    }
    file.into_inner()?.sync_all()
}

fn write_readings(from: &Path, log: &Path) -> Result<(), StoreError> {
    let readings = read_telemetry(from)?;
    let mut text = Vec::new();
    for reading in &readings {
        text.extend(reading.to_json().map_err(|_| differs(log))?.into_bytes());
        text.push(b'\n');
    }
    replace(
        log,
        |mut file, part| file.write_all(&text).map_err(StoreError::io("write", part)),
        |part| {
            let read = parse::<TelemetryRow>(part, &read_bytes(part)?)?;
            if read.values == readings {
                return Ok(());
            }
            Err(differs(part))
        },
    )
}

fn differs(path: &Path) -> StoreError {
    StoreError::Differs {
        path: PathBuf::from(path),
        reason: "the rows are not those of the Parquet file".to_owned(),
    }
}
