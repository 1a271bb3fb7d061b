//! Figures made from findings of probes. They explain rows and are no scores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;

/// A figure of a probe, which is no score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFigure {
    /// Canonical variant.
    pub variant: String,
    /// Its name: `time slice`, `switch gap`, `overlap`...
    pub figure: String,
    /// The sub-axis of the rows that it explains, as `axis/sub-axis`; it changes no level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explains: Option<String>,
    /// For a route past a limit: `escaped` or `contained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The figure.
    #[serde(flatten)]
    pub estimate: Estimate,
}

impl ProbeFigure {
    /// Its name, with the verdict where it has one.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.verdict {
            Some(verdict) => format!("{}: {verdict}", self.figure),
            None => self.figure.clone(),
        }
    }
}
