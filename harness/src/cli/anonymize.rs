//! `gpubench report --anonymize`: a copy of a record to be passed on.

use std::path::{Path, PathBuf};

use gpubench_record::ExitCode;
use gpubench_reports::store::{SIGNATURE_FILE, write_anonymized};

use super::ui::Ui;
use crate::error::ExpectedError;
use crate::judge::{Repair, open_scored, verdict};

/// Writes an anonymized copy of one record to a new folder.
///
/// # Errors
/// When several records are named, the folder exists, or a file cannot be read or written.
pub fn anonymize(records: &[PathBuf], target: &Path, ui: &Ui) -> Result<ExitCode, ExpectedError> {
    let [record] = records else {
        return Err(ExpectedError::Usage {
            problem: format!("--anonymize copies one record, and {} are named", records.len()),
            remedy: Some("copy each to a folder of its own".to_owned()),
        });
    };
    let opened = open_scored(record, Repair::No)?;
    // A folder that exists may have files with the names that the copy lacks.
    if target.exists() {
        return Err(ExpectedError::Usage {
            problem: format!("--anonymize: {} exists", target.display()),
            remedy: Some("name a folder that does not exist".to_owned()),
        });
    }
    std::fs::create_dir_all(target).map_err(|error| ExpectedError::from_write(target, error))?;
    let copied = write_anonymized(&opened.record, &opened.run, target);
    copied.map_err(|error| verdict::from_store(target, error))?;
    ui.note(&format!("anonymized copy: {}", target.display()));
    if record.join(SIGNATURE_FILE).exists() {
        ui.note("the copy is not signed: a signature covers the files of the original alone");
    }
    Ok(ExitCode::Done)
}
