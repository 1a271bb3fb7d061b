//! Everything that can go wrong with a record on disk, each naming the file and what is accepted.

use std::io;
use std::path::{Path, PathBuf};

use gpubench_record::sample::RowError;
use gpubench_record::version::UnreadableVersion;

/// A record that could not be written, read or finished.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The folder holds nothing that a run leaves.
    #[error("{} holds no record: neither record.json nor events.jsonl is there", dir.display())]
    NoRecord {
        /// The folder.
        dir: PathBuf,
    },
    /// A new record would be written over an old one.
    #[error("{} already holds a record; give another --out, or remove it", dir.display())]
    Occupied {
        /// The folder.
        dir: PathBuf,
    },
    /// Another process writes or finishes the record.
    #[error("{} is still being written by a run; wait until it ends", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// A record of another major version.
    #[error("{}: {source}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Which versions meet.
        source: UnreadableVersion,
    },
    /// A record of an older format lacks something.
    #[error("{} of format {major}.{minor}: {reason}", path.display())]
    OldRecord {
        /// The file.
        path: PathBuf,
        /// Its format.
        major: u32,
        /// Its format.
        minor: u32,
        /// What it lacks.
        reason: String,
    },
    /// `record.json` cannot be read.
    #[error("{} line {line} column {column}: {reason}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser expected.
        reason: String,
    },
    /// A line of `events.jsonl` or `telemetry.jsonl` cannot be read.
    #[error("{} line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What was expected.
        reason: String,
    },
    /// Something that is not to be stored, because it could not be read again.
    #[error("cannot store {what} in {}: {reason}", path.display())]
    Unstorable {
        /// What it was.
        what: &'static str,
        /// Where it was to go.
        path: PathBuf,
        /// Why it cannot be read again.
        reason: String,
    },
    /// A sample log cannot be read.
    #[error("sample log {}: {source}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: LogError,
    },
    /// A Parquet file cannot be written or read.
    #[error("parquet file {}: {reason}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What polars said.
        reason: String,
    },
    /// A file is not what its checksum was taken of.
    #[error("{} is damaged: it is not the file of which checksums.b3 was taken", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet file does not hold what was written to it.
    #[error("{} read back differs from the logs: {reason}", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// Where and how.
        reason: String,
    },
    /// A cell id or tenant name that would leave the record's folder.
    #[error("\"{name}\" is no file name: cell ids and tenant names are plain, without slashes")]
    Name {
        /// The name.
        name: String,
    },
    /// Nobody logged samples under that name.
    #[error("{} has no samples of tenant \"{tenant}\" in cell \"{cell}\"", dir.display())]
    NoSamples {
        /// The folder.
        dir: PathBuf,
        /// The cell asked for.
        cell: String,
        /// The tenant asked for.
        tenant: String,
    },
    /// The events speak of samples, and neither logs nor Parquet are there.
    #[error(
        "{} has lost its samples: its events count {rows} rows, \
         and neither cells/ nor samples.parquet is there", dir.display()
    )]
    SamplesLost {
        /// The folder.
        dir: PathBuf,
        /// Rows that the events count.
        rows: u64,
    },
}

/// What is wrong with the bytes of a sample log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Too short for its header.
    #[error("{bytes} bytes, and the header alone takes 64")]
    NoHeader {
        /// Length of the file.
        bytes: u64,
    },
    /// Does not begin as a log does.
    #[error("does not begin with GPBSAMP1, so it is no sample log of this version")]
    Magic,
    /// Claims more rows than it was made for.
    #[error("{committed} rows committed in a log made for {capacity}")]
    Capacity {
        /// Rows said to be committed.
        committed: u64,
        /// Rows that it was made for.
        capacity: u64,
    },
    /// Ends before its last committed row.
    #[error("{committed} rows committed, and its {bytes} bytes end before the last of them")]
    Truncated {
        /// Rows said to be committed.
        committed: u64,
        /// Length of the file.
        bytes: u64,
    },
    /// A row that this version cannot read.
    #[error("row {row}: {source}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        /// What is wrong with it.
        source: RowError,
    },
    /// The operating system refused to read on.
    #[error("row {row}: {source}")]
    Io {
        /// Number of the row, from 0.
        row: u64,
        /// Its answer.
        source: io::Error,
    },
}

impl StoreError {
    /// Makes an I/O error a typed one: `.map_err(StoreError::io("write", path))`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// A parser's complaint about the whole file at `path`.
    pub(crate) fn json(path: &Path, error: &serde_json::Error) -> Self {
        Self::Json {
            path: path.to_path_buf(),
            line: error.line(),
            column: error.column(),
            reason: without_position(error),
        }
    }

    /// A complaint about one line of the file at `path`.
    pub(crate) fn line(path: &Path, line: usize, reason: impl Into<String>) -> Self {
        Self::Line {
            path: path.to_path_buf(),
            line,
            reason: reason.into(),
        }
    }
}

/// The parser's message without its own line and column, which the error type carries.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}
