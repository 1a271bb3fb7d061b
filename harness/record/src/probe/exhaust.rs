//! What happens to a tenant that runs out of memory, and to its neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One time that a tenant took all the memory that it got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exhausted {
    /// How much that was.
    pub bytes: u64,
    /// `CUresult` of the refusal of more; absent if more was granted.
    pub refused_with: Option<i32>,
    /// How long the refusal took.
    pub refusal_ns: u64,
    /// `CUresult` of a launch and a copy while it held all of it; 0 if they went well.
    pub serves_code: i32,
    /// `CUresult` of taking memory when all was given back; 0 if it went well.
    pub recovers_code: i32,
}

/// The same beside a neighbour that launched kernels all the while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExhaustTrial {
    /// What became of the tenant; absent if it did not live to tell.
    pub tenant: Option<Exhausted>,
    /// Launches of the neighbour's that ended well; absent if it could not tell.
    pub neighbour_served: Option<u32>,
}
