//! Damaged and changed records: each is named by every verb that reads it, none silently.

use std::path::{Path, PathBuf};

use serde_json::Value;

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

/// Every file of a finished record.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

#[test]
fn every_file_has_a_checksum_and_a_changed_byte_is_named() -> TestResult {
    let lab = lab()?;
    let whole = run(&lab, &["report", "run", "--verify"])?.ended_with(0)?;
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
            named(&lab, &path, &place).map_err(|error| format!("{place}: {error}"))?;
        }
        std::fs::write(&path, &bytes)?;
    }
    run(&lab, &["report", "run", "--verify"])?.ended_with(0)?;
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

/// The events are gone together with their line in the checksums: each verb still names them.
#[test]
fn events_removed_together_with_their_checksum_are_named() -> TestResult {
    let lab = lab()?;
    let list = lab.path("run").join("checksums.b3");
    let lines = std::fs::read_to_string(&list)?;
    let others = lines.lines().filter(|line| !line.ends_with("events.jsonl"));
    let others: Vec<&str> = others.collect();
    std::fs::write(&list, others.join("\n") + "\n")?;
    std::fs::remove_file(lab.path("run").join("events.jsonl"))?;
    for verb in [&["report", "run"][..], &["compare", "run", "run"]] {
        let said = run(&lab, verb)?.stderr;
        let loss = "events.jsonl is missing, and checksums.b3 does not list it";
        assert!(said.contains(loss), "{verb:?}: {said}");
    }
    Ok(())
}

/// A better level in `record.json`, with checksums made again: the cells say otherwise.
#[test]
fn a_level_that_does_not_follow_from_the_cells_is_named_in_every_format() -> TestResult {
    let lab = lab()?;
    let path = lab.path("run/record.json");
    let mut record: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    let rows = record["matrix"].as_array_mut().ok_or("no matrix")?;
    let row = rows.iter_mut().find(|row| row["level"] == "L0").ok_or("no row with L0")?;
    row["level"] = "L3".into();
    row["retention"]["value"] = 0.990.into();
    std::fs::write(&path, serde_json::to_string_pretty(&record)?)?;
    gpubench_reports::store::seal(&lab.path("run"))?;

    let said = "level is L3, and L0 follows from the cells";
    for format in gpubench_reports::format::CATALOGUE {
        let name = format.name();
        let done = run(&lab, &["report", "run", "--format", name])?.ended_with(4)?;
        assert!(done.stderr.contains(said), "{name}: {}", done.stderr);
        let expected =
            if name == "openmetrics" { "gpubench_record_problems 2" } else { "L0 follows from" };
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
        let done = run(&lab, args)?.ended_with(4)?;
        let all = done.stdout + &done.stderr;
        assert!(all.contains(said), "{args:?}: {all}");
    }
    Ok(())
}
