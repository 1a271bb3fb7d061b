//! Evidence that a mechanism was in force in a cell.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When evidence was taken. It shows no more than that instant does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ProofTime {
    /// When the tenants opened their contexts.
    #[serde(rename = "at open")]
    AtOpen,
    /// Once in the life of each tenant process.
    #[serde(rename = "once")]
    Once,
    /// While the samples of the cell were taken.
    #[serde(rename = "during")]
    During,
    /// Before the samples: records of format 1.0.
    #[serde(rename = "before")]
    Before,
    /// After the samples: records of format 1.0.
    #[serde(rename = "after")]
    After,
}

impl ProofTime {
    /// As in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtOpen => "at open",
            Self::Once => "once",
            Self::During => "during",
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

impl fmt::Display for ProofTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A proof that each cell of a variant needs.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct RequiredProof {
    /// When it is taken.
    pub when: ProofTime,
    /// What is checked, as in [`Proof::check`].
    pub check: String,
}

/// One piece of evidence that a mechanism was, or was not, in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// When it was taken.
    pub when: ProofTime,
    /// The instant, in ns from the start of the cell; negative before it. Absent in
    /// records of format 1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t_ns: Option<i64>,
    /// What was checked.
    pub check: String,
    /// Whether it shows that the mechanism is in force.
    pub holds: bool,
    /// What was observed.
    pub evidence: String,
    /// Whether a hardware partition was observed (MIG instance ids, disjoint slices).
    #[serde(default)]
    pub hardware: bool,
    /// Whether a limiter was observed in force (a percentage, a mapped interposer).
    #[serde(default)]
    pub limiter: bool,
}

impl Proof {
    /// Whether it is this required proof.
    #[must_use]
    pub fn is(&self, required: &RequiredProof) -> bool {
        self.when == required.when && self.check == required.check
    }

    /// Whether another proof is the same check with the same result, perhaps of another cell.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        (self.when, &self.check, self.holds) == (other.when, &other.check, other.holds)
            && (self.hardware, self.limiter) == (other.hardware, other.limiter)
    }
}
