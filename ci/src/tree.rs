//! The tracked files as text: the only input of the rules.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path from the repository root, with `/`.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// Whether the file has the mark of generated files.
    pub fn is_generated(&self) -> bool {
        let mark = concat!("@", "generated");
        self.text.lines().take(3).any(|line| line.contains(mark))
    }

    /// Whether the path ends in one of these extensions.
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension();
        extension.is_some_and(|found| extensions.iter().any(|wanted| found == *wanted))
    }
}

/// The tracked text files of a repository.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    /// Reads every tracked file below `root`; what is no UTF-8 text counts as empty.
    pub fn read(root: &Path) -> Result<Self, CiError> {
        let mut files = Vec::new();
        for path in tracked(root, "*")? {
            let bytes = match std::fs::read(root.join(&path)) {
                Ok(bytes) => bytes,
                // Deleted in the working tree but not in the index, or a link to a folder.
                Err(_) if !root.join(&path).is_file() => continue,
                Err(source) => return Err(CiError::Read { path, source }),
            };
            files.push(SourceFile { path, text: String::from_utf8(bytes).unwrap_or_default() });
        }
        Ok(Self { files })
    }

    /// A tree from literals, for the tests of the rules.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let make = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(make).collect() }
    }

    pub fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    pub fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files().filter(|file| file.has_extension(&["rs"]))
    }

    pub fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files().find(|file| file.path == path)
    }
}

pub fn tracked(root: &Path, pathspec: &str) -> Result<Vec<String>, CiError> {
    let mut command = Command::new("git");
    command.current_dir(root);
    command.args(["ls-files", "-z", "--", pathspec]);
    let listing = output(&mut command)?;
    let paths = listing.split('\0').filter(|path| !path.is_empty());
    Ok(paths.map(str::to_owned).collect())
}

pub fn output(command: &mut Command) -> Result<String, CiError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done =
        command.output().map_err(|source| CiError::Start { program: program.clone(), source })?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(CiError::Command {
            program,
            status: done.status.to_string(),
            message: stderr.trim().replace('\n', "; "),
        });
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

pub fn repository_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

// Errors of the tasks: one line with the problem, the place and what is accepted.

/// Why a task stopped or failed.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: std::io::Error },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: std::io::Error },
    #[error("{program} failed ({status}): {message}")]
    Command { program: String, status: String, message: String },
    #[error("{path}: {message}")]
    Manifest { path: String, message: String },
    #[error("{0}")]
    Found(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_reports_its_status() {
        let mut command = Command::new("git");
        command.arg("no-such-command");
        let error = output(&mut command).unwrap_err().to_string();
        assert!(error.contains("git") && error.contains("exit status"), "{error}");
    }

    #[test]
    fn generated_files_have_a_mark_at_the_top() {
        let mark = concat!("// @", "generated");
        let late = format!("\n\n\n{mark}");
        let tree = Tree::of(&[("a.rs", mark), ("b.rs", &late)]);
        let found: Vec<bool> = tree.files().map(SourceFile::is_generated).collect();
        assert_eq!(found, [true, false]);
    }
}
