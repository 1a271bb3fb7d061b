//! What the files of a record lost: files that were cut short and checksums that are gone. Found
//! when a record is opened, so that every reader names it.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use gpubench_record::{Plan, regular_file};

use super::error::StoreError;
use super::sample_file::SampleLog;
use super::{
    CELLS_FOLDER, EVENTS_FILE, LATENCIES_FILE, PAGE_FILE, RECORD_FILE, SAMPLES_FILE,
    TELEMETRY_FILE, TELEMETRY_LOG_FILE, checksums, log_path, parquet, samples, telemetry,
};

pub(super) fn losses(dir: &Path, plan: &Plan) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for (name, table) in [(SAMPLES_FILE, &samples::TABLE), (TELEMETRY_FILE, &telemetry::TABLE)] {
        let path = dir.join(name);
        if path.is_file() {
            found.extend(parquet::loss(&path, table)?);
        }
    }
    if are_read(dir) {
        found.extend(torn_logs(dir, plan)?);
    } else {
        found.extend(without_checksum(dir)?);
        found.extend(without_telemetry(dir)?);
    }
    let readings = dir.join(TELEMETRY_LOG_FILE);
    if readings.exists() && !ends_with_line(&readings)? {
        found.push(format!(
            "{TELEMETRY_LOG_FILE} ends within a line: that reading and those behind it are lost"
        ));
    }
    Ok(found)
}

/// Whether the logs of a run are read, and its other files are made again. Logs beside a finished
/// record were put there.
fn are_read(dir: &Path) -> bool {
    dir.join(CELLS_FOLDER).exists() && !dir.join(RECORD_FILE).exists()
}

fn torn_logs(dir: &Path, plan: &Plan) -> Result<Vec<String>, StoreError> {
    let cells = plan.all_cells().map(|cell| (&cell.id, &cell.tenants));
    let trials = plan.all_fault_trials().map(|one| (&one.id, &one.tenants));
    let mut found = Vec::new();
    for (id, tenants) in cells.chain(trials) {
        for tenant in tenants {
            let path = log_path(dir, id, &tenant.tenant)?;
            if path.exists() {
                // An unreadable header is an error for the reader of the rows.
                let log = SampleLog::open(&path).ok();
                let name = format!("the log of {} in cell {id}", tenant.tenant);
                found.extend(log.and_then(|log| log.loss(&name)));
            }
        }
    }
    Ok(found)
}

/// The files of a finished record that differ from their checksums, with a sentence each, without
/// those that are known to be torn.
pub(super) fn damages(dir: &Path, known: &[String]) -> Result<Vec<(String, String)>, StoreError> {
    if are_read(dir) {
        return Ok(Vec::new());
    }
    let is_known = |name: &str| {
        let torn = format!("{name} is torn");
        known.iter().any(|loss| loss.starts_with(&torn))
    };
    let found = checksums::damages(dir)?.into_iter();
    Ok(found.filter(|(name, _)| !is_known(name)).collect())
}

fn without_checksum(dir: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = vec![SAMPLES_FILE, LATENCIES_FILE, TELEMETRY_FILE];
    // Older checksums list these three alone.
    if !checksums::is_cut(dir, RECORD_FILE)? {
        names.extend([EVENTS_FILE, PAGE_FILE]);
    }
    let mut unlisted = Vec::new();
    for &name in &names {
        if checksums::is_cut(dir, name)? {
            unlisted.push(name);
        }
    }
    // A run has events and then a page; an anonymized copy has neither. The other files can be
    // removed on purpose.
    let has_page = names.contains(&PAGE_FILE) && !unlisted.contains(&PAGE_FILE);
    let of_one = |name: &str| {
        let checksums = checksums::CHECKSUMS_FILE;
        if dir.join(name).exists() {
            Some(format!("{checksums} has no checksum of {name}, which is read without one"))
        } else if has_page && name == EVENTS_FILE {
            Some(format!("{name} is missing, and {checksums} does not list it"))
        } else {
            None
        }
    };
    Ok(unlisted.into_iter().filter_map(of_one).collect())
}

/// A run that has its samples and its events wrote telemetry too. Where checksums list the file,
/// they tell of its loss.
fn without_telemetry(dir: &Path) -> Result<Option<String>, StoreError> {
    let has = |name: &str| dir.join(name).exists();
    let is_whole = [RECORD_FILE, EVENTS_FILE, SAMPLES_FILE].into_iter().all(has);
    let is_lost = is_whole && ![TELEMETRY_FILE, TELEMETRY_LOG_FILE].into_iter().any(has);
    let is_said = is_lost && checksums::lists(dir, TELEMETRY_FILE)?;
    Ok((is_lost && !is_said)
        .then(|| format!("{TELEMETRY_FILE} is missing, which every run writes")))
}

fn ends_with_line(path: &Path) -> Result<bool, StoreError> {
    let last = regular_file::open(path).and_then(|mut file| {
        let mut last = *b"\n";
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(last)
    });
    Ok(last.map_err(StoreError::io("read", path))? == *b"\n")
}
