//! Errors of the tasks: one line with the problem, the place and what is accepted.

/// Why a task stopped or failed.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        program: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {message}")]
    Command {
        program: String,
        /// Its exit status.
        status: String,
        /// Its standard error.
        message: String,
    },
    /// A manifest is malformed.
    #[error("{path}: {message}")]
    Manifest {
        /// The manifest.
        path: String,
        /// The problem.
        message: String,
    },
    /// A check has findings.
    #[error("{0}")]
    Found(String),
}
