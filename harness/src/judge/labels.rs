//! Labels of a run: from `GPUBENCH_LABELS`, from files that it names, and from the command line.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::excerpt;

use crate::error::ExpectedError;
use crate::error::input::{WRITTEN_BYTES_MAX, read_text};

/// The variable with labels: `cluster=a,pool=h100,@/etc/podinfo/labels`.
pub const VARIABLE: &str = "GPUBENCH_LABELS";
const ACCEPTED: &str = "KEY=VALUE, without commas and quotes";

/// The labels of a run. Those of the command line replace those of the variable.
///
/// # Errors
/// When a label has no key or value, or a file cannot be read.
pub fn of_run(flags: &[(String, String)]) -> Result<BTreeMap<String, String>, ExpectedError> {
    let mut labels = match std::env::var(VARIABLE) {
        Ok(text) => of_variable(&text)?,
        Err(std::env::VarError::NotPresent) => BTreeMap::new(),
        Err(error) => return Err(refused(VARIABLE, &error.to_string())),
    };
    labels.extend(flags.iter().cloned());
    Ok(labels)
}

/// One label.
///
/// # Errors
/// With what is accepted.
pub fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    let is_plain = |text: &str| !text.is_empty() && !text.contains([',', '"', '=', '@']);
    match parts {
        Some((key, value)) if is_plain(key) && is_plain(value) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("accepted: {ACCEPTED}")),
    }
}

fn of_variable(text: &str) -> Result<BTreeMap<String, String>, ExpectedError> {
    let mut labels = BTreeMap::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        if let Some(path) = entry.strip_prefix('@') {
            labels.extend(of_file(Path::new(path))?);
        } else {
            labels.extend([label(entry).map_err(|_| refused(VARIABLE, entry))?]);
        }
    }
    Ok(labels)
}

/// A file with one label a line, the value in quotes or not: how Kubernetes mounts labels. Its own
/// labels may have an empty value, which says nothing and is left out.
fn of_file(path: &Path) -> Result<BTreeMap<String, String>, ExpectedError> {
    let text = read_text("labels", path, WRITTEN_BYTES_MAX)?;
    let mut labels = BTreeMap::new();
    for line in text.lines().map(|line| line.replace('"', "")) {
        if line.trim().is_empty() || line.trim().ends_with('=') {
            continue;
        }
        let place = path.display().to_string();
        labels.extend([label(&line).map_err(|_| refused(&place, &line))?]);
    }
    Ok(labels)
}

fn refused(place: &str, what: &str) -> ExpectedError {
    ExpectedError::Usage {
        problem: format!("{place}: \"{}\" is no label", excerpt(what)),
        remedy: Some(format!("accepted: {ACCEPTED}; or @FILE in {VARIABLE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_from_entries_and_files() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("labels");
        std::fs::write(&path, "pool=\"h100\"\nzone=\"\"\n\nnvidia.com/gpu.count=\"8\"\n")?;
        let found = of_variable(&format!("cluster=a, pool=b,@{}", path.display()))?;
        let found: Vec<(&str, &str)> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        let expected = [("cluster", "a"), ("nvidia.com/gpu.count", "8"), ("pool", "h100")];
        assert_eq!(found, expected);
        for wrong in ["cluster", "=a", "cluster=", "a=b=c", "@/absent"] {
            assert!(of_variable(wrong).is_err(), "{wrong}");
        }
        assert_eq!(label("rack = 4"), Ok(("rack".to_owned(), "4".to_owned())));
        Ok(())
    }
}
