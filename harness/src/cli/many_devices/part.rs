//! A run that is one of several: what its parent says to it.

use gpubench_workloads::command::PART_OF;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::error::ExpectedError;

/// What a run knows of the runs beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Devices that are measured at the same time; empty in a run of one, and of one after the
    /// other.
    pub others: Vec<String>,
}

impl Part {
    /// Reads it from the environment, and asks for a SIGTERM when the parent dies, which ends this
    /// run as the user's signal does. A run that no parent started is alone.
    ///
    /// # Errors
    /// When the parent has died.
    pub fn of_environment() -> Result<Self, ExpectedError> {
        let Some(text) = std::env::var(PART_OF).ok() else {
            return Ok(Self::default());
        };
        let (parent, others) = text.split_once(' ').unwrap_or((&text, ""));
        // It is refused on no kernel that runs this program.
        let _refused = set_parent_process_death_signal(Some(Signal::TERM));
        let lives = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
        if !lives {
            return Err(ExpectedError::NothingRan {
                reason: format!("process {parent}, which started this run, has ended"),
            });
        }
        Ok(Self {
            others: others.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// The value for a run beside `others`.
    #[must_use]
    pub fn value(others: &[String]) -> String {
        let own = std::process::id().to_string();
        format!("{own} {}", others.join(",")).trim_end().to_owned()
    }
}
