//! What the reports of both sides print beside a row.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::Doubt;
use crate::session::{RowKey, Session};

/// Each kind of text once, in alphabetical order, with the sessions of each side that have it.
pub(super) fn of(key: &RowKey, sides: [&[Session]; 2]) -> Vec<Doubt> {
    let mut found: BTreeMap<&str, Doubt> = BTreeMap::new();
    for (side, sessions) in sides.into_iter().enumerate() {
        for session in sessions {
            let mut counted = BTreeSet::new();
            for text in session.doubts_of(key) {
                let kind = Doubt::kind(text);
                let first = || Doubt { text: text.to_owned(), sessions: [0, 0] };
                let doubt = found.entry(kind).or_insert_with(first);
                doubt.sessions[side] += u32::from(counted.insert(kind));
            }
        }
    }
    found.into_values().collect()
}
