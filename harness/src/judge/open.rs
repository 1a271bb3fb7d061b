//! Opening records: finished ones as they are, and ones that a crash left behind after scoring.

use std::path::{Path, PathBuf};

use gpubench_record::RunRecord;
use gpubench_reports::store::{finish, write_record_json};
use gpubench_reports::{Record, StoreError};

use super::expected;
use super::record::{JudgeError, complete_old, rescore, score_folder};
use crate::error::ExpectedError;
use crate::score;

/// An opened record, scored.
pub struct Opened {
    /// Its folder.
    pub dir: PathBuf,
    /// Its samples and events.
    pub record: Record,
    /// Its scored content.
    pub run: RunRecord,
    /// Warnings about the record.
    pub warnings: Vec<String>,
}

/// Opens a record. A run that left no scores is scored now, by the same rules.
///
/// # Errors
/// When it cannot be opened or scored.
pub fn open_scored(dir: &Path) -> Result<Opened, ExpectedError> {
    let record = open(dir)?;
    let (run, warnings) = if record.is_rebuilt() {
        conclude_crashed(dir)?
    } else {
        let mut run = record.run().clone();
        complete_old(&mut run).map_err(|error| unscored(dir, &error))?;
        (run, record.warnings().to_vec())
    };
    Ok(Opened {
        dir: dir.to_owned(),
        record,
        run,
        warnings,
    })
}

/// Opens these records and returns the newest, which also counts the fault trials of the others.
///
/// # Errors
/// When one of them cannot be opened or scored.
pub fn newest(dirs: &[PathBuf]) -> Result<Opened, ExpectedError> {
    let mut all = Vec::new();
    for dir in dirs {
        all.push(open_scored(dir)?);
    }
    // All times are UTC in one format, so the order of the texts is the order in time.
    all.sort_by(|a, b| {
        a.run
            .provenance
            .started_at
            .cmp(&b.run.provenance.started_at)
    });
    let Some(mut newest) = all.pop() else {
        return Err(ExpectedError::Usage {
            problem: "no record was named".to_owned(),
            remedy: None,
        });
    };
    if all.is_empty() {
        return Ok(newest);
    }
    let name = |dir: &Path| dir.display().to_string();
    let others: Vec<_> = all.iter().map(|one| (name(&one.dir), &one.run)).collect();
    let pooled = score::pool(&newest.run, &others);
    let again = rescore(&mut newest.run, &pooled.earlier);
    again.map_err(|error| unscored(&newest.dir, &error))?;
    newest.run.records_left_out = pooled.left_out;
    Ok(newest)
}

/// The error of a record that cannot be scored.
fn unscored(dir: &Path, error: &JudgeError) -> ExpectedError {
    ExpectedError::RecordUnreadable {
        path: dir.to_owned(),
        problem: error.to_string(),
    }
}

/// Finishes a crashed run: stores its samples, scores its cells and writes its record, marked
/// incomplete. A run that is still going is scored as far as it got. A folder that cannot be
/// written is scored in memory.
fn conclude_crashed(dir: &Path) -> Result<(RunRecord, Vec<String>), ExpectedError> {
    let finished = finish(dir);
    let (run, mut warnings) = score_folder(dir).map_err(|error| unscored(dir, &error))?;
    let written = finished.and_then(|done| {
        warnings.extend(done.warnings);
        write_record_json(dir, &run)
    });
    match written {
        Ok(()) | Err(StoreError::InUse { .. }) => {}
        Err(error) => warnings.push(format!("the record stays as the crash left it: {error}")),
    }
    Ok((run, warnings))
}

/// Turns the logs of a run that just ended into Parquet, scores it and writes its record.
///
/// # Errors
/// When the folder cannot be written, or the record contradicts itself.
pub fn conclude(out: &Path) -> Result<(RunRecord, Vec<String>), ExpectedError> {
    let done = finish(out).map_err(|error| expected::from_store(out, error))?;
    let (record, mut warnings) = score_folder(out).map_err(|error| ExpectedError::Internal {
        what: format!("the record in {} cannot be scored: {error}", out.display()),
    })?;
    warnings.extend(done.warnings);
    write_record_json(out, &record).map_err(|error| expected::from_store(out, error))?;
    Ok((record, warnings))
}

/// Opens a record.
///
/// # Errors
/// When there is none, or it cannot be read by this version.
pub fn open(dir: &Path) -> Result<Record, ExpectedError> {
    Record::open(dir).map_err(|error| expected::from_store(dir, error))
}

#[cfg(test)]
mod tests {
    use super::open;
    use crate::error::ExpectedError;

    #[test]
    fn a_folder_without_a_record_is_refused() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let Err(error) = open(folder.path()) else {
            return Err("an empty folder was taken for a record".into());
        };
        assert!(matches!(error, ExpectedError::RecordUnreadable { .. }));
        assert_eq!(error.exit_code().code(), 2);
        Ok(())
    }

    #[test]
    fn another_format_version_and_damage_are_different_errors()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("record.json");
        std::fs::write(&json, r#"{"format_version": {"major": 99, "minor": 0}}"#)?;
        assert!(matches!(
            open(folder.path()),
            Err(ExpectedError::IncompatibleVersion { .. })
        ));
        std::fs::write(&json, "{\"format_version\": ")?;
        assert!(matches!(
            open(folder.path()),
            Err(ExpectedError::RecordUnreadable { .. })
        ));
        Ok(())
    }
}
