//! A copy of a record that names no host, device, user or program, to be passed on.
//!
//! The copy has `record.json`, the samples, the latencies and the telemetry. It lacks
//! `events.jsonl`, which repeats what the record has, and every other file of the folder.

use std::fs::File;
use std::path::Path;

use gpubench_record::{Json, RunRecord, TelemetryRow, json};
use serde_json::Value;

use super::error::{StoreError, without_position};
use super::{
    LATENCIES_FILE, RECORD_FILE, Record, SAMPLES_FILE, TELEMETRY_FILE, checksums, files,
    write_record_json, write_telemetry,
};

/// Writes the anonymized copy of a record to an existing folder, and returns the record in it.
///
/// `run` is the scored content of `record`. Host names and home folders have a fixed substitute,
/// and each UUID one that is the same in every copy, so that copies of several nights stay one
/// series. Commands and labels are removed.
/// Fails when a file cannot be read or written.
pub fn write_anonymized(
    record: &Record,
    run: &RunRecord,
    target: &Path,
) -> Result<RunRecord, StoreError> {
    let unstorable = |error| StoreError::Unstorable {
        what: "the record",
        path: target.join(RECORD_FILE),
        reason: without_position(&error),
    };
    let json = run.to_json().map_err(unstorable)?;
    let scrub = Scrub::of(run, &json);
    let copy = anonymized(&scrub, run).map_err(unstorable)?;
    // They name cells and tenants, which the plan numbers and names after workloads.
    for name in [SAMPLES_FILE, LATENCIES_FILE] {
        let from = record.dir().join(name);
        if from.exists() {
            let to = target.join(name);
            checksums::verify(&from)?;
            let mut from = files::open(&from)?;
            File::create(&to)
                .and_then(|mut to| std::io::copy(&mut from, &mut to))
                .map_err(StoreError::io("copy", &to))?;
        }
    }
    let mut telemetry = record.telemetry()?;
    if !telemetry.is_empty() {
        telemetry.iter_mut().for_each(|row| scrub_row(&scrub, row));
        write_telemetry(&target.join(TELEMETRY_FILE), &telemetry)?;
    }
    write_record_json(target, &copy)?;
    checksums::seal(target)?;
    Ok(copy)
}

fn scrub_row(scrub: &Scrub, row: &mut TelemetryRow) {
    for text in [&mut row.source, &mut row.metric] {
        *text = scrub.text(text);
    }
}

fn anonymized(scrub: &Scrub, run: &RunRecord) -> Result<RunRecord, serde_json::Error> {
    let mut run = run.clone();
    let later = run.interruptions.iter_mut();
    let starts = later.map(|one| &mut one.provenance);
    for provenance in starts.chain(std::iter::once(&mut run.provenance)) {
        provenance.labels.clear();
        if let Some(name) = provenance.host.get_mut("hostname") {
            REMOVED.clone_into(name);
        }
    }
    let mut value = json::value(&run)?;
    scrub_value(scrub, &mut value);
    RunRecord::from_json(&serde_json::to_vec(&value)?)
}

/// Keys with names that gpubench gives. A word of the host in them is a coincidence, and they
/// connect the parts of a record.
const NAMES: [&str; 14] = [
    "aggressor",
    "axis",
    "cell",
    "gate",
    "id",
    "mechanism",
    "metric",
    "name",
    "role",
    "sub_axis",
    "tenant",
    "variant",
    "victim",
    "workload",
];

fn scrub_value(scrub: &Scrub, value: &mut Value) {
    match value {
        Value::String(text) => *text = scrub.text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub_value(scrub, item)),
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match (key.as_str(), &mut *value) {
                    ("command", Value::String(command)) => REMOVED.clone_into(command),
                    ("command", Value::Array(words)) => {
                        *words = vec![Value::String(REMOVED.to_owned())];
                    }
                    (name, Value::String(_)) if NAMES.contains(&name) => {}
                    (_, value) => scrub_value(scrub, value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

// Texts without the names of a host, its devices, users and programs.

/// Stands in place of what was removed.
pub const REMOVED: &str = "removed";

/// Folders whose entries are named after users.
const HOMES: [&str; 2] = [concat!("/home", "/"), concat!("/Users", "/")];
/// A UUID: 36 characters with dashes at these places.
const UUID_LEN: usize = 36;
const UUID_DASHES: [usize; 4] = [8, 13, 18, 23];

#[derive(Debug, Clone, PartialEq, Eq)]
struct Scrub {
    /// Names, the longest first, so that a path goes before its last part.
    secrets: Vec<String>,
}

impl Scrub {
    /// The names that a record has of its host, of users' home folders, and of the user's program.
    /// `json` is the record as JSON.
    fn of(run: &RunRecord, json: &str) -> Self {
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

    fn text(&self, text: &str) -> String {
        let mut text = without_uuids(text);
        for secret in &self.secrets {
            text = without_word(&text, secret);
        }
        text
    }
}

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
    use gpubench_record::user_victim::{Reports, UserVictim};
    use gpubench_record::{Proof, ProofTime, RunRecord};
    use gpubench_sample_records as sample_records;

    use super::{
        HOMES, REMOVED, Scrub, substitute, users, without_uuids, without_word, write_anonymized,
    };
    use crate::Record;
    use crate::write_record_json;

    const UUID: &str = "GPU-37d1158c-23ce-0fb2-3f20-eb4abf158f99";
    const SECRETS: [&str; 6] =
        ["build-7", "37d1158c", "alice", "acme", "rack-12", "python serve.py"];

    /// A record with a secret in every kind of place.
    fn revealing() -> RunRecord {
        let mut run = sample_records::real();
        run.device.uuid = UUID.to_owned();
        let provenance = &mut run.provenance;
        let home = format!("{}alice", HOMES[0]);
        provenance.command = vec!["gpubench".into(), format!("--out={home}/nights")];
        provenance.visible_devices = Some(format!("{UUID}: this device"));
        let host = &mut provenance.host;
        host.insert("hostname".into(), "build-7.acme.example".into());
        host.insert("observed".into(), "agent of alice on build-7".into());
        provenance.labels.insert("rack".into(), "rack-12".into());
        run.plan.user_victim = Some(UserVictim {
            command: "python serve.py --model /srv/acme/model".into(),
            reports: Reports::Lines,
            ready_ns: 1,
        });
        for row in &mut run.mechanisms {
            row.outcome.reason = Some(format!("build-7: /srv/acme/model is not on {UUID}"));
            row.proof = vec![Proof {
                when: ProofTime::During,
                t_ns: None,
                check: "processes on the device".into(),
                holds: true,
                evidence: format!("{home}/serve.py maps libcuda"),
                hardware: false,
                limiter: false,
            }];
        }
        run
    }

    #[test]
    fn no_secret_of_a_record_is_in_any_file_of_the_copy() -> Result<(), Box<dyn std::error::Error>>
    {
        let (source, target) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let run = revealing();
        write_record_json(source.path(), &run)?;
        let whole = std::fs::read_to_string(source.path().join("record.json"))?;
        for secret in SECRETS {
            assert!(whole.contains(secret), "{secret} was not planted");
        }
        let record = Record::open(source.path())?;
        let copy = write_anonymized(&record, record.run(), target.path())?;
        let mut files = 0;
        for entry in std::fs::read_dir(target.path())? {
            let text = String::from_utf8_lossy(&std::fs::read(entry?.path())?).into_owned();
            files += 1;
            for secret in SECRETS {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
        }
        // The record and its checksums.
        assert_eq!(files, 2);
        assert_eq!(copy.provenance.command, [REMOVED]);
        assert_eq!(copy.matrix, run.matrix);
        assert_eq!(*Record::open(target.path())?.run(), copy);
        Ok(())
    }

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
