//! What can go wrong in a task: one line that says what, where and what is accepted.

/// Why a task stopped or failed.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended badly.
    #[error("{program} failed ({status}): {message}")]
    Command {
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// What it said on standard error.
        message: String,
    },
    /// A manifest is not as expected.
    #[error("{path}: {message}")]
    Manifest {
        /// The manifest.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// A check found something; the findings have been printed.
    #[error("{0}")]
    Found(String),
}
