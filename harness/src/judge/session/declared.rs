//! Declared changes of a folder of nights: one JSON line each, beside the records.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use gpubench_compare::history::Declared;
use gpubench_record::{excerpt, parser_message};

use crate::error::ExpectedError;
use crate::error::input::{RECORD_BYTES_MAX, read_text};
use crate::run::rfc3339;

/// The file in a folder of nights.
const FILE: &str = "declared.jsonl";

/// Appends a declared change.
///
/// # Errors
/// When the file cannot be written.
pub fn declare(folder: &Path, change: &Declared) -> Result<PathBuf, ExpectedError> {
    let path = folder.join(FILE);
    let line = serde_json::to_string(change)
        .map_err(|error| ExpectedError::Internal { what: error.to_string() })?;
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).open(&path);
    file.and_then(|mut file| writeln!(file, "{line}"))
        .map_err(|error| ExpectedError::from_write(&path, error))?;
    Ok(path)
}

/// The declared changes of these folders.
///
/// # Errors
/// When a file cannot be read, or a line of it is no declared change.
pub fn declared(folders: &[PathBuf]) -> Result<Vec<Declared>, ExpectedError> {
    let mut found = Vec::new();
    for folder in folders {
        let path = folder.join(FILE);
        if !path.is_file() {
            continue;
        }
        let text = read_text("declared changes", &path, RECORD_BYTES_MAX)?;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let change = change(line).map_err(|problem| ExpectedError::Usage {
                problem: format!("{}:{}: {problem}", path.display(), at + 1),
                remedy: Some(
                    "correct or remove the line, accepted: {\"at\": \"2026-01-31T00:00:00Z\", \
                     \"what\": \"...\"}"
                        .to_owned(),
                ),
            })?;
            found.push(change);
        }
    }
    Ok(found)
}

/// The change of one line.
fn change(line: &str) -> Result<Declared, String> {
    let change: Declared =
        serde_json::from_str(line).map_err(|error| parser_message(&error.to_string()))?;
    let at = rfc3339(&change.at)
        .map_err(|problem| format!("\"at\": \"{}\": {problem}", excerpt(&change.at)))?;
    Ok(Declared { at, ..change })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_changes_are_read_back_and_damage_names_its_line()
    -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let folders = [folder.path().to_owned()];
        assert!(declared(&folders)?.is_empty());
        let change =
            |what: &str| Declared { at: "2026-01-31T00:00:00Z".to_owned(), what: what.to_owned() };
        declare(folder.path(), &change("one"))?;
        let path = declare(folder.path(), &change("two"))?;
        assert_eq!(declared(&folders)?, [change("one"), change("two")]);
        std::fs::write(&path, "\n{}\n")?;
        let error = declared(&folders).err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| text.contains("declared.jsonl:2")));
        let line = |at: &str| format!("{{\"at\": \"{at}\", \"what\": \"x\"}}\n");
        std::fs::write(&path, line("2026-01-31T00:00:00Z") + &line("2026-99-99T00:00:00Z"))?;
        let error = declared(&folders).err().map(|error| error.to_string()).ok_or("accepted")?;
        let said = "declared.jsonl:2: \"at\": \"2026-99-99T00:00:00Z\": the calendar has no";
        assert!(error.contains(said), "{error}");
        Ok(())
    }
}
