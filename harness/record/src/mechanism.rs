//! What became of each mechanism in a run, and the evidence that it was in force.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// One mechanism variant in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismRow {
    /// Name in the catalogue.
    pub name: String,
    /// Canonical variant.
    pub variant: String,
    /// Outcome with its reason.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What would make it available, where it is waived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Evidence that it was in force while samples were taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<Proof>,
}

/// One piece of evidence that a mechanism was, or was not, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// When it was taken: `before`, `during` or `after` the samples.
    pub when: String,
    /// What was looked at.
    pub check: String,
    /// Whether it speaks for the mechanism being in force.
    pub holds: bool,
    /// What was seen.
    pub evidence: String,
    /// Whether a hardware partition was observed (MIG instance ids, disjoint slices).
    #[serde(default)]
    pub hardware: bool,
    /// Whether a limiter was seen in force (a percentage, a mapped interposer).
    #[serde(default)]
    pub limiter: bool,
}

impl Proof {
    /// [`Proof::when`] of what was taken among the samples.
    pub const DURING: &str = "during";
}
