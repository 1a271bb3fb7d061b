//! The four outcomes of a measurement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of a measurement, without the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeKind {
    /// Measured, and every gate passed.
    Measured,
    /// Cannot be measured here.
    Waived,
    /// Was tried and failed.
    Failed,
    /// Was measured, but the result cannot be trusted.
    Inconclusive,
}

impl OutcomeKind {
    /// The word printed for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Waived => "waived",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
        }
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
    #[must_use]
    pub const fn measured() -> Self {
        Self { outcome: OutcomeKind::Measured, reason: None }
    }

    /// Cannot be measured here, because of `reason`.
    #[must_use]
    pub fn waived(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Waived, reason: Some(reason.into()) }
    }

    /// Was tried and failed, because of `reason`.
    #[must_use]
    pub fn failed(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Failed, reason: Some(reason.into()) }
    }

    /// Cannot be trusted, because of `reason`.
    #[must_use]
    pub fn inconclusive(reason: impl Into<String>) -> Self {
        Self { outcome: OutcomeKind::Inconclusive, reason: Some(reason.into()) }
    }

    /// Whether it is measured.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.outcome == OutcomeKind::Measured
    }
}
