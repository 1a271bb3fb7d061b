//! Texts without the names of a host, its devices, users and programs.

use gpubench_record::RunRecord;

/// Stands in place of what was removed.
pub const REMOVED: &str = "removed";

/// Folders whose entries are named after users.
pub(super) const HOMES: [&str; 2] = [concat!("/home", "/"), concat!("/Users", "/")];
/// A UUID: 36 characters with dashes at these places.
const UUID_LEN: usize = 36;
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];

/// What to remove from the texts of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scrub {
    /// Names, the longest first, so that a path goes before its last part.
    secrets: Vec<String>,
}

impl Scrub {
    /// The names that a record has of its host, of users' home folders, and of the user's program.
    /// `json` is the record as JSON.
    pub(super) fn of(run: &RunRecord, json: &str) -> Self {
        let mut secrets = users(json);
        if let Some(name) = run.provenance.host.get("hostname") {
            secrets.push(name.clone());
            // The name without its domain.
            secrets.extend(name.split('.').next().map(str::to_owned));
        }
        if let Some(victim) = &run.plan.user_victim {
            secrets.push(victim.command.clone());
            let words = victim.command.split([' ', '=']);
            secrets.extend(words.filter(|word| word.contains('/')).map(str::to_owned));
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// The text without them.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = without_uuids(text);
        for secret in &self.secrets {
            text = without_word(&text, secret);
        }
        text
    }
}

/// Names of users in paths of a text.
fn users(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let after = HOMES.iter().flat_map(|home| {
        let starts = text.match_indices(home);
        starts.map(|(at, home)| &text[at + home.len()..])
    });
    let names = after.map(|rest| {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// The text with a word replaced where it is no part of a longer one.
fn without_word(text: &str, word: &str) -> String {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (first, last) = (word.chars().next(), word.chars().next_back());
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for (at, found) in text.match_indices(word) {
        let end = at + found.len();
        let before = letter(first) && letter(text[..at].chars().next_back());
        let after = letter(last) && letter(text[end..].chars().next());
        if before || after {
            continue;
        }
        kept.push_str(&text[from..at]);
        kept.push_str(REMOVED);
        from = end;
    }
    kept + &text[from..]
}

/// The text with each UUID replaced by its substitute, which is the same for the same UUID.
fn without_uuids(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        // A UUID that follows a letter or digit is a part of something else.
        let is_apart = !kept.ends_with(|c: char| c.is_ascii_alphanumeric());
        match rest.get(..UUID_LEN) {
            Some(candidate) if is_apart && is_uuid(candidate) => {
                kept.push_str(&substitute(candidate));
                rest = &rest[UUID_LEN..];
            }
            _ => {
                kept.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    kept
}

fn is_uuid(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| {
        if UUID_DASHES.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == UUID_LEN && text.bytes().enumerate().all(fits)
}

/// A UUID that is derived from another one by BLAKE3. Only who knows the UUID can recognise it.
fn substitute(uuid: &str) -> String {
    let hash = blake3::hash(uuid.to_ascii_lowercase().as_bytes()).to_hex();
    let digits: &str = &hash[..32];
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| &digits[part]).join("-")
}

#[cfg(test)]
mod tests {
    use super::{HOMES, Scrub, substitute, users, without_uuids, without_word};

    #[test]
    fn words_are_replaced_where_they_stand_alone() {
        for (text, expected) in [
            ("node7", "removed"),
            ("on node7: node7.", "on removed: removed."),
            ("node71 node7a anode7 my_node7", "node71 node7a anode7 my_node7"),
            ("/mnt/node7/x", "/mnt/removed/x"),
            ("\u{e9}node7 \u{2192}node7", "\u{e9}node7 \u{2192}removed"),
        ] {
            assert_eq!(without_word(text, "node7"), expected, "{text}");
        }
    }

    #[test]
    fn a_uuid_has_one_substitute_wherever_it_stands() {
        let uuid = "37d1158c-23ce-0fb2-3f20-eb4abf158f99";
        let other = substitute(uuid);
        assert_ne!(other, uuid);
        assert_eq!(substitute(&uuid.to_uppercase()), other);
        assert_ne!(substitute("37d1158c-23ce-0fb2-3f20-eb4abf158f98"), other);
        let text = format!("GPU-{uuid}, MIG-GPU-{uuid}/1/0: [{uuid}]");
        let expected = format!("GPU-{other}, MIG-GPU-{other}/1/0: [{other}]");
        assert_eq!(without_uuids(&text), expected);
        let hash = "37d1158c23ce0fb23f20eb4abf158f9937d1158c";
        assert_eq!(without_uuids(hash), hash);
    }

    #[test]
    fn users_are_found_by_their_home_folders() {
        let [linux, mac] = HOMES;
        let text = format!("{linux}bob/a of bob, {mac}eve: bobby");
        let scrub = Scrub { secrets: users(&text) };
        let expected = format!("{linux}removed/a of removed, {mac}removed: bobby");
        assert_eq!(scrub.text(&text), expected);
        assert_eq!(users(&format!("{linux} {linux}/x")), [""; 0]);
    }
}
