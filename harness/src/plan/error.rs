//! Why a profile cannot be planned on a host.

use crate::error::ExpectedError;
use crate::profile::units::Span;

/// A profile that cannot be planned on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No mechanism can run.
    #[error("{}", reasons.join("; "))]
    NothingToRun {
        /// `variant: reason`, one for each requested mechanism.
        reasons: Vec<String>,
    },
    /// The profile selects no pair of victim and aggressor of its axes.
    #[error(
        "no pair of the profile's victims and aggressors is on {}", axes.join(", ")
    )]
    NoPair {
        /// The requested axes.
        axes: Vec<String>,
    },
    /// The built-in claims cannot be read, which is a defect of the build.
    #[error("the built-in claims.toml: {what}")]
    Ledger {
        /// The message of the parser.
        what: String,
    },
    /// The fewest blocks of the shortest cells take longer than `device_time`.
    #[error(
        "device_time {device_time} is too short for {cells} cells (blocks.min of the shortest \
         cells); the smallest sufficient device_time is {needed}"
    )]
    TooLittleTime {
        /// The `device_time` of the profile.
        device_time: Span,
        /// Cells in the fewest blocks.
        cells: u64,
        /// The time of these cells at their shortest.
        needed: Span,
    },
}

impl From<PlanError> for ExpectedError {
    fn from(error: PlanError) -> Self {
        let text = error.to_string();
        match error {
            PlanError::NothingToRun { .. } => Self::NothingRan { reason: text },
            PlanError::Ledger { .. } => Self::Internal { what: text },
            PlanError::NoPair { .. } => Self::Usage {
                problem: text,
                remedy: Some(
                    "name a sub-axis to run its first pair, or add to victims and aggressors \
                     (gpubench list axes)"
                        .to_owned(),
                ),
            },
            PlanError::TooLittleTime { needed, .. } => Self::Usage {
                problem: text,
                remedy: Some(format!(
                    "set device_time = \"{needed}\", or request fewer mechanisms or axes"
                )),
            },
        }
    }
}
