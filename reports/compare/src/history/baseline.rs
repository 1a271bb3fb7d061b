//! The baseline of a new night: the last segment of the history that is long enough.

use std::collections::{BTreeMap, BTreeSet};

use gpubench_record::counted;
use gpubench_stats::NoEstimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff::comparability::KEY;
use crate::diff::{BASELINE_MIN, KnownFrom, Repeatability};
use crate::session::{RowKey, Session};

/// Sessions to compare with, and how they differ among themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// In the order of their start.
    pub sessions: Vec<Session>,
    /// The spread between them and the changes from one to the next, of each row.
    pub repeatability: BTreeMap<RowKey, Repeatability>,
    /// The last 30 comparable nights before it, for the rate of A/A false alarms.
    pub nights: Vec<Session>,
}

/// Nights that the rate of A/A false alarms counts.
const NIGHTS_MAX: usize = 30;

/// Why there is no baseline.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoBaseline {
    /// No segment is long enough.
    #[error(
        "no segment of the history has {BASELINE_MIN} sessions with the same {}; the longest has \
         {longest}", IDENTITY.join(", ")
    )]
    TooShort {
        /// Sessions of the longest segment.
        longest: usize,
    },
    /// A figure of a session cannot be used.
    #[error(transparent)]
    Figure(#[from] NoEstimate),
}

impl Baseline {
    /// The last segment of at least 10 sessions that are comparable with `tonight` and older. After
    /// a change the segment before it stays the baseline until the new one is long enough.
    /// Fails when there is no such segment, or a figure is not finite.
    pub fn of(
        history: &[Session],
        declared: &[Declared],
        tonight: &Session,
    ) -> Result<Self, NoBaseline> {
        let older = older(history, tonight);
        let cuts = starts(&older, declared);
        let mut ends: Vec<usize> = cuts.iter().map(|event| event.before).collect();
        ends.extend([0, older.len()]);
        ends.sort_unstable();
        ends.dedup();
        let segments: Vec<&[&Session]> = ends.windows(2).map(|w| &older[w[0]..w[1]]).collect();
        let longest = segments.iter().map(|segment| segment.len()).max();
        let segment = segments
            .into_iter()
            .rev()
            .find(|segment| segment.len() >= BASELINE_MIN)
            .ok_or(NoBaseline::TooShort { longest: longest.unwrap_or(0) })?;
        Ok(Self {
            repeatability: repeatability(segment)?,
            sessions: segment.iter().map(|session| (*session).clone()).collect(),
            nights: last(&older),
        })
    }

    /// Sessions that a person pinned, whatever changed since.
    /// Fails when a figure is not finite.
    pub fn pinned(
        sessions: Vec<Session>,
        history: &[Session],
        tonight: &Session,
    ) -> Result<Self, NoBaseline> {
        let all: Vec<&Session> = sessions.iter().collect();
        Ok(Self {
            repeatability: repeatability(&all)?,
            nights: last(&older(history, tonight)),
            sessions,
        })
    }
}

/// The sessions before `tonight` that are comparable with it, in the order of their start.
fn older<'a>(history: &'a [Session], tonight: &Session) -> Vec<&'a Session> {
    let wanted = identity(tonight);
    let mut older: Vec<&Session> = history
        .iter()
        .filter(|one| one.started_at < tonight.started_at && identity(one) == wanted)
        .collect();
    older.sort_by_key(|session| (&session.started_at, &session.name));
    older
}

fn last(nights: &[&Session]) -> Vec<Session> {
    let from = nights.len().saturating_sub(NIGHTS_MAX);
    nights[from..].iter().map(|night| (*night).clone()).collect()
}

fn repeatability(segment: &[&Session]) -> Result<BTreeMap<RowKey, Repeatability>, NoEstimate> {
    let mut means: BTreeMap<&RowKey, Vec<f64>> = BTreeMap::new();
    for session in segment {
        for (key, row) in &session.rows {
            if let Some(series) = row.series() {
                means.entry(key).or_default().push(series.mean()?);
            }
        }
    }
    let mut repeatability = BTreeMap::new();
    for (key, means) in means.into_iter().filter(|(_, means)| means.len() >= 2) {
        let found = Repeatability::of_sessions(&means, KnownFrom::History)?;
        repeatability.insert(key.clone(), found);
    }
    Ok(repeatability)
}

// What makes sessions comparable over nights.

/// Facts that begin a new series when they change: figures before and after do not compare.
pub const IDENTITY: [&str; 7] =
    ["device", "uuid", "profile", "calibration", "scoring", "gpubench", "clock"];

pub(crate) const LABEL: &str = "label ";

/// What makes sessions comparable, with their values.
pub(super) type Identity = BTreeMap<String, String>;

/// Sessions with the same label and identity, in the order of their start.
pub(super) fn by_identity<'a>(
    ordered: &[&'a Session],
    by: Option<&str>,
) -> impl Iterator<Item = (Identity, Vec<&'a Session>)> {
    let mut groups: BTreeMap<(Option<String>, Identity), Vec<&Session>> = BTreeMap::new();
    for session in ordered {
        let mut identity = identity(session);
        let label = by.map(|name| {
            let value = session.labels.get(name);
            let value = value.map_or_else(|| "none".to_owned(), Clone::clone);
            identity.insert(format!("{LABEL}{name}"), value.clone());
            value
        });
        groups.entry((label, identity)).or_default().push(session);
    }
    joined(groups.into_iter().map(|((_, identity), nights)| (identity, nights))).into_iter()
}

/// Series that differ in their profile alone, where one follows the other in time: a profile that
/// changed is an event. Where profiles alternate, each has a series of its own.
fn joined<'a>(
    groups: impl Iterator<Item = (Identity, Vec<&'a Session>)>,
) -> Vec<(Identity, Vec<&'a Session>)> {
    let mut by_rest: BTreeMap<Identity, Vec<(Identity, Vec<&Session>)>> = BTreeMap::new();
    for (identity, nights) in groups {
        let mut rest = identity.clone();
        rest.remove(PROFILE);
        by_rest.entry(rest).or_default().push((identity, nights));
    }
    let follow = |mut groups: Vec<(Identity, Vec<&'a Session>)>| {
        groups.sort_by_key(|(_, nights)| nights.first().map(|one| &one.started_at));
        let is_apart = groups.windows(2).all(|pair| {
            let [last, first] = [pair[0].1.last(), pair[1].1.first()];
            last.zip(first).is_some_and(|(last, first)| last.started_at < first.started_at)
        });
        match groups.last().map(|(identity, _)| identity.clone()) {
            Some(identity) if is_apart => {
                vec![(identity, groups.into_iter().flat_map(|(_, nights)| nights).collect())]
            }
            _ => groups,
        }
    };
    by_rest.into_values().flat_map(follow).collect()
}

pub(super) fn identity(session: &Session) -> Identity {
    let known = IDENTITY.iter().filter_map(|name| {
        let value = session.facts.get(*name)?;
        Some(((*name).to_owned(), value.clone()))
    });
    known.collect()
}

// Events between nights: what changed on purpose begins a new segment.

/// Facts whose change is an event.
pub(super) const EVENTS: [&str; 4] = ["driver", "vbios", "kernel", PROFILE];

const PROFILE: &str = "profile";
/// Most keys of a profile that an event names.
const KEYS_MAX: usize = 3;

/// A profile that changed, by its keys; `None` where the seed alone did.
fn profile_event(one: &Session, two: &Session) -> Option<String> {
    let keys = |of: &Session| -> BTreeMap<String, String> {
        let facts = of.facts.iter().filter(|(name, _)| name.starts_with(KEY));
        facts.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let [old, new] = [keys(one), keys(two)];
    if old.is_empty() || new.is_empty() {
        return Some("another profile".to_owned());
    }
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differ: Vec<&String> =
        names.into_iter().filter(|name| old.get(*name) != new.get(*name)).collect();
    let value = |of: &BTreeMap<String, String>, name| {
        of.get(name).cloned().unwrap_or_else(|| "none".to_owned())
    };
    let named = differ.iter().take(KEYS_MAX);
    let named =
        named.map(|name| format!("{name} {} -> {}", value(&old, *name), value(&new, *name)));
    let more = match differ.len().saturating_sub(KEYS_MAX) {
        0 => String::new(),
        more => format!(" and {}", counted(more, "more key")),
    };
    if differ.is_empty() {
        // The hash covers the kernels, and in older records the seed.
        let is_seed = one.facts.get("seed") != two.facts.get("seed");
        return (!is_seed).then(|| "other kernels".to_owned());
    }
    Some(named.collect::<Vec<_>>().join(", ") + &more)
}

/// A change that a person declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Declared {
    /// RFC 3339 time in UTC; nights from then on are after it.
    pub at: String,
    /// What changed.
    pub what: String,
}

/// An event before a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Position of the first session after it.
    pub before: usize,
    pub what: String,
}

/// The events between these sessions, which are in the order of their start.
pub(super) fn starts(sessions: &[&Session], declared: &[Declared]) -> Vec<Event> {
    let mut found = Vec::new();
    for (at, pair) in sessions.windows(2).enumerate() {
        let (one, two) = (pair[0], pair[1]);
        let before = at + 1;
        for name in EVENTS {
            let values = [one, two].map(|session| session.facts.get(name));
            if let [Some(old), Some(new)] = values
                && old != new
            {
                let what = match name {
                    PROFILE => profile_event(one, two),
                    _ => Some(format!("{name} {old} -> {new}")),
                };
                found.extend(what.map(|what| Event { before, what }));
            }
        }
        let between =
            declared.iter().filter(|event| one.started_at < event.at && event.at <= two.started_at);
        found.extend(between.map(|event| Event { before, what: event.what.clone() }));
    }
    found
}
