//! Which folders of records the arguments name: a record, a folder of records, or a pattern.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpubench_reports::store::{EVENTS_FILE, RECORD_FILE};

use crate::error::ExpectedError;

/// Most records of one comparison, so that its memory has a limit: 1 GiB in all.
const RECORDS_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFolder {
    pub path: PathBuf,
    /// Whether an argument names it, rather than a folder or pattern that it was found in.
    pub is_listed: bool,
}

/// The folders with records, each once, in the order of their names within an argument.
///
/// # Errors
/// When an argument names none.
pub fn record_folders(arguments: &[PathBuf]) -> Result<Vec<RecordFolder>, ExpectedError> {
    let mut found: Vec<RecordFolder> = Vec::new();
    for argument in arguments {
        refuse_flag(argument)?;
        let is_pattern = argument.to_string_lossy().contains(['*', '?']);
        let paths = if is_pattern && !argument.exists() {
            matching(argument)?
        } else {
            vec![argument.clone()]
        };
        let before = found.len();
        for path in paths {
            let is_listed = !is_pattern && is_record(&path);
            let inside = if is_record(&path) {
                vec![path]
            } else {
                let mut inside = entries(&path)?;
                inside.retain(|path| is_record(path));
                inside
            };
            found.extend(inside.into_iter().map(|path| RecordFolder { path, is_listed }));
        }
        if found.len() == before {
            return Err(ExpectedError::RecordUnreadable {
                path: argument.clone(),
                problem: format!(
                    "it has neither {RECORD_FILE} nor {EVENTS_FILE}, nor folders with them"
                ),
            });
        }
    }
    let mut known = BTreeSet::new();
    found.retain(|folder| {
        // A record that two arguments name is one session.
        let real = folder.path.canonicalize();
        known.insert(real.unwrap_or_else(|_| folder.path.clone()))
    });
    at_most(RECORDS_MAX, found)
}

/// Refuses a flag in the place of a folder, as behind `--`, unless a folder has its name.
fn refuse_flag(argument: &Path) -> Result<(), ExpectedError> {
    let text = argument.to_string_lossy();
    if !text.starts_with('-') || argument.exists() {
        return Ok(());
    }
    Err(ExpectedError::Usage {
        problem: format!("{text} stands where a record is named, and no folder has this name"),
        remedy: Some("a flag stands before --".to_owned()),
    })
}

fn at_most(max: usize, found: Vec<RecordFolder>) -> Result<Vec<RecordFolder>, ExpectedError> {
    if found.len() <= max {
        return Ok(found);
    }
    Err(ExpectedError::Usage {
        problem: format!("{} records are named, at most {max} are read", found.len()),
        remedy: Some("name fewer, or remove old nights with `gpubench history prune`".to_owned()),
    })
}

fn is_record(path: &Path) -> bool {
    [RECORD_FILE, EVENTS_FILE].iter().any(|name| path.join(name).is_file())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ExpectedError> {
    let unreadable =
        |source| ExpectedError::Unreadable { what: "folder", path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

/// The paths that a pattern matches: `*` and `?` within names, not across folders.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ExpectedError> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let name = part.as_os_str().to_string_lossy();
        if !name.contains(['*', '?']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut next = Vec::new();
        for folder in found {
            let here = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
            if !here.is_dir() {
                continue;
            }
            let fits = |path: &PathBuf| {
                path.file_name().is_some_and(|file| matches(&name, &file.to_string_lossy()))
            };
            next.extend(entries(&here)?.into_iter().filter(fits));
        }
        found = next;
    }
    found.retain(|path| path.is_dir());
    Ok(found)
}

/// Whether a name fits a pattern, where `*` is any text and `?` one character.
fn matches(pattern: &str, name: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return name.is_empty();
    };
    let rest = &pattern[first.len_utf8()..];
    if first == '*' {
        let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
        return ends.into_iter().any(|at| matches(rest, &name[at..]));
    }
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|letter| (first == '?' || first == letter) && matches(rest, letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, fits) in [
            ("570*", "570.86", true),
            ("*70", "570", true),
            ("5?0", "570", true),
            ("5?0", "5770", false),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn records_folders_and_patterns_are_found_once() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        for name in ["n1", "n2", "other"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        for name in ["n1", "n2"] {
            std::fs::write(dir.path().join(name).join(EVENTS_FILE), "")?;
        }
        let found = |names: &[&str]| {
            let arguments: Vec<PathBuf> = names.iter().map(|name| dir.path().join(name)).collect();
            record_folders(&arguments)
        };
        assert_eq!(found(&["", "n1"])?.len(), 2);
        let listed = found(&["n2", "n*"])?;
        let listed: Vec<bool> = listed.iter().map(|one| one.is_listed).collect();
        assert_eq!(listed, [true, false]);
        assert!(found(&["other"]).is_err());
        assert!(found(&["x*"]).is_err());
        assert!(found(&["absent"]).is_err());
        assert_eq!(at_most(2, found(&["n*"])?)?.len(), 2);
        let Err(refused) = at_most(1, found(&["n*"])?) else {
            return Err("two records of at most one".into());
        };
        let text = "2 records are named, at most 1 are read";
        assert!(refused.to_string().contains(text), "{refused}");
        Ok(())
    }
}
