//! The sample log of one tenant in one cell: a file mapped into memory, written row by row.
//!
//! Its form is fixed by `gpubench_record::sample`. Writing a row is two memory writes: the row,
//! then the count that covers it, stored with release order. A tenant that is killed between the
//! two loses that row and no other.

mod reader;
mod writer;

use gpubench_record::RefusalKind;

pub use reader::{LogContents, read_log};
pub use writer::LogWriter;

/// Why a log could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// More or fewer rows than a log may have.
    #[error("a log of {rows} rows, accepted are 1 to {ROWS_MAX}")]
    Rows {
        /// Rows asked for.
        rows: u64,
    },
    /// The disk cannot hold it.
    #[error("no space for a log of {bytes} bytes at {path}")]
    NoSpace {
        /// Size of the log.
        bytes: u64,
        /// Where it was to go.
        path: String,
    },
    /// The file system refused.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: String,
        /// What the file system said.
        source: std::io::Error,
    },
    /// The file is no sample log.
    #[error("{path} is no sample log of this version")]
    OtherFormat {
        /// The file.
        path: String,
    },
    /// The file ends before the rows that it counts.
    #[error("{path} counts {committed} rows but has room for {present}")]
    Truncated {
        /// The file.
        path: String,
        /// Rows that its header counts.
        committed: u64,
        /// Rows that it has.
        present: u64,
    },
    /// A counted row cannot be read.
    #[error("row {row} of {path}: {source}")]
    Row {
        /// Number of the row, from 0.
        row: u64,
        /// The file.
        path: String,
        /// What is wrong with it.
        source: gpubench_record::sample::RowError,
    },
}

impl LogError {
    /// How a tenant tells the coordinator, which ends the run on a full disk.
    #[must_use]
    pub const fn kind(&self) -> RefusalKind {
        match self {
            Self::NoSpace { .. } => RefusalKind::NoSpace,
            _ => RefusalKind::Other,
        }
    }
}

/// Most rows in a log: 4 GiB of file.
pub const ROWS_MAX: u64 = 1 << 26;
