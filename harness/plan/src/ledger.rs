//! The claims ledger, from the data file in the binary: claims with their sources and tests, the
//! words of publications, phrases that mislead, and recipes that do not work.

use gpubench_record::{Axis, Claim, ClaimedWord};
use serde::{Deserialize, Serialize};

use crate::PlanError;

const TEXT: &str = gpubench_profiles::CLAIMS;

/// The source of a claim that has none.
pub const NO_SOURCE: &str = "folk claim, no source found";

#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// The claims, in report order.
    pub claims: Vec<Claim>,
    /// What they cite.
    pub sources: Vec<Source>,
    /// Words of publications.
    pub words: Vec<Word>,
    /// Phrases that mislead.
    pub misleading: Vec<Misleading>,
    /// Recipes that do not work.
    pub recipes: Vec<Recipe>,
}

/// The data file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    source: Vec<Source>,
    claim: Vec<toml::Table>,
    claimed: Vec<Word>,
    misleading: Vec<Misleading>,
    recipe: Vec<Recipe>,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub id: String,
    pub title: String,
    /// Author or vendor.
    pub by: String,
    /// Of publication, or of the version that was read.
    pub date: String,
    pub url: String,
}

/// What publications say of some mechanisms on one axis, as one word of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    pub sources: Vec<String>,
    pub mechanisms: Vec<String>,
    pub axis: Axis,
    pub word: String,
    /// The sub-axes, or classes of faults, that it speaks of; without them the whole axis, beside
    /// any neighbour.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_axes: Vec<String>,
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

/// The ledger of this version.
/// Fails when the built-in file cannot be read, which is a defect of the build.
pub fn ledger() -> Result<Ledger, PlanError> {
    read(TEXT).map_err(|what| PlanError::Ledger { what })
}

fn read(text: &str) -> Result<Ledger, String> {
    let written: Written = toml::from_str(text).map_err(|error| on_one_line(&error))?;
    let sources = written.source;
    for (at, source) in sources.iter().enumerate() {
        let id = &source.id;
        if sources[..at].iter().any(|other| other.id == *id) {
            return Err(format!("source {id}: two sources have this id; give each its own"));
        }
        if !source.url.starts_with("https://") {
            return Err(format!("source {id}: its url begins with https://, not {}", source.url));
        }
    }
    for word in &written.claimed {
        let place = format!("{} of {}", word.axis.as_str(), word.mechanisms.join(", "));
        cited(&word.sources, &sources).map_err(|what| format!("claimed {place}: {what}"))?;
    }
    let claims = written.claim.into_iter().map(|one| claim(one, &sources));
    let claims = claims.collect::<Result<_, _>>()?;
    let (words, misleading, recipes) = (written.claimed, written.misleading, written.recipe);
    Ok(Ledger { claims, sources, words, misleading, recipes })
}

/// One claim, with the text of its sources in place of their ids.
fn claim(mut written: toml::Table, sources: &[Source]) -> Result<Claim, String> {
    let id = written.get("id").and_then(toml::Value::as_str).unwrap_or("without an id");
    let place = format!("claim {id}");
    let ids = written.remove("sources").ok_or_else(|| {
        format!("{place}: no `sources`; give ids of [[source]], or [] where none was found")
    })?;
    let ids: Vec<String> =
        ids.try_into().map_err(|error| format!("{place}: sources: {}", on_one_line(&error)))?;
    let source = cited(&ids, sources).map_err(|what| format!("{place}: {what}"))?;
    written.insert("source".to_owned(), source.into());
    let read = toml::Value::Table(written.clone()).try_into::<Claim>();
    let claim = read.map_err(|error| format!("{place}: {}", on_one_line(&error)))?;
    // The types of a record accept keys of newer and of older ledgers; this file has neither.
    let kept = toml::Table::try_from(&claim).map_err(|error| on_one_line(&error))?;
    match foreign(&written, &kept) {
        None => Ok(claim),
        Some(key) if key == "any" => Err(format!("{place}: `any` is now `scope = \"any\"`")),
        Some(key) => Err(format!("{place}: unknown key `{key}`, or a default that is left out")),
    }
}

/// The first key of a table that another one lacks.
fn foreign(written: &toml::Table, kept: &toml::Table) -> Option<String> {
    written.iter().find_map(|(key, value)| match (value, kept.get(key)) {
        (_, None) => Some(key.clone()),
        (toml::Value::Table(written), Some(toml::Value::Table(kept))) => {
            foreign(written, kept).map(|inner| format!("{key}.{inner}"))
        }
        _ => None,
    })
}

/// The text of these sources.
fn cited(ids: &[String], sources: &[Source]) -> Result<String, String> {
    let texts = ids.iter().map(|id| {
        let source = sources.iter().find(|one| one.id == *id);
        let Source { title, by, date, url, .. } =
            source.ok_or_else(|| format!("unknown source {id}; add a [[source]] with this id"))?;
        Ok(format!("{title}, {by}, {date}, {url}"))
    });
    let texts = texts.collect::<Result<Vec<_>, String>>()?;
    Ok(if texts.is_empty() { NO_SOURCE.to_owned() } else { texts.join("; ") })
}

fn on_one_line(error: &impl ToString) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Word {
    /// What it is about, for readers.
    fn about(&self) -> String {
        match &self.sub_axes[..] {
            [] => "any neighbour".to_owned(),
            sub_axes => sub_axes.join(", "),
        }
    }
}

impl Ledger {
    /// The words about these mechanisms, in the order of the file.
    pub fn words_of(&self, mechanisms: &[&str]) -> Vec<ClaimedWord> {
        let words = self.words.iter().flat_map(|word| {
            let of_run = word.mechanisms.iter();
            let of_run = of_run.filter(|one| mechanisms.contains(&one.as_str()));
            of_run.map(|mechanism| ClaimedWord {
                source: format!("{} ({})", word.sources.join(", "), word.about()),
                cited: cited(&word.sources, &self.sources).ok(),
                mechanism: mechanism.clone(),
                axis: word.axis,
                sub_axes: word.sub_axes.clone(),
                word: word.word.clone(),
            })
        });
        words.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpubench_catalogue::{fault, mechanism};
    use gpubench_record::claim::Scope;
    use gpubench_record::{Comparison, Quantity, SubAxis};

    use super::*;

    #[test]
    fn every_claim_has_either_a_whole_test_or_the_reason_why_not() -> Result<(), PlanError> {
        let ledger = ledger()?;
        let ids: BTreeSet<&str> = ledger.claims.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids.len(), ledger.claims.len(), "ids are unique");
        assert!(ids.len() > 40);
        for claim in &ledger.claims {
            let id = &claim.id;
            let is_tested = claim.quantity.is_some();
            let has_reason = claim.lacks.is_some() && claim.needs().next().is_some();
            assert_eq!([claim.lacks.is_some(), has_reason], [!is_tested; 2], "{id}");
            let test = [claim.comparison.is_some(), claim.threshold.is_some()];
            assert_eq!(test, [is_tested; 2], "{id}");
            assert_eq!(claim.tolerance_of.is_some(), is_tested, "{id}: whose is the threshold?");
            let band = claim.comparison == Some(Comparison::Within);
            assert_eq!(claim.tolerance.is_some(), band, "{id}");
            let worse = claim.quantity.and_then(Quantity::worse);
            assert!(claim.scope != Scope::Worst || worse.is_some(), "{id}: worse in which way?");
            let is_folk = claim.source == NO_SOURCE;
            assert_eq!(claim.published_for.is_none(), is_folk, "{id}: what does its source mean?");
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

    #[test]
    fn contradictions_are_mutual_and_between_claims_of_the_ledger() -> Result<(), PlanError> {
        let claims = ledger()?.claims;
        let find = |id: &String| claims.iter().find(|one| one.id == *id);
        for claim in &claims {
            let id = &claim.id;
            for other in &claim.contradicts {
                let other = find(other).unwrap_or_else(|| panic!("{id}: no claim {other}"));
                assert!(other.contradicts.contains(id) && other.id != *id, "{id}: {}", other.id);
            }
            for other in &claim.implies {
                assert!(find(other).is_some_and(|other| other.id != *id), "{id}: {other}");
            }
        }
        Ok(())
    }

    #[test]
    fn every_source_is_cited_and_every_word_has_one() -> Result<(), PlanError> {
        let ledger = ledger()?;
        for source in &ledger.sources {
            let of_claim = ledger.claims.iter().any(|one| one.source.contains(&source.url));
            let of_word = ledger.words.iter().any(|one| one.sources.contains(&source.id));
            assert!(of_claim || of_word, "{}", source.id);
        }
        for word in &ledger.words {
            assert!(!word.sources.is_empty(), "{word:?}");
            let of_axis = |name: &String| match word.axis {
                Axis::Fault => fault::CATALOGUE.iter().any(|one| one.class.as_str() == name),
                axis => {
                    let read = serde_json::from_value::<SubAxis>(name.clone().into());
                    read.is_ok_and(|one| one.axis() == axis)
                }
            };
            assert!(word.sub_axes.iter().all(of_axis), "{word:?}");
            let known = |name: &String| mechanism::names().contains(&name.as_str());
            assert!(word.mechanisms.iter().all(known), "{word:?}");
        }
        Ok(())
    }

    #[test]
    fn a_mistake_is_refused_in_one_line_that_names_the_place() {
        let claim = "id = \"TS-1a\"";
        let any = format!("{claim}\nany = true");
        let unknown = format!("{claim}\nsuorce = \"x\"");
        for (old, new, place, what) in [
            ("sources = [\"mps-architecture\"]", "sources = [\"x\"]", "claim TS-1a", "source x"),
            ("sources = [\"mps-architecture\"]", "", "claim TS-1a", "no `sources`"),
            (claim, &any, "claim TS-1a", "now `scope = \"any\"`"),
            (claim, &unknown, "claim TS-1a", "`suorce`"),
            ("victim = \"equal\"", "victim = \"odd\"", "claim TS-3", "`odd`"),
            ("sub_axes = [\"sm\"]", "sub_axis = \"sm\"", "claim TS-1b", "select.sub_axis"),
            ("\"mps-architecture\"\n", "\"mps-introduction\"\n", "source mps-introduction", "two"),
            ("url = \"https:", "url = \"http:", "source mps-when-to-use", "https://"),
            (
                "[[claimed]]\nsources = [",
                "[[claimed]]\nsources = [\"x\", ",
                "memory of",
                "source x",
            ),
            ("word = \"", "wrd = \"", "line", "wrd"),
        ] {
            let text = TEXT.replacen(old, new, 1);
            let error = read(&text).expect_err(new);
            assert!(text != TEXT && !error.contains('\n'), "{new}: {error}");
            assert!(error.contains(place) && error.contains(what), "{new}: {error}");
        }
    }
}
