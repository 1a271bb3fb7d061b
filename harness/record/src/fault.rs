//! Fault trials: what was planned, what was seen, and what it came to.
//!
//! A trial is one fresh process that breaks something at a chosen instant while victims run, and
//! after it a fresh client that asks for the device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cell::TenantResult;
use crate::ecc::EccCounts;
use crate::outcome::Outcome;
use crate::xid::XidLine;

/// What became of the process that broke something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Struck {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// When it began, since the common start; absent if it did not live to tell.
    #[serde(default)]
    pub began_ns: Option<u64>,
    /// When it had the answer, since the common start.
    #[serde(default)]
    pub detected_ns: Option<u64>,
    /// `CUresult` of the first call that failed; absent if none did.
    #[serde(default)]
    pub code: Option<i32>,
    /// `CUresult` of a harmless call afterwards; 0 if it went well.
    #[serde(default)]
    pub later_code: Option<i32>,
    /// How the process ended, if it did.
    #[serde(default)]
    pub ended: Option<String>,
}

/// A client that came after the fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewClient {
    /// From the end of whoever was harmed until its first kernel had run; absent if the device
    /// was never given to it.
    pub accepted_after_ns: Option<u64>,
    /// How often it asked.
    pub tries: u32,
    /// `CUresult` of the last refusal.
    pub refused_with: Option<i32>,
}

/// What was seen in one trial, unjudged. The victims' requests stand in their logs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultSeen {
    /// Each victim.
    pub victims: Vec<TenantResult>,
    /// The process that broke something.
    pub struck: Struck,
    /// When the coordinator did its part (a signal, a word to the MPS daemon), since the common
    /// start; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acted_ns: Option<u64>,
    /// The client after it; absent where the trial did not come that far.
    pub new_client: Option<NewClient>,
    /// Whether the mechanism's service did not answer any more afterwards, so that the new client
    /// had the device without it; absent where the mechanism has no service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_gone: Option<bool>,
    /// Xids from the trial's begin to its end; absent if nobody listened.
    pub xids: Option<Vec<u32>>,
    /// What the kernel's log said of Xids in that time; absent if nobody read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xid_lines: Option<Vec<XidLine>>,
    /// What NVML says must be done to the GPU before and after (`nvml.h`, field 230; 0 is
    /// nothing); absent where it does not say.
    pub recovery_action: [Option<u32>; 2],
    /// What error correction had counted before and after.
    #[serde(default)]
    pub ecc: [EccCounts; 2],
    /// Processes on the device when everybody of the trial had gone; absent where NVML does not
    /// tell.
    pub left_behind: Option<Vec<u32>>,
    /// Why the trial could not be held, if it could not.
    pub failure: Option<String>,
}

/// What a fault did to one victim.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Nothing.
    Unharmed,
    /// Its rate fell.
    Slowed,
    /// It made no progress for a while, or a request failed, and it went on.
    Stalled,
    /// It never completed another request.
    Dead,
}

impl Fate {
    /// The word printed for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unharmed => "unharmed",
            Self::Slowed => "slowed",
            Self::Stalled => "stalled",
            Self::Dead => "dead",
        }
    }
}

/// One victim of one trial, from its requests alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VictimFate {
    /// Its name.
    pub tenant: String,
    /// What became of it.
    pub fate: Fate,
    /// `CUresult` of its first failed request; absent if none failed.
    pub code: Option<i32>,
    /// Completions per second after the fault over before it.
    pub rate_ratio: f64,
    /// Longest time without a completion after the fault.
    pub gap_ns: u64,
    /// From the fault to its first completed request after it was harmed, or at all where it was
    /// not; absent if there was none.
    pub next_good_ns: Option<u64>,
}

/// One trial with its judgement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// Id of its cell.
    pub id: String,
    /// Mechanism.
    pub mechanism: String,
    /// Canonical variant.
    pub variant: String,
    /// The fault.
    pub fault: String,
    /// Its class.
    pub class: String,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// Whether it can be counted, with the reason if not.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The victims.
    pub victims: Vec<VictimFate>,
    /// From the fault to its answer in the process that caused it; absent if it had none.
    pub detected_after_ns: Option<u64>,
    /// What was seen.
    pub seen: FaultSeen,
}

impl FaultResult {
    /// Whether no victim noticed.
    #[must_use]
    pub fn is_contained(&self) -> bool {
        self.victims.iter().all(|one| one.fate == Fate::Unharmed)
    }
}

#[cfg(test)]
mod tests {
    use super::FaultSeen;
    #[test]
    fn what_an_older_version_saw_is_read() -> Result<(), serde_json::Error> {
        let text = r#"{"victims":[],"struck":{},"new_client":{"accepted_after_ns":7,"tries":1,
            "refused_with":null},"xids":[13],"recovery_action":[0,0],"left_behind":[],
            "failure":null}"#;
        let seen: FaultSeen = serde_json::from_str(text)?;
        assert_eq!((seen.acted_ns, seen.service_gone), (None, None));
        assert!(!seen.ecc[0].is_told());
        assert_eq!(seen.new_client.map(|client| client.tries), Some(1));
        Ok(())
    }
}
