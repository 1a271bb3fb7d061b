//! The claims of published overviews, from the data file in the binary.

use gpubench_record::{Axis, ClaimedWord};
use serde::Deserialize;

use super::PlanError;

const TEXT: &str = include_str!("../../../profiles/claimed.toml");

/// The words of the published overviews.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claimed {
    claimed: Vec<Entry>,
}

/// The words of one source for some mechanisms.
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

/// The words about these mechanisms, in the order of the file.
///
/// # Errors
/// When the built-in file cannot be read, which is a defect of the build.
pub(super) fn claimed(mechanisms: &[&str]) -> Result<Vec<ClaimedWord>, PlanError> {
    let file: Claimed = toml::from_str(TEXT).map_err(|error| PlanError::Claimed {
        what: error.message().replace('\n', " "),
    })?;
    let mut words = Vec::new();
    for entry in &file.claimed {
        let of_run = entry.mechanisms.iter();
        for mechanism in of_run.filter(|one| mechanisms.contains(&one.as_str())) {
            words.extend(entry.words(mechanism));
        }
    }
    Ok(words)
}

impl Entry {
    fn words(&self, mechanism: &str) -> impl Iterator<Item = ClaimedWord> {
        let all = [
            (Axis::Memory, &self.memory),
            (Axis::Compute, &self.compute),
            (Axis::Bandwidth, &self.bandwidth),
            (Axis::Fault, &self.fault),
            (Axis::Jitter, &self.jitter),
        ];
        all.into_iter().filter_map(move |(axis, word)| {
            Some(ClaimedWord {
                source: self.source.clone(),
                mechanism: mechanism.to_owned(),
                axis,
                word: word.clone()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_mechanism_and_the_axis() -> Result<(), PlanError> {
        // Two sources that differ, one that rates the axis, none that does, and no source at all.
        let table: &[(&str, Axis, &[&str])] = &[
            ("mps", Axis::Compute, &["S0: None", "S1: Partial"]),
            ("mps-quota", Axis::Jitter, &["S0: Low-Medium"]),
            ("mig", Axis::Bandwidth, &["S1: Hardware"]),
            ("mig", Axis::Power, &[]),
            ("exclusive", Axis::Compute, &[]),
        ];
        for (mechanism, axis, want) in table {
            let words = claimed(&[mechanism])?;
            assert!(words.iter().all(|one| one.mechanism == *mechanism));
            let of_axis = words.iter().filter(|one| one.axis == *axis);
            let texts: Vec<String> = of_axis
                .map(|one| format!("{}: {}", one.source, one.word))
                .collect();
            assert_eq!(texts, *want, "{mechanism} {axis:?}");
        }
        Ok(())
    }

    #[test]
    fn a_wrong_key_is_refused() {
        let text = TEXT.replacen("jitter", "jtter", 1);
        assert!(toml::from_str::<Claimed>(&text).is_err());
    }
}
