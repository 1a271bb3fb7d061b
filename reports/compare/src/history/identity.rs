//! What makes sessions comparable over nights.

use std::collections::BTreeMap;

use crate::session::Session;

/// Facts that begin a new series when they change: figures before and after do not compare.
pub const IDENTITY: [&str; 7] =
    ["device", "uuid", "profile", "calibration", "scoring", "gpubench", "clock"];

/// The part of an identity that is a label.
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
    groups.into_iter().map(|((_, identity), nights)| (identity, nights))
}

/// What makes sessions comparable.
pub(super) fn identity(session: &Session) -> Identity {
    let known = IDENTITY.iter().filter_map(|name| {
        let value = session.facts.get(*name)?;
        Some(((*name).to_owned(), value.clone()))
    });
    known.collect()
}
