//! What may differ between two sides, and what a difference means.
//!
//! A fact that must be equal has one value in all sessions. A profile may have several: the same on
//! both sides, or one for each seed, which the hash of older records covers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::Session;

/// What a difference of a fact means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The sides cannot be compared, unless the fact is varied.
    Refuse,
    /// They can; a change cannot be attributed to what was varied alone.
    Warn,
    /// Listed only.
    Note,
}

/// A fact by name, with the meaning of a difference.
pub struct Fact {
    /// Name, for `--vary`.
    pub name: &'static str,
    pub class: Class,
    /// A fact that changes with this one: it is varied with it.
    pub with: Option<&'static str>,
}

const fn fact(name: &'static str, class: Class) -> Fact {
    Fact { name, class, with: None }
}

/// Every fact, in the order of reports.
pub const FACTS: &[Fact] = &[
    fact(KIND, Class::Refuse),
    fact("clock", Class::Refuse),
    fact("scoring", Class::Refuse),
    fact(PROFILE, Class::Refuse),
    // Another service time has another calibration, so it stands before it.
    fact("rotation", Class::Refuse),
    fact("calibration", Class::Refuse),
    fact("pairs", Class::Refuse),
    fact("tenants", Class::Refuse),
    fact("product", Class::Refuse),
    fact("pci-id", Class::Refuse),
    // A driver keeps another part of the memory for itself.
    Fact { with: Some("driver"), ..fact("memory", Class::Refuse) },
    fact("ecc", Class::Refuse),
    fact("mig-mode", Class::Refuse),
    fact("driver", Class::Refuse),
    Fact { with: Some("driver"), ..fact("cuda", Class::Refuse) },
    fact("uuid", Class::Warn),
    fact("vbios", Class::Warn),
    fact("power-limit", Class::Warn),
    fact("max-clocks", Class::Warn),
    fact("pcie", Class::Warn),
    fact("compute-mode", Class::Warn),
    fact("virtualization", Class::Warn),
    fact("cpu", Class::Warn),
    fact("cores", Class::Warn),
    fact("kernel", Class::Warn),
    fact("governor", Class::Warn),
    fact("cpu-quota", Class::Warn),
    fact("other-gpus", Class::Warn),
    fact("gpubench", Class::Warn),
    fact("hostname", Class::Note),
    fact("machine", Class::Note),
    fact("margins", Class::Note),
    fact(SEED, Class::Note),
];

/// The fact that no option makes comparable.
const KIND: &str = "device";

/// The fact whose sides may each have the same several values.
const PROFILE: &str = "profile";

/// The fact that the profile's hash of older records covers.
const SEED: &str = "seed";

/// Facts with this prefix hold one key of the profile, as far as plans keep them. They are compared
/// where the profile's hash differs, and say in what.
pub const KEY: &str = "profile ";

/// Facts with this prefix hold the layout of one variant; sides are compared where both have it.
pub const LAYOUT: &str = "layout ";

/// Facts with this prefix hold the variables and libraries of the tenants of one variant, in the
/// same way.
pub const PROCESS: &str = "tenants of ";

/// Sides of other GPUs of one product are compared from this many GPUs a side on.
const GPUS_MIN: usize = 3;

/// Levels that are compared by their medians: name, largest difference, and whether it is relative.
const LEVELS: &[(&str, f64, bool)] = &[("sm_clock_mhz", 0.01, true), ("temperature_c", 5.0, false)];

/// What becomes of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// It was varied on purpose.
    Varied,
    /// It makes the sides incomparable.
    Refused,
    /// It would, and the user compares them anyway.
    Forced,
    /// A change cannot be distinguished from an effect of this difference.
    Confounds,
    /// It does not matter.
    Noted,
}

/// A fact that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Name of the fact.
    pub fact: String,
    /// Values of the side before.
    pub before: Vec<String>,
    /// Values of the side after.
    pub after: Vec<String>,
    /// What becomes of it.
    pub treatment: Treatment,
    /// The keys of the profile that differ, where the fact is the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyDifference>,
}

/// A key of the profile that differs between the sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyDifference {
    /// Its name: `cell.closed`.
    pub key: String,
    /// Values of the side before; `none` where it is not set.
    pub before: Vec<String>,
    /// Values of the side after.
    pub after: Vec<String>,
}

/// Each key of a table as a fact; a key that is not set has none. Keys that end in `_ns` are
/// durations.
pub fn keys_of(table: &Value) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    add_keys(KEY, table, &mut facts);
    facts
}

fn add_keys(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = match value {
        Value::Null => return,
        Value::Object(table) => {
            let dot = if name == KEY { "" } else { "." };
            table
                .iter()
                .for_each(|(key, value)| add_keys(&format!("{name}{dot}{key}"), value, facts));
            return;
        }
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(", "),
        one => word(one),
    };
    facts.push(match (name.strip_suffix("_ns"), value.as_f64()) {
        (Some(name), Some(ns)) => (name.to_owned(), format!("{} ms", ns / 1e6)),
        _ => (name.to_owned(), text),
    });
}

/// Whether a name can be varied.
pub fn is_known(name: &str) -> bool {
    name != KIND && FACTS.iter().any(|fact| fact.name == name)
}

/// The names that can be varied.
pub fn known() -> impl Iterator<Item = &'static str> {
    FACTS.iter().map(|fact| fact.name).filter(|name| is_known(name))
}

pub fn differences(
    before: &[Session],
    after: &[Session],
    vary: &[String],
    force: bool,
) -> Vec<Difference> {
    let mut found = Vec::new();
    let is_varied = |name: &str| vary.iter().any(|one| one == name);
    for fact in FACTS {
        let sides = [before, after].map(|side| values(side, fact.name));
        let varied = is_varied(fact.name) || fact.with.is_some_and(is_varied);
        let by_seed = || fact.name == PROFILE && is_by_seed(before.iter().chain(after));
        if !differ(fact, varied, &sides) || by_seed() {
            continue;
        }
        let treatment = match fact.class {
            _ if varied && sides.iter().all(|side| side.len() <= 1) => Treatment::Varied,
            _ if varied => Treatment::Confounds,
            Class::Refuse if sides.iter().any(BTreeSet::is_empty) => Treatment::Confounds,
            Class::Refuse if force && fact.name != KIND => Treatment::Forced,
            Class::Refuse => Treatment::Refused,
            Class::Warn if fact.name == "uuid" && sides.iter().all(|s| s.len() >= GPUS_MIN) => {
                Treatment::Noted
            }
            Class::Warn => Treatment::Confounds,
            Class::Note => Treatment::Noted,
        };
        let keys = if fact.name == PROFILE { differing_keys(before, after) } else { Vec::new() };
        found.push(Difference { keys, ..difference(fact.name, sides, treatment) });
    }
    let refused = if force { Treatment::Forced } else { Treatment::Refused };
    for (prefix, treatment) in [(LAYOUT, refused), (PROCESS, Treatment::Confounds)] {
        for name in named(before, prefix).intersection(&named(after, prefix)) {
            let sides = [before, after].map(|side| values(side, name));
            if sides[0] != sides[1] {
                found.push(difference(name, sides, treatment));
            }
        }
    }
    found.extend(LEVELS.iter().filter_map(|level| moved(before, after, *level)));
    found
}

/// Whether the sessions differ in a way that matters.
fn differ(fact: &Fact, varied: bool, sides: &[BTreeSet<&str>; 2]) -> bool {
    let by_side = varied || fact.class != Class::Refuse || fact.name == PROFILE;
    let is_unknown = sides.iter().any(BTreeSet::is_empty);
    if by_side || is_unknown { sides[0] != sides[1] } else { sides[0].union(&sides[1]).count() > 1 }
}

fn difference(name: &str, sides: [BTreeSet<&str>; 2], treatment: Treatment) -> Difference {
    let [before, after] = sides.map(|side| side.into_iter().map(str::to_owned).collect());
    Difference { fact: name.to_owned(), before, after, treatment, keys: Vec::new() }
}

/// Whether profiles differ by the seed alone: each hash has one seed, each seed one hash, and all
/// sessions have the same keys.
fn is_by_seed<'a>(sessions: impl Iterator<Item = &'a Session> + Clone) -> bool {
    let of = |name: &str| sessions.clone().map(|one| one.facts.get(name)).collect::<BTreeSet<_>>();
    let pairs: BTreeSet<_> =
        sessions.clone().map(|one| [PROFILE, SEED].map(|name| one.facts.get(name))).collect();
    let keys: BTreeSet<Vec<_>> = sessions
        .clone()
        .map(|one| one.facts.iter().filter(|(name, _)| name.starts_with(KEY)).collect())
        .collect();
    let is_one_to_one = [PROFILE, SEED].iter().all(|name| of(name).len() == pairs.len());
    is_one_to_one && keys.len() == 1 && keys.iter().all(|keys| !keys.is_empty())
}

fn differing_keys(before: &[Session], after: &[Session]) -> Vec<KeyDifference> {
    let names = named(before, KEY);
    let names = names.union(&named(after, KEY)).copied().collect::<Vec<_>>();
    let of_key = |name: &str| {
        let sides = [before, after].map(|side| values(side, name));
        let [before, after] =
            sides.map(|side| if side.is_empty() { BTreeSet::from(["none"]) } else { side });
        (before != after).then(|| {
            let [before, after] =
                [before, after].map(|side| side.into_iter().map(str::to_owned).collect());
            KeyDifference { key: name[KEY.len()..].to_owned(), before, after }
        })
    };
    names.into_iter().filter_map(of_key).collect()
}

/// The facts of the sessions, once of those that follow each other and share them.
fn facts(side: &[Session]) -> impl Iterator<Item = &BTreeMap<String, String>> {
    side.chunk_by(|one, next| Arc::ptr_eq(&one.facts, &next.facts)).map(|same| &*same[0].facts)
}

fn values<'a>(side: &'a [Session], name: &str) -> BTreeSet<&'a str> {
    facts(side).filter_map(|facts| facts.get(name)).map(String::as_str).collect()
}

fn named<'a>(side: &'a [Session], prefix: &str) -> BTreeSet<&'a str> {
    let names = facts(side).flat_map(BTreeMap::keys);
    names.map(String::as_str).filter(|name| name.starts_with(prefix)).collect()
}

/// A level whose means over sessions differ too much.
fn moved(
    before: &[Session],
    after: &[Session],
    (name, largest, is_relative): (&str, f64, bool),
) -> Option<Difference> {
    let [one, two] = [before, after].map(|side| mean_level(side, name));
    let (one, two) = (one?, two?);
    let scale = if is_relative { one.min(two) } else { 1.0 };
    let far = (two - one).abs() > largest * scale;
    far.then(|| Difference {
        fact: name.to_owned(),
        before: vec![format!("{one:.0}")],
        after: vec![format!("{two:.0}")],
        treatment: Treatment::Confounds,
        keys: Vec::new(),
    })
}

/// The mean over sessions of a level; `None` where a session does not have it.
pub(super) fn mean_level(side: &[Session], name: &str) -> Option<f64> {
    let levels: Option<Vec<f64>> =
        side.iter().map(|session| session.levels.get(name).copied()).collect();
    gpubench_stats::summary::mean(&levels?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpubench_record::DeviceKind;

    use super::*;

    fn side(facts: &[&[(&str, &str)]]) -> Vec<Session> {
        let session = |facts: &&[(&str, &str)]| Session {
            kind: DeviceKind::Real,
            facts: Arc::new(
                facts
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
            ),
            levels: BTreeMap::from([("sm_clock_mhz".to_owned(), 1980.0)]),
            ..Session::empty("")
        };
        facts.iter().map(session).collect()
    }

    fn treatments(one: &[Session], two: &[Session], vary: &[&str]) -> Vec<(String, Treatment)> {
        let vary: Vec<String> = vary.iter().map(|name| (*name).to_owned()).collect();
        let found = differences(one, two, &vary, false);
        found.into_iter().map(|one| (one.fact, one.treatment)).collect()
    }

    #[test]
    fn each_class_of_fact_has_its_treatment() {
        use Treatment::{Confounds, Noted, Refused, Varied};
        let base: &[(&str, &str)] = &[("driver", "1"), ("cuda", "12"), ("uuid", "a")];
        for (other, vary, expected) in [
            (&[("driver", "2")][..], &[][..], &[("driver", Refused)][..]),
            (
                &[("driver", "2"), ("cuda", "13")],
                &["driver"],
                &[("driver", Varied), ("cuda", Varied)],
            ),
            (
                &[("driver", "2"), ("memory", "81554 MiB")],
                &["driver"],
                &[("memory", Varied), ("driver", Varied)],
            ),
            (&[("cuda", "13")], &["kernel"], &[("cuda", Refused)]),
            (&[("uuid", "b")], &[], &[("uuid", Confounds)]),
            (&[("hostname", "h")], &[], &[("hostname", Noted)]),
            (&[("seed", "2")], &[], &[("seed", Noted)]),
            (&[("pci-id", "p")], &[], &[("pci-id", Confounds)]),
        ] {
            let mut facts: BTreeMap<&str, &str> = base.iter().copied().collect();
            facts.extend(other.iter().copied());
            let facts: Vec<_> = facts.into_iter().collect();
            let found = treatments(&side(&[base]), &side(&[&facts]), vary);
            let expected: Vec<_> =
                expected.iter().map(|(name, treatment)| ((*name).to_owned(), *treatment)).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn seeds_may_differ_within_a_side_and_calibrations_may_not() {
        let seeds = side(&[&[("profile", "s1")], &[("profile", "s2")]]);
        assert!(treatments(&seeds, &seeds, &[]).is_empty());
        let calibrations = side(&[&[("calibration", "c1")], &[("calibration", "c2")]]);
        let found = treatments(&calibrations, &calibrations, &[]);
        assert_eq!(found, [("calibration".to_owned(), Treatment::Refused)]);
        let drivers = side(&[&[("driver", "1")], &[("driver", "2")]]);
        let found = treatments(&drivers, &side(&[&[("driver", "3")]]), &["driver"]);
        assert_eq!(found, [("driver".to_owned(), Treatment::Confounds)]);
    }

    #[test]
    fn profiles_that_differ_name_their_keys() {
        let table = serde_json::json!({
            "service_ns": 500_000, "slo_ns": null, "axes": ["compute", "jitter"],
            "soak": { "check_ns": 100_000_000, "on": true }, "share": 0.5
        });
        let found = keys_of(&table);
        let expected = [
            ("profile axes", "compute, jitter"),
            ("profile service", "0.5 ms"),
            ("profile share", "0.5"),
            ("profile soak.check", "100 ms"),
            ("profile soak.on", "true"),
        ];
        let mut found: Vec<_> = found.iter().map(|(name, text)| (&**name, &**text)).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
        let one = side(&[&[("profile", "a"), ("profile window", "500 ms"), ("profile load", "1")]]);
        let two = side(&[&[("profile", "b"), ("profile window", "400 ms"), ("profile load", "1")]]);
        let three = side(&[&[("profile", "c"), ("profile sweep", "2"), ("profile load", "1")]]);
        let keys = |one: &[Session], two: &[Session]| {
            let found = differences(one, two, &[], false);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].treatment, Treatment::Refused);
            let keys = found[0].keys.iter();
            keys.map(|key| format!("{} {} -> {}", key.key, key.before[0], key.after[0])).collect()
        };
        let found: Vec<String> = keys(&one, &two);
        assert_eq!(found, ["window 500 ms -> 400 ms"]);
        let found: Vec<String> = keys(&one, &three);
        assert_eq!(found, ["sweep none -> 2", "window 500 ms -> none"]);
    }

    /// The hash of older records covers the seed.
    #[test]
    fn profiles_that_differ_by_the_seed_alone_are_comparable() {
        let of = |profile: &str, seed: &str, load: &str| {
            side(&[&[("profile", profile), ("seed", seed), ("profile load", load)]])
        };
        let seed = ("seed".to_owned(), Treatment::Noted);
        let profile = ("profile".to_owned(), Treatment::Refused);
        assert_eq!(
            treatments(&of("a", "1", "2"), &of("b", "2", "2"), &[]),
            std::slice::from_ref(&seed)
        );
        // Another key, two profiles of one seed, and two seeds of one profile: the hash differs
        // by more than the seed.
        let found = treatments(&of("a", "1", "2"), &of("b", "2", "3"), &[]);
        assert_eq!(found, [profile.clone(), seed.clone()]);
        assert_eq!(
            treatments(&of("a", "1", "2"), &of("b", "1", "2"), &[]),
            std::slice::from_ref(&profile)
        );
        let [two, other] = [["a", "b"], ["a", "c"]]
            .map(|[one, two]| [of(one, "1", "2"), of(two, "2", "2")].concat());
        assert_eq!(treatments(&two, &two, &[]), []);
        assert_eq!(treatments(&two, &other, &[]), std::slice::from_ref(&profile));
        // A record without keys says nothing.
        let bare = |profile, seed| side(&[&[("profile", profile), ("seed", seed)]]);
        assert_eq!(treatments(&bare("a", "1"), &bare("b", "2"), &[]), [profile, seed]);
    }

    #[test]
    fn layouts_of_shared_variants_and_moved_clocks_count() {
        let layout = |value| side(&[&[("layout mig", value)]]);
        let found = treatments(&layout("3g"), &layout("4g"), &[]);
        assert_eq!(found, [("layout mig".to_owned(), Treatment::Refused)]);
        assert!(treatments(&layout("3g"), &side(&[&[]]), &[]).is_empty());
        let mut slower = side(&[&[]]);
        slower[0].levels.insert("sm_clock_mhz".to_owned(), 1900.0);
        let found = treatments(&side(&[&[]]), &slower, &[]);
        assert_eq!(found, [("sm_clock_mhz".to_owned(), Treatment::Confounds)]);
    }

    #[test]
    fn the_kind_of_device_cannot_be_varied() {
        assert!(!is_known("device"));
        assert!(is_known("driver"));
        assert!(known().all(is_known));
    }
}
