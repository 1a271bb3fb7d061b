//! What a tenant computed: a digest of its whole output, beside that of the same work alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The output of a tenant after its last request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputCheck {
    /// Digest of the whole output; absent where there is none to check or it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The digest of the same work alone on the device, from calibration; absent where unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<String>,
    /// Bytes that the digest covers.
    #[serde(default)]
    pub bytes: u64,
    /// Requests after which every byte was written again: a wrong result of an earlier one is gone.
    #[serde(default)]
    pub cycle: u64,
    /// Why the workload has no output that is a fixed function of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<String>,
    /// Why the output could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl OutputCheck {
    /// Whether output and reference agree; `None` where one of them is missing.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        Some(self.digest.as_ref()? == self.alone.as_ref()?)
    }

    /// The probability that the check finds a wrong bit that one of `requests` requests writes,
    /// each of them equally likely: later requests must not have overwritten it.
    #[must_use]
    pub fn chance_of_one_request(&self, requests: u64) -> f64 {
        if requests == 0 { 0.0 } else { self.cycle.min(requests) as f64 / requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::OutputCheck;

    #[test]
    fn only_two_digests_are_compared() {
        let check = |digest: Option<&str>, alone: Option<&str>| OutputCheck {
            digest: digest.map(str::to_owned),
            alone: alone.map(str::to_owned),
            ..OutputCheck::default()
        };
        for (digest, alone, agrees) in [
            (Some("1"), Some("1"), Some(true)),
            (Some("1"), Some("2"), Some(false)),
            (Some("1"), None, None),
            (None, Some("1"), None),
        ] {
            assert_eq!(check(digest, alone).agrees(), agrees);
        }
    }

    #[test]
    fn the_last_cycle_of_requests_is_seen() {
        let check = OutputCheck { cycle: 16, ..OutputCheck::default() };
        for (requests, chance) in [(0, 0.0), (8, 1.0), (16, 1.0), (64, 0.25)] {
            assert_eq!(check.chance_of_one_request(requests), chance);
        }
    }
}
