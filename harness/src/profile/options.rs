//! The table that each mechanism has in a profile. To add a mechanism's options, add its type
//! here, its field in [`super::Profile`], and its keys in the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[time-slicing]`: processes take turns on the whole GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSlicingOptions {
    /// Length of a turn.
    pub slice: Slice,
}

/// The length of a turn, as the driver's own settings name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Slice {
    /// Whatever the driver does when nobody asks.
    Default,
    /// The driver's short slice.
    Short,
    /// The driver's medium slice.
    Medium,
    /// The driver's long slice.
    Long,
}

impl Slice {
    /// The word in profiles and variants.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }
}
