//! Every exit status of gpubench, and which takes precedence when several apply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The exit statuses of every verb. `virtual-gpu exec` alone passes its child's status on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCode {
    /// Everything requested was done.
    Done,
    /// A bug in gpubench, a panic included.
    Internal,
    /// Usage or profile: decided before anything ran.
    Usage,
    /// Nothing could run: no device, or every mechanism waived; or one that the command line names.
    NothingRan,
    /// A trial failed, for example a victim killed from outside; a mechanism was not in force; or
    /// fault trials ended early, because the device needs a reset. Of a verb that reads a record:
    /// its scores do not follow from its cells, or `record.json` is damaged.
    TrialFailed,
    /// Output could not be written.
    OutputFailed,
    /// The state of the host could not be restored.
    NotRestored,
    /// A limit of the host is too low, such as that of open files: decided before anything ran.
    HostLimit,
    /// Inconclusive, from `diff` or from `matrix --strict`; or a model differs from hardware in a
    /// row that is not listed.
    Inconclusive,
    /// The records cannot be compared; or an interrupted run cannot go on, because the GPU, the
    /// driver or gpubench is another one.
    NotComparable,
    /// Isolation got worse, or a model claims more of it than hardware gives.
    Regression,
    /// Interrupted by the user.
    Interrupted,
}

impl ExitCode {
    /// Every status, the worst first. The order is the precedence.
    pub const BY_PRECEDENCE: [Self; 12] = [
        Self::Internal,
        Self::NotRestored,
        Self::Interrupted,
        Self::OutputFailed,
        Self::NotComparable,
        Self::Regression,
        Self::TrialFailed,
        Self::Inconclusive,
        Self::NothingRan,
        Self::HostLimit,
        // Usage is decided before anything runs, so it never meets another one but success.
        Self::Usage,
        Self::Done,
    ];

    /// The number in the shell.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::NothingRan => 3,
            Self::TrialFailed => 4,
            Self::OutputFailed => 5,
            Self::NotRestored => 6,
            Self::HostLimit => 7,
            Self::Inconclusive => 10,
            Self::NotComparable => 20,
            Self::Regression => 30,
            Self::Interrupted => 130,
        }
    }

    /// What the status means, for `--help` and the README.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Internal => "internal error, a bug in gpubench",
            Self::Usage => "wrong command line, profile or record; nothing ran",
            Self::NothingRan => {
                "nothing could run: no device, mechanisms waived, or a GPU without nights (history)"
            }
            Self::TrialFailed => {
                "a cell, mechanism or trial failed, or a record contradicts itself"
            }
            Self::OutputFailed => "output could not be written",
            Self::NotRestored => "host state not restored (run gpubench cleanup)",
            Self::HostLimit => "a limit of the host is too low; nothing ran",
            Self::Inconclusive => "inconclusive (diff, outliers, fidelity, matrix --strict)",
            Self::NotComparable => {
                "records cannot be compared (diff), or a run cannot go on here (matrix --resume)"
            }
            Self::Regression => {
                "isolation got worse, a GPU differs from its peers, or a model is optimistic"
            }
            Self::Interrupted => "interrupted by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT",
        }
    }

    /// The status of the two that takes precedence.
    pub fn worst(self, other: Self) -> Self {
        let rank = |code: Self| {
            Self::BY_PRECEDENCE.iter().position(|&c| c == code).unwrap_or(Self::BY_PRECEDENCE.len())
        };
        if rank(self) <= rank(other) { self } else { other }
    }
}

// The four outcomes of a measurement.

named! {
    /// The outcome of a measurement, without the reason.
    #[derive(Hash)]
    pub enum OutcomeKind {
        /// Measured, and every gate passed.
        Measured = "measured",
        /// Cannot be measured here.
        Waived = "waived",
        /// Was tried and failed.
        Failed = "failed",
        /// Was measured, but the result cannot be trusted.
        Inconclusive = "inconclusive",
    }
}

/// The outcome of a measurement, with the reason unless it is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The kind.
    pub outcome: OutcomeKind,
    /// Why, unless measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Outcome {
    /// Measured.
    pub const fn measured() -> Self {
        Self { outcome: OutcomeKind::Measured, reason: None }
    }

    /// Cannot be measured here, because of `reason`.
    pub fn waived(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Waived, reason: Some(reason.into()) }
    }

    /// Was tried and failed, because of `reason`.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Failed, reason: Some(reason.into()) }
    }

    /// Cannot be trusted, because of `reason`.
    pub fn inconclusive(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Inconclusive, reason: Some(reason.into()) }
    }

    /// Whether it is measured.
    pub fn is_measured(&self) -> bool {
        self.outcome == OutcomeKind::Measured
    }
}

#[cfg(test)]
mod tests {
    use super::ExitCode;

    /// Scripts depend on the numbers, and on which one a run with several problems ends with.
    #[test]
    fn numbers_and_their_precedence_are_stable() {
        let codes: Vec<u8> = ExitCode::BY_PRECEDENCE.iter().map(|c| c.code()).collect();
        assert_eq!(codes, [1, 6, 130, 5, 20, 30, 4, 10, 3, 7, 2, 0]);
    }

    #[test]
    fn the_worst_wins_whatever_the_order() {
        for (a, b, worst) in [
            (ExitCode::Done, ExitCode::NothingRan, ExitCode::NothingRan),
            (ExitCode::TrialFailed, ExitCode::Interrupted, ExitCode::Interrupted),
            (ExitCode::Internal, ExitCode::NotRestored, ExitCode::Internal),
        ] {
            assert_eq!(a.worst(b), worst);
            assert_eq!(b.worst(a), worst);
        }
    }
}
