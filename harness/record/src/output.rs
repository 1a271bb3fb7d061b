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
    /// Parts of the output that were read beside the requests, inside the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reads: u64,
    /// Their bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_bytes: u64,
    /// The requests, by number from 0, after which such a part differed from what it was after the
    /// cell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_after: Vec<u64>,
    /// Why the workload has no output that is a fixed function of its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub none: Option<String>,
    /// Why the output could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

impl OutputCheck {
    /// Whether output and reference agree; `None` where one of them is missing.
    pub fn agrees(&self) -> Option<bool> {
        Some(self.digest.as_ref()? == self.alone.as_ref()?)
    }

    /// The probability that the check finds a wrong bit that one of `requests` requests writes,
    /// each of them and each bit of the output equally likely. The digest after the cell finds
    /// what no later request overwrote, which a cycle of requests does; a read inside the window
    /// finds what lies in its part at that time.
    pub fn chance_of_one_request(&self, requests: u64) -> f64 {
        let (all, cycle) = (requests as f64, self.cycle as f64);
        if requests <= self.cycle {
            return if requests == 0 { 0.0 } else { 1.0 };
        }
        // Reads lie between the first cycle and the end. Of the requests before the last cycle,
        // each meets this many on average whose results are still there.
        let overwritten = all - cycle;
        let met = if all >= 2.0 * cycle {
            cycle * (all - 1.5 * cycle) / overwritten
        } else {
            overwritten / 2.0
        };
        let read = self.read_bytes as f64 / self.bytes.max(1) as f64;
        let stays = cycle / all;
        stays + (1.0 - stays) * (read * met / overwritten).min(1.0)
    }

    /// Bytes that were read inside the window, over those that `requests` requests wrote.
    pub fn read_share(&self, requests: u64) -> Option<f64> {
        let written = self.bytes as f64 * requests as f64 / self.cycle.max(1) as f64;
        (written > 0.0).then(|| self.read_bytes as f64 / written)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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
        let check = OutputCheck { cycle: 16, bytes: 4096, ..OutputCheck::default() };
        for (requests, chance) in [(0, 0.0), (8, 1.0), (16, 1.0), (64, 0.25)] {
            assert_eq!(check.chance_of_one_request(requests), chance);
        }
        // Eight reads of 64 bytes are an eighth of the output. Of the 48 requests whose results go,
        // a read meets 13 on average: 16, and fewer in the last cycle.
        let read = OutputCheck { reads: 8, read_bytes: 512, ..check };
        assert_eq!(read.chance_of_one_request(64), 0.25 + 0.75 / 8.0 * (16.0 * 40.0 / 48.0 / 48.0));
        assert_eq!(read.read_share(64), Some(512.0 / (4.0 * 4096.0)));
    }
}
