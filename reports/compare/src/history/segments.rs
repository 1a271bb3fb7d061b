//! Events between nights: what changed on purpose begins a new segment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::Session;

/// Facts whose change is an event.
const EVENTS: [&str; 3] = ["driver", "vbios", "kernel"];

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
                let what = format!("{name} {old} -> {new}");
                found.push(Event { before, what });
            }
        }
        let between =
            declared.iter().filter(|event| one.started_at < event.at && event.at <= two.started_at);
        found.extend(between.map(|event| Event { before, what: event.what.clone() }));
    }
    found
}
