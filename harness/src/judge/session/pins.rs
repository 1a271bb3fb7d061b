//! Pinned baselines of a folder of nights: records under a name, in one readable file beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubench_record::{excerpt, parser_message};
use serde::{Deserialize, Deserializer, Serialize};

use super::folders::record_folders;
use crate::error::ExpectedError;
use crate::error::input::{RECORD_BYTES_MAX, read_text};
use crate::error::output::write_whole;
use crate::run::rfc3339;

/// The file in a folder of nights.
const FILE: &str = "baselines.json";

/// A pinned baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// RFC 3339 time in UTC at which it was pinned.
    #[serde(deserialize_with = "time")]
    pub at: String,
    /// The folders of its records, within the folder of nights.
    pub records: Vec<String>,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    rfc3339(&text).map_err(|problem| {
        serde::de::Error::custom(format!("\"at\": \"{}\": {problem}", excerpt(&text)))
    })
}

/// The pinned baselines by name.
pub type Pins = BTreeMap<String, Pin>;

/// The pinned baselines of a folder; none without the file.
///
/// # Errors
/// When the file cannot be read, or is no list of baselines.
pub fn pins(folder: &Path) -> Result<Pins, ExpectedError> {
    let path = folder.join(FILE);
    if !path.is_file() {
        return Ok(Pins::new());
    }
    let text = read_text("pinned baselines", &path, RECORD_BYTES_MAX)?;
    serde_json::from_str(&text).map_err(|error| ExpectedError::Usage {
        problem: format!("{}: {}", path.display(), parser_message(&error.to_string())),
        remedy: Some(
            "accepted: {\"NAME\": {\"at\": \"2026-01-31T00:00:00Z\", \"records\": [\"...\"]}}"
                .to_owned(),
        ),
    })
}

/// The baseline of a name.
///
/// # Errors
/// When there is none.
pub fn pinned(folder: &Path, name: &str) -> Result<Pin, ExpectedError> {
    let mut all = pins(folder)?;
    all.remove(name).ok_or_else(|| ExpectedError::UnknownName {
        kind: "baseline",
        name: name.to_owned(),
        known: all.into_keys().collect(),
    })
}

/// Pins records of the folder under a name, in place of what the name had.
///
/// # Errors
/// When a record is not in the folder, or the file cannot be written.
pub fn pin(
    folder: &Path,
    name: &str,
    records: &[PathBuf],
    at: String,
) -> Result<usize, ExpectedError> {
    let mut names = Vec::new();
    for record in record_folders(records)? {
        let name = record.path.file_name().unwrap_or_default();
        let inside = folder.join(name);
        let same = |path: &Path| path.canonicalize().ok();
        if same(&inside).is_none() || same(&inside) != same(&record.path) {
            return Err(ExpectedError::Usage {
                problem: format!("{} is no record in {}", record.path.display(), folder.display()),
                remedy: Some("move it there, or pin records of that folder".to_owned()),
            });
        }
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    let count = names.len();
    let mut all = pins(folder)?;
    all.insert(name.to_owned(), Pin { at, records: names });
    write(folder, &all)?;
    Ok(count)
}

/// Removes the baseline of a name; its records stay.
///
/// # Errors
/// When there is none, or the file cannot be written.
pub fn unpin(folder: &Path, name: &str) -> Result<(), ExpectedError> {
    pinned(folder, name)?;
    let mut all = pins(folder)?;
    all.remove(name);
    write(folder, &all)
}

fn write(folder: &Path, pins: &Pins) -> Result<(), ExpectedError> {
    let path = folder.join(FILE);
    let text = serde_json::to_string_pretty(pins)
        .map_err(|error| ExpectedError::Internal { what: error.to_string() })?;
    write_whole(&path, format!("{text}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use gpubench_reports::store::EVENTS_FILE;

    use super::*;

    #[test]
    fn baselines_are_pinned_listed_and_removed() -> Result<(), Box<dyn std::error::Error>> {
        let nights = tempfile::tempdir()?;
        let other = tempfile::tempdir()?;
        for folder in [nights.path().join("n1"), nights.path().join("n2"), other.path().join("n1")]
        {
            std::fs::create_dir(&folder)?;
            std::fs::write(folder.join(EVENTS_FILE), "")?;
        }
        let at = || "2026-01-31T00:00:00Z".to_owned();
        let folder = nights.path();
        assert!(pins(folder)?.is_empty());
        assert_eq!(pin(folder, "golden", &[folder.join("n*")], at())?, 2);
        assert_eq!(pin(folder, "last", &[folder.join("n2")], at())?, 1);
        assert_eq!(pinned(folder, "golden")?.records, ["n1", "n2"]);
        let foreign = pin(folder, "golden", &[other.path().join("n1")], at());
        assert!(foreign.is_err_and(|error| error.to_string().contains("is no record in")));
        unpin(folder, "golden")?;
        assert_eq!(pins(folder)?.into_keys().collect::<Vec<_>>(), ["last"]);
        let unknown = unpin(folder, "golden").err().map(|error| error.to_string());
        assert!(unknown.is_some_and(|text| text.contains("(known: last)")));
        let text = std::fs::read_to_string(folder.join(FILE))?;
        std::fs::write(folder.join(FILE), text.replace("2026-01-31", "2026-02-31"))?;
        let error = pins(folder).err().map(|error| error.to_string()).ok_or("accepted")?;
        let said = "\"at\": \"2026-02-31T00:00:00Z\": the calendar has no such time";
        assert!(error.contains(said) && error.contains("line 3"), "{error}");
        std::fs::write(folder.join(FILE), "[]")?;
        assert!(pins(folder).is_err());
        Ok(())
    }
}
