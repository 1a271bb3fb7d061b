//! The spread of a device, kept between runs: `$XDG_STATE_HOME/gpubench/spread/UUID.json`, one
//! file for each device, in the form of [`Spread`]. `doctor --calibrate` adds sessions, `plan` and
//! `diff` read it.

use std::io::ErrorKind;
use std::path::PathBuf;

use gpubench_record::{RunRecord, Spread, parser_message};

use super::device_file::{device_file, write_private};
use super::expected;
use crate::error::ExpectedError;
use crate::error::input::{RECORD_BYTES_MAX, read_limited};
use crate::mechanism::host::JournalError;
use crate::score;

/// The file of a device; `None` for a text that is no UUID.
fn path_of(uuid: &str) -> Result<Option<PathBuf>, JournalError> {
    device_file("spread", uuid, ".json")
}

/// The spread of a device; `None` where no session was measured, and for a text that is no UUID.
pub fn known(uuid: &str) -> Result<Option<Spread>, ExpectedError> {
    let path = match path_of(uuid) {
        Ok(Some(path)) => path,
        Ok(None) => return Ok(None),
        // Without a home nothing is kept.
        Err(JournalError::NoFolder) => return Ok(None),
        Err(error) => return Err(expected::from_journal(error)),
    };
    let unreadable = |source| ExpectedError::Unreadable {
        what: "spread of the device",
        path: path.clone(),
        source,
    };
    let text = match read_limited(&path, RECORD_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let spread = serde_json::from_str(&text);
    spread
        .map(Some)
        .map_err(|error| unreadable(std::io::Error::other(parser_message(&error.to_string()))))
}

/// Adds a session to the spread of its device. Returns the spread and its file.
pub fn add(run: &RunRecord) -> Result<(Spread, PathBuf), ExpectedError> {
    let uuid = &run.device.uuid;
    let path = path_of(uuid).map_err(expected::from_journal)?;
    let path = path.ok_or_else(|| ExpectedError::Usage {
        problem: format!("the device reports \"{uuid}\", which is no UUID: its spread has no file"),
        remedy: None,
    })?;
    let spread = score::spread::with_session(known(uuid)?, run);
    let text = serde_json::to_string_pretty(&spread)
        .map_err(|error| ExpectedError::Internal { what: error.to_string() })?;
    write_private(&path, &(text + "\n"))?;
    Ok((spread, path))
}
