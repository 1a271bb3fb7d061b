//! `record.json`: the record as one JSON value. Its version is checked before the rest is parsed.

use std::io::Write;
use std::path::Path;

use gpubench_record::{FIRST_VERSION, FormatVersion, Json, RunRecord, json};
use serde::Deserialize;

use super::RECORD_FILE;
use super::error::{StoreError, without_position};
use super::files::{open_whole, replace};
use super::json_lines::read_bytes;
use super::long_record;
use super::upgrade;

/// Longer records are parsed while they are read: their text would take half as much memory again
/// as what is parsed from it.
const STREAMED_BYTES: u64 = 64 << 20;

/// Writes `record.json` into `dir`, whole or not at all.
/// Fails when it cannot be written, or the record could not be read again (a figure is not finite).
pub fn write_record_json(dir: &Path, record: &RunRecord) -> Result<(), StoreError> {
    let path = dir.join(RECORD_FILE);
    let json = to_json(record).map_err(|reason| StoreError::Unstorable {
        what: "the record",
        path: path.clone(),
        reason,
    })?;
    replace(
        &path,
        |mut file, part| file.write_all(json.as_bytes()).map_err(StoreError::io("write", part)),
        |part| {
            if read_bytes(part)? == json.as_bytes() {
                return Ok(());
            }
            Err(StoreError::Differs { path: part.into(), reason: "other bytes".to_owned() })
        },
    )
}

/// The record as indented JSON with a final line feed, or why it could not be read again.
fn to_json(record: &RunRecord) -> Result<String, String> {
    let mut json = json::indented(record).map_err(|e| without_position(&e))?;
    json.push('\n');
    let reparsed = RunRecord::from_json(json.as_bytes())
        .map_err(|e| format!("line {} of its JSON: {}", e.line(), without_position(&e)))?;
    if reparsed == *record {
        Ok(json)
    } else {
        Err("its JSON reads back as a different record".to_owned())
    }
}

pub(super) fn read_record_json(path: &Path) -> Result<RunRecord, StoreError> {
    #[derive(Deserialize)]
    struct VersionOnly {
        format_version: FormatVersion,
    }
    let (file, length) = open_whole(path)?;
    let streamed = if length > STREAMED_BYTES { long_record::read(file) } else { None };
    // A record of this version is parsed once. Only one that differs is asked for its version
    // first.
    let parsed = match streamed {
        Some(run) => Ok(run),
        None => RunRecord::from_json(&read_bytes(path)?),
    };
    let version = match &parsed {
        Ok(run) => run.format_version,
        Err(_) => {
            let head = serde_json::from_slice::<VersionOnly>(&read_bytes(path)?);
            head.map_err(|e| StoreError::json(path, &e))?.format_version
        }
    };
    version
        .check_readable()
        .map_err(|source| StoreError::Version { path: path.to_path_buf(), source })?;
    if version != FIRST_VERSION {
        return parsed.map_err(|e| StoreError::json(path, &e));
    }
    let bytes = read_bytes(path)?;
    let mut value = serde_json::from_slice(&bytes).map_err(|e| StoreError::json(path, &e))?;
    upgrade::record(&mut value);
    let upgraded = serde_json::to_vec(&value);
    let upgraded = upgraded.and_then(|json| RunRecord::from_json(&json));
    // An upgraded value has no line in the file.
    upgraded.map_err(|error| StoreError::OldRecord {
        path: path.to_path_buf(),
        reason: without_position(&error),
    })
}
