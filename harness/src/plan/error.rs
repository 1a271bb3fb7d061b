//! Why there is no plan.

use crate::error::ExpectedError;
use crate::profile::units::Span;

/// A profile that cannot be planned on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Not one mechanism can run.
    #[error("{}", reasons.join("; "))]
    NothingToRun {
        /// `variant: reason`, one for each that was asked for.
        reasons: Vec<String>,
    },
    /// The axes have pairs of victim and aggressor, and the profile wants none of them.
    #[error(
        "no pair of the profile's victims and aggressors is on {}", axes.join(", ")
    )]
    NoPair {
        /// The axes that were asked for.
        axes: Vec<String>,
    },
    /// The built-in claims cannot be read, which is a defect of the build.
    #[error("the built-in claimed.toml: {what}")]
    Claimed {
        /// What the parser said.
        what: String,
    },
    /// Even the fewest blocks of the shortest cells take longer than allowed.
    #[error(
        "device_time {device_time} is too short for {cells} cells (blocks.min of the shortest \
         cells); the smallest that would do is {needed}"
    )]
    TooLittleTime {
        /// What the profile allows.
        device_time: Span,
        /// Cells in the fewest blocks.
        cells: u64,
        /// What they take at their shortest.
        needed: Span,
    },
}

impl From<PlanError> for ExpectedError {
    fn from(error: PlanError) -> Self {
        let text = error.to_string();
        match error {
            PlanError::NothingToRun { .. } => Self::NothingRan { reason: text },
            PlanError::Claimed { .. } => Self::Internal { what: text },
            PlanError::NoPair { .. } => Self::Usage {
                problem: text,
                remedy: Some(
                    "name a sub-axis for its usual pair, or add to victims and aggressors \
                     (gpubench list axes)"
                        .to_owned(),
                ),
            },
            PlanError::TooLittleTime { needed, .. } => Self::Usage {
                problem: text,
                remedy: Some(format!(
                    "set device_time = \"{needed}\", or ask for fewer mechanisms or axes"
                )),
            },
        }
    }
}
