//! Errors about a record on disk. Each names the file and what is accepted.

use std::io;
use std::path::{Path, PathBuf};

use super::RECORD_FILE;
use gpubench_record::FIRST_VERSION;
use gpubench_record::sample::RowError;
use gpubench_record::version::UnreadableVersion;
use gpubench_record::{excerpt, parser_message};

/// A record that could not be written, read or finished.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The folder holds neither of the files that make a record.
    #[error("{} holds no record: it has neither record.json nor events.jsonl", dir.display())]
    NoRecord { dir: PathBuf },
    #[error("no such folder: {}", dir.display())]
    NoFolder { dir: PathBuf },
    /// A new record would overwrite an old one.
    #[error(
        "{} already holds a record; choose another --out, or go on with an unfinished one by \
         --resume",
        dir.display()
    )]
    Occupied { dir: PathBuf },
    /// Another process writes or finishes the record.
    #[error("a run is still writing {}; wait until it ends", dir.display())]
    InUse { dir: PathBuf },
    /// A record of a format that is not read.
    #[error("{}: {source}", path.display())]
    Version {
        path: PathBuf,
        /// The version of the file and those that can be read.
        source: UnreadableVersion,
    },
    /// A record of the first format lacks a field.
    #[error("{} of format {FIRST_VERSION}: {reason}", path.display())]
    OldRecord { path: PathBuf, reason: String },
    /// `record.json` cannot be read.
    #[error("{} line {line} column {column}: {reason}", path.display())]
    Json {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        reason: String,
    },
    /// A line of `events.jsonl` or `telemetry.jsonl` cannot be read.
    #[error("{} line {line}: {reason}", path.display())]
    Line {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        reason: String,
    },
    /// A value that is not stored, because it could not be read again.
    #[error("cannot store {what} in {}: {reason}", path.display())]
    Unstorable {
        what: &'static str,
        path: PathBuf,
        /// Why the value cannot be read again.
        reason: String,
    },
    /// A sample log cannot be read.
    #[error("sample log {}: {source}", path.display())]
    Log { path: PathBuf, source: LogError },
    /// A Parquet file cannot be written or read.
    #[error("parquet file {}: {reason}", path.display())]
    Parquet { path: PathBuf, reason: String },
    /// A latency log cannot be written or read.
    #[error("latency log {}: {reason}", path.display())]
    Latencies { path: PathBuf, reason: String },
    /// A file does not match its checksum.
    #[error("{} is damaged: it does not match its checksum in checksums.b3", path.display())]
    Damaged { path: PathBuf },
    /// A file does not read back as it was written.
    #[error("{} read back differs from the logs: {reason}", path.display())]
    Differs {
        path: PathBuf,
        /// Where and how.
        reason: String,
    },
    /// A cell id or tenant name that is no plain file name.
    #[error(
        "\"{}\" is no plain name: cell ids and tenant names have no slash, comma or space",
        excerpt(name)
    )]
    Name { name: String },
    /// No samples of that tenant in that cell.
    #[error(
        "{} has no samples of tenant \"{}\" in cell \"{}\"",
        dir.display(), excerpt(tenant), excerpt(cell)
    )]
    NoSamples { dir: PathBuf, cell: String, tenant: String },
    #[error(
        "{} has lost its samples: its events count {rows} rows, \
         but it has neither cells/ nor samples.parquet", dir.display()
    )]
    SamplesLost { dir: PathBuf, rows: u64 },
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Too short for its header.
    #[error("the file has {bytes} bytes, but the header takes 64")]
    NoHeader { bytes: u64 },
    /// Does not begin with the magic bytes.
    #[error("the file does not begin with GPBSAMP1, so it is no sample log of this version")]
    Magic,
    /// Counts more rows than its capacity.
    #[error("{committed} rows committed in a log with a capacity of {capacity}")]
    Capacity { committed: u64, capacity: u64 },
    /// A row that this version cannot read.
    #[error("row {row}: {source}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        source: RowError,
    },
    /// The operating system reported an error.
    #[error("row {row}: {source}")]
    Io {
        /// Number of the row, from 0.
        row: u64,
        source: io::Error,
    },
}

impl StoreError {
    /// That a folder has no record, or is not there.
    pub fn no_record(dir: &Path) -> Self {
        match dir.join(RECORD_FILE).symlink_metadata() {
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                Self::io("read", dir)(source)
            }
            _ if dir.exists() => Self::NoRecord { dir: dir.to_path_buf() },
            _ => Self::NoFolder { dir: dir.to_path_buf() },
        }
    }

    /// Wraps an I/O error: `.map_err(StoreError::io("write", path))`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// A parser's error about the file at `path`.
    pub(crate) fn json(path: &Path, error: &serde_json::Error) -> Self {
        Self::Json {
            path: path.to_path_buf(),
            line: error.line(),
            column: error.column(),
            reason: without_position(error),
        }
    }

    /// An error about one line of the file at `path`.
    pub(crate) fn line(path: &Path, line: usize, reason: impl Into<String>) -> Self {
        Self::Line { path: path.to_path_buf(), line, reason: reason.into() }
    }
}

/// The parser's message without its own line and column, which the error type carries.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    parser_message(text.strip_suffix(&position).unwrap_or(&text))
}
