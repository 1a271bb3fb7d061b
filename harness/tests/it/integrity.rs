//! Damaged and changed records: each is named by every verb that reads it, none silently.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use gpubench_store::Record;
use serde_json::Value;

use super::resume::is_one_line;
use crate::support::{Error, Finished, Lab, TestResult, finish};

fn lab() -> Result<Lab, Error> {
    let lab = Lab::on("turing")?;
    let more = ["--mechanism=exclusive,time-slicing", "--axis=compute/sm"];
    finish(lab.matrix("run", &more))?.ended_with(0)?;
    Ok(lab)
}

fn run(lab: &Lab, args: &[&str]) -> Result<Finished, Error> {
    finish(lab.gpubench(args))
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

#[test]
fn changes_of_a_record_are_named() -> TestResult {
    let lab = lab()?;
    every_file_has_a_checksum_and_a_changed_byte_is_named(&lab)?;
    a_level_that_does_not_follow_from_the_cells_is_named_in_every_format(&lab)?;
    a_repair_keeps_what_was_wrong(&lab)?;
    without_events(&lab)
}

/// Its new checksums are those of what is left.
fn a_repair_keeps_what_was_wrong(lab: &Lab) -> TestResult {
    let cut = lab.path("cut");
    std::fs::create_dir(&cut)?;
    for path in files(&lab.path("run"))?.iter().filter(|path| !path.ends_with("record.json")) {
        std::fs::copy(path, cut.join(path.file_name().ok_or("a name")?))?;
    }
    let events = std::fs::read(cut.join("events.jsonl"))?;
    std::fs::write(cut.join("events.jsonl"), &events[..events.len() - 20])?;
    run(lab, &["report", "cut", "--repair"])?.ended_with(0)?;
    let report = run(lab, &["report", "cut"])?.ended_with(0)?.stdout;
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("as it was repaired: the last event (line"), "{report}");
    assert!(report.contains("events.jsonl is damaged"), "{report}");
    Ok(())
}

fn every_file_has_a_checksum_and_a_changed_byte_is_named(lab: &Lab) -> TestResult {
    let whole = run(lab, &["report", "run", "--verify"])?.ended_with(0)?;
    let files = files(&lab.path("run"))?;
    let listed = format!("run: {} files match their checksums; ", files.len() - 1);
    assert!(whole.stdout.starts_with(&listed), "{}", whole.stdout);
    for path in files {
        let bytes = std::fs::read(&path)?;
        for at in [0, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
            let mut changed = bytes.clone();
            changed[at] ^= 0x04;
            std::fs::write(&path, &changed)?;
            let place = format!("{} at {at} of {}", path.display(), bytes.len());
            named(lab, &path, &place).map_err(|error| format!("{place}: {error}"))?;
        }
        std::fs::write(&path, &bytes)?;
    }
    run(lab, &["report", "run", "--verify"])?.ended_with(0)?;
    Ok(())
}

/// The events are gone together with their line in the checksums: each verb still names them.
fn without_events(lab: &Lab) -> TestResult {
    let list = lab.path("run").join("checksums.b3");
    let lines = std::fs::read_to_string(&list)?;
    let others = lines.lines().filter(|line| !line.ends_with("events.jsonl"));
    let others: Vec<&str> = others.collect();
    std::fs::write(&list, others.join("\n") + "\n")?;
    std::fs::remove_file(lab.path("run").join("events.jsonl"))?;
    for verb in [&["report", "run"][..], &["compare", "run", "run"]] {
        let said = run(lab, verb)?.stderr;
        let loss = "events.jsonl is missing, and checksums.b3 does not list it";
        assert!(said.contains(loss), "{verb:?}: {said}");
    }
    Ok(())
}

/// The damaged file is named by `report` and by its check.
fn named(lab: &Lab, path: &Path, place: &str) -> TestResult {
    let verified = run(lab, &["report", "run", "--verify"])?;
    assert!([Some(2), Some(4)].contains(&verified.code), "{place}: {:?}", verified.code);
    let report = run(lab, &["report", "run", "--format", "json"])?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or("a name")?;
    if name == "checksums.b3" {
        assert!(report.stderr.contains("warning: run: "), "{place}: {}", report.stderr);
        return Ok(());
    }
    assert!(report.stderr.contains(name), "{place}: {}", report.stderr);
    if report.code == Some(2) {
        // Not readable at all: one line.
        assert_eq!(report.stderr.lines().count(), 1, "{place}: {}", report.stderr);
        return Ok(());
    }
    let code = if name == "record.json" { 4 } else { 0 };
    assert_eq!(report.code, Some(code), "{place}");
    let record: Value = serde_json::from_str(&report.stdout)?;
    let problems = record["problems"].as_array().ok_or("no problems")?;
    let is_named = |one: &Value| one.as_str().is_some_and(|one| one.contains(name));
    assert!(problems.iter().any(is_named), "{place}: {problems:?}");
    Ok(())
}

/// A better rate in `record.json`, with checksums made again: the samples say otherwise.
#[test]
fn a_figure_that_does_not_follow_from_the_samples_is_named() -> TestResult {
    let lab = lab()?;
    let whole = run(&lab, &["report", "run", "--verify"])?.ended_with(0)?;
    assert!(whole.stdout.contains(", and these from their samples"), "{}", whole.stdout);
    let path = lab.path("run/record.json");
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let rate = &mut record["cells"][0]["rates"]["closed_rate_per_s"];
    *rate = (1.5 * rate.as_f64().ok_or("no rate")?).into();
    std::fs::write(&path, serde_json::to_string_pretty(&record)?)?;
    gpubench_store::seal(&lab.path("run"))?;
    let changed = run(&lab, &["report", "run", "--verify"])?.ended_with(4)?.stdout;
    let mut lines = changed.lines().filter(|line| line.contains("rates closed_rate_per_s is "));
    assert!(lines.any(|line| line.ends_with(" follows from the samples")), "{changed}");
    Ok(())
}

/// A better level in `record.json`, with checksums made again: the cells say otherwise.
fn a_level_that_does_not_follow_from_the_cells_is_named_in_every_format(lab: &Lab) -> TestResult {
    let path = lab.path("run/record.json");
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let rows = record["matrix"].as_array_mut().ok_or("no matrix")?;
    let row = rows.iter_mut().find(|row| row["level"] == "L0").ok_or("no row with L0")?;
    row["level"] = "L3".into();
    row["retention"]["value"] = 0.990.into();
    std::fs::write(&path, serde_json::to_string_pretty(&record)?)?;
    gpubench_store::seal(&lab.path("run"))?;

    let said = "level is L3, and L0 follows from the cells";
    for format in gpubench_reports::format::CATALOGUE {
        let name = format.name;
        let done = run(lab, &["report", "run", "--format", name])?.ended_with(4)?;
        assert!(done.stderr.contains(said), "{name}: {}", done.stderr);
        let expected = match name {
            "openmetrics" => "} 2 # HELP gpubench_thresholds_changed",
            _ => "L0 follows from",
        };
        let output = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains(expected), "{name}: {output}");
    }
    for args in [
        ["report", "run", "--verify"].as_slice(),
        &["claims", "run"],
        &["compare", "run"],
        &["history", "run"],
        &["diff", "run", "--", "run"],
    ] {
        let done = run(lab, args)?.ended_with(4)?;
        let all = done.stdout + &done.stderr;
        assert!(all.contains(said), "{args:?}: {all}");
    }
    Ok(())
}

// Forged records: one value of each class is changed, and no checksum covers it.

/// Parts of the schema that no run of this test has, with what is put there.
const ABSENT: [(&str, &str); 13] = [
    ("service", "[{}]"),
    ("transients", "[{}]"),
    ("energy", "[{}]"),
    ("attribution", "[{}]"),
    ("incomplete_reason", "\"forged\""),
    ("interruptions", "[{}]"),
    ("superseded", "[{}]"),
    ("fault_trials_stopped", "\"forged\""),
    ("records_left_out", "[\"forged\"]"),
    ("device_speed", "{}"),
    ("dose_curves", "[{}]"),
    ("tenant_limits", "[{}]"),
    ("notices", "[\"forged\"]"),
];

/// The first place of each class of values: elements of one list are of one class.
fn classes(value: &Value, class: &str, place: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                classes(value, &format!("{class}.{key}"), &format!("{place}/{escaped}"), found);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                classes(item, &format!("{class}[]"), &format!("{place}/{at}"), found);
            }
        }
        _ => {
            found.entry(class.to_owned()).or_insert_with(|| place.to_owned());
        }
    }
}

fn forge(value: &mut Value) {
    *value = match value {
        Value::Bool(is) => Value::Bool(!*is),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => (whole + 1).into(),
            None => (number.as_f64().unwrap_or(0.0) * 1.25 + 0.125).into(),
        },
        Value::String(text) => (text.clone() + "1").into(),
        _ => "forged".into(),
    };
}

/// Parts that a report makes anew.
const MADE: [&str; 4] = [".matrix", ".overall", ".claims", ".operator"];

/// What `--verify` finds in the record, or that a report shows the scores of its cells in place of
/// a forged one; `None` for neither.
fn found(dir: &Path, class: &str, scores: &Value) -> Option<&'static str> {
    let Ok(verified) = gpubench::verbs::verified(dir, None) else { return Some("refused") };
    if !verified.problems.is_empty() {
        return Some("named");
    }
    let opened = gpubench::verbs::open_scored(dir, gpubench::verbs::Repair::No).ok()?;
    let is_made = opened.note.is_some() || MADE.iter().any(|part| class.starts_with(part));
    (is_made && scores_of(&opened.run) == *scores).then_some("scored again")
}

fn scores_of(run: &gpubench_record::RunRecord) -> Value {
    let all = serde_json::to_value(run).unwrap_or_default();
    MADE.iter().map(|part| all[&part[1..]].clone()).collect()
}

#[test]
fn a_record_with_one_forged_value_is_refused_named_or_scored_again() -> TestResult {
    let lab = Lab::on("turing")?;
    let more = ["--mechanism=exclusive,time-slicing", "--axis=compute/sm,memory,fault"];
    finish(lab.matrix("run", &[&more[..], &["--fault-trials=1", "--probes"]].concat()))?
        .ended_with(0)?;
    let (dir, path) = (lab.path("run"), lab.path("run/record.json"));
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let opened = gpubench::verbs::open_scored(&dir, gpubench::verbs::Repair::No)?;
    let scores = scores_of(&opened.run);
    assert_eq!(found(&dir, "", &scores), None, "an intact record");
    let mut all = BTreeMap::new();
    classes(&whole, "", "", &mut all);
    // Every part of the schema is there, or is put there.
    let schema = include_str!("../../../reports/schema/record.json");
    let schema: Value = serde_json::from_str(schema)?;
    let parts = schema["properties"].as_object().ok_or("no parts")?;
    let is_there = |part: &str| whole[part].as_array().is_none_or(|all| !all.is_empty());
    for part in parts.keys() {
        let here = whole.get(part).is_some() && is_there(part);
        // What a reader finds wrong is never read.
        let there = part == "problems" || ABSENT.iter().any(|(absent, _)| absent == part);
        assert!(here || there, "{part} is neither in the record nor in the list");
    }
    // Whoever forges makes them again.
    std::fs::remove_file(dir.join("checksums.b3"))?;
    let mut unseen = Vec::new();
    let mut count = 0;
    let mut tried = |class: &str, changed: &Value| -> TestResult {
        std::fs::write(&path, serde_json::to_string(changed)?)?;
        count += 1;
        if found(&dir, class, &scores).is_none() {
            unseen.push(class.to_owned());
        }
        Ok(())
    };
    // Every fifth class; all of them in `bash ci/long.sh forged`.
    let step = if std::env::var_os("GPUBENCH_FORGED").is_some() { 1 } else { 5 };
    for (class, place) in all.iter().step_by(step) {
        let mut changed = whole.clone();
        forge(changed.pointer_mut(place).ok_or("no value")?);
        tried(class, &changed)?;
    }
    for (part, text) in ABSENT {
        let mut changed = whole.clone();
        changed[part] = serde_json::from_str(text)?;
        tried(part, &changed)?;
    }
    assert!(count >= 60, "{count}");
    assert_eq!(unseen, [] as [String; 0], "of {count}");
    Ok(())
}

// Signed records: `matrix --sign-key`, `report --verify --public-key`, and what they refuse. The
// keys in `data/signing` were made by the `minisign` crate, for these tests alone.

const PASSWORD: &str = "GPUBENCH_SIGN_PASSWORD";
const SIGNATURE: &str = "checksums.b3.minisig";

fn key(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/signing");
    folder.join(name).display().to_string()
}

fn signed(name: &str, password: Option<&str>) -> Result<(Lab, Finished), Error> {
    let lab = Lab::on("turing")?;
    let more = ["--mechanism", "time-slicing", "--sign-key", &key(name)];
    let mut command = lab.matrix("out", &more);
    command.env_remove(PASSWORD);
    command.envs(password.map(|password| (PASSWORD, password)));
    let ended = finish(command)?;
    Ok((lab, ended))
}

fn verify(lab: &Lab, public: &str) -> Result<Finished, Error> {
    let public = key(public);
    finish(lab.gpubench(["report", "out", "--verify", "--public-key", &public]))
}

fn flip(path: &Path, at: usize) -> TestResult {
    let mut bytes = std::fs::read(path)?;
    bytes[at] ^= 1;
    Ok(std::fs::write(path, bytes)?)
}

fn refused(lab: &Lab, problem: &str) -> TestResult {
    let ended = verify(lab, "open.pub")?.ended_with(4)?;
    assert!(ended.stdout.contains(problem), "{problem}: {}", ended.stdout);
    Ok(())
}

#[test]
fn a_signature_holds_until_one_byte_changes() -> TestResult {
    let (lab, ended) = signed("open.key", None)?;
    ended.ended_with(0)?;
    let good = verify(&lab, "open.pub")?.ended_with(0)?;
    assert!(good.stdout.contains("signed by key A919415F7C1322D4"), "{}", good.stdout);
    let wrong = verify(&lab, "locked.pub")?.ended_with(4)?;
    assert!(wrong.stdout.contains("bad signature: another key made it"), "{}", wrong.stdout);
    let unasked = finish(lab.gpubench(["report", "out", "--verify"]))?.ended_with(0)?;
    assert!(unasked.stdout.contains("signed, unchecked (--public-key)"), "{}", unasked.stdout);
    let out = lab.path("out");
    let (samples, list) = (out.join("samples.parquet"), out.join("checksums.b3"));
    if let Some(program) = installed("minisign") {
        let mut minisign = std::process::Command::new(program);
        minisign.args(["-V", "-p", &key("open.pub"), "-m"]).arg(&list);
        assert!(minisign.status()?.success());
    }
    let copied = finish(lab.gpubench(["report", "out", "--anonymize", "copy"]))?.ended_with(0)?;
    assert!(copied.text().contains("the copy is not signed"), "{}", copied.text());
    assert!(!lab.path("copy").join(SIGNATURE).exists());
    // A changed sample; the same with a checksum that fits it; and the signature.
    flip(&samples, 1000)?;
    refused(&lab, "samples.parquet is damaged")?;
    flip(&samples, 1000)?;
    let text = std::fs::read_to_string(&list)?;
    std::fs::write(&list, text.replacen('a', "b", 1))?;
    refused(&lab, "bad signature: checksums.b3 or checksums.b3.minisig was changed")?;
    std::fs::write(&list, &text)?;
    let signature = std::fs::read(out.join(SIGNATURE))?;
    let line = signature.iter().position(|&byte| byte == b'\n').ok_or("no line")?;
    flip(&out.join(SIGNATURE), line + 40)?;
    refused(&lab, "bad signature: ")?;
    std::fs::write(out.join(SIGNATURE), &signature)?;
    verify(&lab, "open.pub")?.ended_with(0)?;
    // A file that nobody signed.
    std::fs::create_dir_all(out.join("cells/0000"))?;
    std::fs::write(out.join("cells/0000/victim.samples"), "")?;
    refused(&lab, "cells/0000/victim.samples is not in checksums.b3")?;
    std::fs::remove_dir_all(out.join("cells"))?;
    std::fs::remove_file(out.join(SIGNATURE))?;
    refused(&lab, "not signed: it has no checksums.b3.minisig")
}

#[test]
fn a_key_with_a_password_is_unlocked_before_the_run_starts() -> TestResult {
    for (password, problem) in [
        (None, "there is no terminal to ask for it (accepted: the variable GPUBENCH_SIGN_PASSWORD"),
        (Some("wrong"), "is wrong"),
    ] {
        let (lab, ended) = signed("locked.key", password)?;
        is_one_line(&ended.ended_with(2)?, problem);
        assert!(!lab.path("out").exists());
    }
    let (lab, ended) = signed("locked.key", Some("correct horse"))?;
    ended.ended_with(0)?;
    verify(&lab, "locked.pub")?.ended_with(0)?;
    // The password is in no file of the record.
    for entry in std::fs::read_dir(lab.path("out"))? {
        let text = String::from_utf8_lossy(&std::fs::read(entry?.path())?).into_owned();
        assert!(!text.contains("correct horse"));
    }
    Ok(())
}

#[test]
fn a_file_that_is_no_key_is_refused_before_anything_starts() -> TestResult {
    let lab = Lab::on("turing")?;
    lab.write("none", "nothing\n")?;
    for (file, problem) in [
        (lab.arg("none"), "is no secret key (accepted: "),
        (key("open.pub"), "is no secret key (accepted: "),
        (lab.arg("absent"), "cannot read secret key"),
    ] {
        let mut command = lab.matrix("out", &["--sign-key", &file]);
        command.env("XDG_CACHE_HOME", lab.path("cache"));
        is_one_line(&finish(command)?.ended_with(2)?, problem);
        assert!(!lab.path("out").exists() && !lab.path("cache").exists(), "{file}");
    }
    let public = lab.arg("none");
    let refused = finish(lab.gpubench(["report", "x", "--verify", "--public-key", &public]))?;
    is_one_line(&refused.ended_with(2)?, "is no public key (accepted: ");
    Ok(())
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |file: &PathBuf| {
        let facts = file.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

// `gpubench report --anonymize`: the copy reads like the record, and names nobody.

/// Every file of a folder with its bytes as text, Parquet files also decoded.
fn texts(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        texts.push((path.display().to_string(), text));
    }
    let record = Record::open(folder)?;
    let telemetry = record.telemetry()?;
    assert!(!telemetry.is_empty());
    texts.push(("telemetry".to_owned(), format!("{telemetry:?}")));
    Ok(texts)
}

#[test]
fn an_anonymized_copy_reads_like_the_record_and_names_no_host_user_or_device() -> TestResult {
    let lab = Lab::on("turing")?;
    let out = lab.arg("home/alice/out");
    let more = ["--mechanism=exclusive,time-slicing", "--label=node=rack-12"];
    let mut command = lab.matrix(&out, &more);
    command.env("CUDA_VISIBLE_DEVICES", "0");
    finish(command)?.ended_with(0)?;
    let before = lab.record(&out)?;
    let hostname = before.provenance.host["hostname"].clone();
    let secrets = [before.device.uuid.as_str(), "alice", "rack-12"];
    let whole = std::fs::read_to_string(lab.path("home/alice/out/record.json"))?;
    for secret in secrets {
        assert!(whole.contains(secret), "{secret} is not in the record");
    }

    let copy = ["report", out.as_str(), "--anonymize=copies/one"];
    finish(lab.gpubench(copy))?.ended_with(0)?;
    for (name, text) in texts(&lab.path("copies/one"))? {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} is in {name}");
        }
    }
    let after = lab.record("copies/one")?;
    assert_ne!(after.provenance.host["hostname"], hostname);
    assert_eq!(after.provenance.labels.len(), 0);
    assert_eq!(after.provenance.command, ["removed"]);
    assert_eq!((&after.matrix, &after.cells), (&before.matrix, &before.cells));

    // The copy is scored again, drawn and compared, and is the same device as another copy.
    for args in [
        &["report", "copies/one", "--format=html"][..],
        &["report", out.as_str(), "--anonymize=copies/two"],
        &["diff", "--advisory", "copies/one", "--", "copies/two"],
    ] {
        finish(lab.gpubench(args))?.ended_with(0)?;
    }
    // A folder that exists is not written to, and nothing is copied of two records.
    for args in [
        &["report", out.as_str(), "--anonymize=copies/one"][..],
        &["report", "copies/one", "copies/two", "--anonymize=three"],
        &["report", "copies/one", "--anonymize=three", "--format=md"],
    ] {
        finish(lab.gpubench(args))?.ended_with(2)?;
    }
    assert!(!lab.path("three").exists());
    Ok(())
}
