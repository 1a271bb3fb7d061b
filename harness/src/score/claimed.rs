//! What published overviews claim, read from the data file that comes with the binary.

use gpubench_record::Axis;
use serde::Deserialize;

use super::ScoreError;

const TEXT: &str = include_str!("../../../profiles/claimed.toml");

/// The words of the published overviews.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claimed {
    claimed: Vec<Entry>,
}

/// What one source says of one mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    source: String,
    mechanisms: Vec<String>,
    memory: Option<String>,
    compute: Option<String>,
    bandwidth: Option<String>,
    fault: Option<String>,
    jitter: Option<String>,
}

impl Claimed {
    /// The words that come with the binary.
    pub(super) fn built_in() -> Result<Self, ScoreError> {
        toml::from_str(TEXT).map_err(|error| ScoreError::Claimed {
            what: one_line(&error),
        })
    }

    /// `source: word`, one for each source that speaks of this mechanism and axis.
    pub(super) fn of(&self, mechanism: &str, axis: Axis) -> Vec<String> {
        let speaking = self
            .claimed
            .iter()
            .filter(|e| e.mechanisms.iter().any(|m| m == mechanism));
        let words = speaking.filter_map(|entry| Some((&entry.source, entry.word(axis)?)));
        words
            .map(|(source, word)| format!("{source}: {word}"))
            .collect()
    }
}

impl Entry {
    fn word(&self, axis: Axis) -> Option<&str> {
        let word = match axis {
            Axis::Memory => &self.memory,
            Axis::Compute => &self.compute,
            Axis::Bandwidth => &self.bandwidth,
            Axis::Fault => &self.fault,
            Axis::Jitter => &self.jitter,
            Axis::Power => &None,
        };
        word.as_deref()
    }
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_tables_are_there() {
        let claimed = Claimed::built_in().expect("the built-in file is well formed");
        let table: &[(&str, Axis, &[&str])] = &[
            ("time-slicing", Axis::Compute, &["S0: None", "S1: None"]),
            ("time-slicing", Axis::Bandwidth, &["S1: None"]),
            ("time-slicing", Axis::Fault, &["S0: Partial", "S1: None"]),
            ("time-slicing", Axis::Jitter, &["S0: High"]),
            ("mps", Axis::Compute, &["S0: None", "S1: Partial"]),
            ("mps", Axis::Fault, &["S0: None", "S1: Incomplete"]),
            ("mps-quota", Axis::Jitter, &["S0: Low-Medium"]),
            ("hami", Axis::Memory, &["S0: Software", "S1: Hard"]),
            ("hami", Axis::Compute, &["S0: Software", "S1: Soft"]),
            ("hami", Axis::Fault, &["S0: Partial", "S1: None"]),
            ("mig", Axis::Bandwidth, &["S1: Hardware"]),
            ("mig", Axis::Jitter, &["S0: Negligible"]),
            ("mig", Axis::Power, &[]),
            ("exclusive", Axis::Compute, &[]),
            ("mig-mps", Axis::Compute, &[]),
        ];
        for (mechanism, axis, want) in table {
            assert_eq!(claimed.of(mechanism, *axis), *want, "{mechanism} {axis:?}");
        }
    }

    #[test]
    fn a_wrong_key_is_refused() {
        let text = TEXT.replacen("jitter", "jtter", 1);
        assert!(toml::from_str::<Claimed>(&text).is_err());
    }
}
