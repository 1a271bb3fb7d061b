//! The sample log of one tenant in one cell: a file mapped into memory, written row by row.
//!
//! `gpubench_record::sample` defines its layout. Writing a row is two memory writes: the row, then
//! the count that includes it, stored with release order. A tenant killed between the two loses
//! that row and no other.

mod committed;
mod reader;
mod writer;

use gpubench_record::RefusalKind;

pub use reader::{LogContents, read_log};
pub use writer::LogWriter;

/// Why a log cannot be created or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The number of rows is zero or too large.
    #[error("a log of {rows} rows, accepted are 1 to {ROWS_MAX}")]
    Rows {
        /// The requested rows.
        rows: u64,
    },
    /// The disk has too little space.
    #[error("no space for a log of {bytes} bytes at {path}")]
    NoSpace {
        /// Size of the log.
        bytes: u64,
        path: String,
    },
    /// A file operation failed.
    #[error("{doing} {path}: {source}")]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: String,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file is not a sample log.
    #[error("{path} is no sample log of this version")]
    OtherFormat {
        /// The file.
        path: String,
    },
    /// The file is shorter than its count of rows.
    #[error("{path} counts {committed} rows but has room for {present}")]
    Truncated {
        /// The file.
        path: String,
        /// Rows that its header counts.
        committed: u64,
        /// Rows for which it has room.
        present: u64,
    },
    /// A counted row cannot be read.
    #[error("row {row} of {path}: {source}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        /// The file.
        path: String,
        /// What is wrong with the row.
        source: gpubench_record::sample::RowError,
    },
}

impl LogError {
    /// The kind that the coordinator receives; it ends the run on a full disk.
    #[must_use]
    pub const fn kind(&self) -> RefusalKind {
        match self {
            Self::NoSpace { .. } => RefusalKind::NoSpace,
            _ => RefusalKind::Other,
        }
    }
}

/// Maximum number of rows in a log: a file of 4 GiB.
pub const ROWS_MAX: u64 = 1 << 26;
