//! Why a tenant refused a message, and the verification of a workload.
//!
//! The coordinator decides by the kind; the text is for the user.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a tenant refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalKind {
    /// The device or the workload cannot do this at all.
    Waived,
    /// The disk cannot hold the sample log.
    NoSpace,
    /// The driver returned an error.
    Driver {
        /// Its `CUresult`.
        code: i32,
    },
    /// The kernels computed a wrong result.
    WrongResult,
    /// The user's program failed or broke the victim protocol.
    Program,
    /// Anything else: a message out of order, the clock, the file system, a panic.
    Other,
}

impl RefusalKind {
    /// The driver's `CUresult`, where the driver refused.
    #[must_use]
    pub const fn code(self) -> Option<i32> {
        match self {
            Self::Driver { code } => Some(code),
            _ => None,
        }
    }

    /// `Driver` with that code, or `Other` without one.
    #[must_use]
    pub const fn of_code(code: Option<i32>) -> Self {
        match code {
            Some(code) => Self::Driver { code },
            None => Self::Other,
        }
    }
}

/// The verification of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Verification {
    /// The results are correct.
    Correct,
    /// The device cannot run this workload.
    Waived {
        /// What the device lacks.
        reason: String,
    },
    /// The results are wrong, or the check failed.
    Failed {
        /// What went wrong.
        problem: String,
    },
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Correct => f.write_str("ok"),
            Self::Waived { reason } => write!(f, "waived: {reason}"),
            Self::Failed { problem } => f.write_str(problem),
        }
    }
}
