//! A copy of a record that names no host, device, user or program, to be passed on.
//!
//! The copy has `record.json`, the samples, the latencies and the telemetry. It lacks
//! `events.jsonl`, which repeats what the record has, and every other file of the folder.

mod scrub;

use std::fs::File;
use std::path::Path;

use gpubench_record::{Json, RunRecord, TelemetryRow, json};
use serde_json::Value;

use super::error::{StoreError, without_position};
use super::{
    LATENCIES_FILE, RECORD_FILE, Record, SAMPLES_FILE, TELEMETRY_FILE, checksums, regular,
    write_record_json, write_telemetry,
};
pub use scrub::REMOVED;
use scrub::Scrub;

/// Writes the anonymized copy of a record to an existing folder, and returns the record in it.
///
/// `run` is the scored content of `record`. Host names and home folders have a fixed substitute,
/// and each UUID one that is the same in every copy, so that copies of several nights stay one
/// series. Commands and labels are removed.
///
/// # Errors
/// When a file cannot be read or written.
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
            let mut from = regular::open(&from)?;
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

#[cfg(test)]
mod tests {
    use gpubench_record::user_victim::{Reports, UserVictim};
    use gpubench_record::{Proof, ProofTime, RunRecord};

    use super::scrub::HOMES;
    use super::{REMOVED, write_anonymized};
    use crate::Record;
    use crate::sample_records;
    use crate::store::write_record_json;

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
}
