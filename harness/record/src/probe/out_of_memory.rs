//! What happens to a tenant that runs out of memory, and to its neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One time that a tenant allocated all the memory that it could.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exhausted {
    /// How much that was.
    pub bytes: u64,
    /// `CUresult` of the refusal of more; absent if more was granted.
    pub refused_with: Option<i32>,
    /// How long the refusal took.
    pub refusal_ns: u64,
    /// `CUresult` of a launch and a copy while it held all of it; 0 for success.
    pub serves_code: i32,
    /// `CUresult` of an allocation after all was freed; 0 for success.
    pub recovers_code: i32,
}

/// One trial, beside a neighbour that launches kernels throughout.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExhaustTrial {
    /// Result of the tenant; absent if its process died.
    pub tenant: Option<Exhausted>,
    /// The neighbour's successful launches; absent if it reported none.
    pub neighbour_served: Option<u32>,
}
