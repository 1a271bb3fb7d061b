//! The calibration of an earlier run, reused by a later one.

use std::path::Path;

use gpubench_record::{Calibration, Plan};
use serde::Deserialize;

use crate::error::ExpectedError;

/// The two kinds of file: a record, or a calibration.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Record { calibration: Calibration },
    Calibration(Calibration),
}

/// Reads the calibration in a record's folder, a `record.json`, or a file of its own, and checks
/// that it has everything that the plan needs.
///
/// # Errors
/// When it cannot be read, was changed by hand, or lacks a workload.
pub fn read(path: &Path, plan: &Plan) -> Result<Calibration, ExpectedError> {
    let file = if path.is_dir() {
        path.join("record.json")
    } else {
        path.to_path_buf()
    };
    let wrong = |problem: String| ExpectedError::Usage {
        problem: format!("calibration {}: {problem}", file.display()),
        remedy: Some("pass a record of the same GPU, or leave --calibration out".to_owned()),
    };
    let text = std::fs::read_to_string(&file).map_err(|source| ExpectedError::Unreadable {
        what: "calibration",
        path: file.clone(),
        source,
    })?;
    let found = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let (File::Record { calibration } | File::Calibration(calibration)) = found;
    // The hash covers the entries, so that two records can be compared by it.
    if Calibration::new(calibration.entries.clone()).hash != calibration.hash {
        return Err(wrong("its hash is not that of its entries".to_owned()));
    }
    let needed = plan
        .cells
        .iter()
        .flat_map(|cell| &cell.tenants)
        .filter_map(|t| t.workload.as_ref());
    for name in needed {
        if !calibration.entries.contains_key(name) {
            return Err(wrong(format!(
                "it has no workload {name}, which the plan needs"
            )));
        }
    }
    Ok(calibration)
}
