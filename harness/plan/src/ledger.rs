//! The claims ledger, from the data file in the binary: claims with their tests, the words of
//! published overviews, phrases that mislead, and recipes that do not work.

use gpubench_record::{Axis, Claim, ClaimedWord};
use serde::{Deserialize, Serialize};

use crate::PlanError;

const TEXT: &str = gpubench_profiles::CLAIMS;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// The claims, in report order.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
    /// Phrases that mislead.
    pub misleading: Vec<Misleading>,
    /// Recipes that do not work.
    #[serde(rename = "recipe")]
    pub recipes: Vec<Recipe>,
    /// Words of overviews.
    claimed: Vec<Entry>,
}

/// A phrase that sells a mechanism and misleads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misleading {
    pub mechanism: String,
    pub phrase: String,
    /// What is true.
    pub truth: String,
    /// Ids of the claims that test it.
    pub claims: Vec<String>,
}

/// A recipe in circulation that does not work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// The mechanism; `all` for the tools around all of them.
    pub mechanism: String,
    pub recipe: String,
    /// What is wrong with it.
    pub wrong: String,
    /// The form that works.
    pub working: String,
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

/// The ledger of this version.
///
/// # Errors
/// When the built-in file cannot be read, which is a defect of the build.
pub fn ledger() -> Result<Ledger, PlanError> {
    toml::from_str(TEXT)
        .map_err(|error| PlanError::Ledger { what: error.message().replace('\n', " ") })
}

impl Ledger {
    /// The words about these mechanisms, in the order of the file.
    pub(super) fn words(&self, mechanisms: &[&str]) -> Vec<ClaimedWord> {
        let mut words = Vec::new();
        for entry in &self.claimed {
            let of_run = entry.mechanisms.iter();
            for mechanism in of_run.filter(|one| mechanisms.contains(&one.as_str())) {
                words.extend(entry.words(mechanism));
            }
        }
        words
    }
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
    use std::collections::BTreeSet;

    use gpubench_catalogue::mechanism;
    use gpubench_record::Comparison;

    use super::*;

    #[test]
    fn every_claim_has_either_a_whole_test_or_the_reason_why_not() -> Result<(), PlanError> {
        let ledger = ledger()?;
        let ids: BTreeSet<&str> = ledger.claims.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids.len(), ledger.claims.len(), "ids are unique");
        assert!(ids.len() > 40);
        for claim in &ledger.claims {
            let id = &claim.id;
            assert_ne!(claim.quantity.is_some(), claim.needs.is_some(), "{id}");
            let test = [claim.comparison.is_some(), claim.threshold.is_some()];
            assert_eq!(test, [claim.quantity.is_some(); 2], "{id}");
            let band = claim.comparison == Some(Comparison::Within);
            assert_eq!(claim.tolerance.is_some(), band, "{id}");
            let against = claim.select.against.iter();
            for name in claim.mechanisms.iter().chain(against) {
                assert!(mechanism::names().contains(&name.as_str()), "{id}: {name}");
            }
        }
        for phrase in &ledger.misleading {
            let known = phrase.claims.iter().all(|id| ids.contains(id.as_str()));
            assert!(known && !phrase.claims.is_empty(), "{}", phrase.phrase);
        }
        assert!(!ledger.recipes.is_empty());
        Ok(())
    }

    /// The record's types accept unknown keys, for newer files; the ledger has none.
    #[test]
    fn every_key_of_a_claim_is_read() -> Result<(), Box<dyn std::error::Error>> {
        let written: toml::Table = TEXT.parse()?;
        let written = written["claim"].as_array().ok_or("claims")?;
        let read = ledger()?.claims;
        for (written, claim) in written.iter().zip(read) {
            let read = toml::Value::try_from(&claim)?;
            assert_eq!(*written, read, "{}", claim.id);
        }
        Ok(())
    }

    #[test]
    fn a_wrong_key_is_refused() {
        let text = TEXT.replacen("jitter = \"", "jtter = \"", 1);
        assert!(text != TEXT && toml::from_str::<Ledger>(&text).is_err());
    }
}
