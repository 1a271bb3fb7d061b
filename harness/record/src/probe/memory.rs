//! How much memory one call allocates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one call allocated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapCall {
    /// The call.
    pub call: String,
    /// Smallest and largest sum of all rounds.
    pub bytes: (u64, u64),
    /// How many rounds.
    pub rounds: u32,
    /// `CUresult` of the refusal; absent if the whole device was allocated without one.
    pub refused_with: Option<i32>,
}
