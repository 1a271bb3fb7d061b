//! The current binary reads the example records of real GPUs.

use crate::support::{Error, TestResult, finish, gpubench};
use gpubench_record::{FORMAT_VERSION, Json, RunRecord};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples")
}

fn report(record: &Path, format: &str) -> Result<String, Error> {
    let mut command = gpubench(["report", "--format", format]);
    if format == "terminal" {
        command.arg("--full");
    }
    command.arg(record);
    Ok(finish(command)?.ended_with(0)?.stdout)
}

/// The line of an example in the README, and its columns.
fn line<'a>(readme: &'a str, name: &str) -> Result<(&'a str, Vec<&'a str>), Error> {
    let mut lines = readme.lines();
    let line = lines.find(|line| line.starts_with(&format!("| `{name}` |")));
    let line = line.ok_or_else(|| format!("{name} is not in the README"))?;
    Ok((line, line.split('|').map(str::trim).collect()))
}

/// Figures of cells as a file has them.
fn measured(record: &Value) -> Vec<[&Value; 3]> {
    let cells = record["cells"].as_array().map_or(&[][..], Vec::as_slice);
    let figures = cells.iter();
    figures.map(|cell| ["id", "rates", "requests"].map(|key| &cell[key])).collect()
}

/// The README names the format and the rules of each example; the command there carries it over.
#[test]
fn each_example_has_the_stated_format_and_is_carried_over_as_measured() -> TestResult {
    let readme = std::fs::read_to_string(examples().join("README.md"))?;
    for what in ["matrix", "faults-time-slicing", "faults-mps", "probes"] {
        let name = &format!("h100_580.159.04_{what}");
        let folder = examples().join(name);
        let stored: Value = serde_json::from_slice(&std::fs::read(folder.join("record.json"))?)?;
        let version = &stored["format_version"];
        let version = format!("{}.{}", version["major"], version["minor"]);
        let scoring = stored["scoring"].as_str().ok_or("no rules")?;
        let (_, columns) = line(&readme, name)?;
        assert_eq!(columns[2..4], [version.as_str(), scoring], "{name}");
        assert_eq!(stored["plan"]["claims"], Value::Null, "{name} has a ledger");
        let carried = report(&folder, "json")?;
        let run = RunRecord::from_json(carried.as_bytes())?;
        assert_eq!(run.format_version, FORMAT_VERSION, "{name}");
        assert_ne!(run.scoring, scoring, "{name} is not scored again");
        assert!(!run.claims.is_empty(), "{name}");
        let carried: Value = serde_json::from_str(&carried)?;
        assert_eq!(measured(&carried), measured(&stored), "{name}");
    }
    Ok(())
}

/// The folder name gives the GPU and the driver. The README lists each example and says which runs
/// were interrupted.
#[test]
fn each_example_matches_its_name_and_its_line_in_the_readme() -> TestResult {
    let readme = std::fs::read_to_string(examples().join("README.md"))?;
    let mut count = 0;
    for entry in std::fs::read_dir(examples())? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        count += 1;
        let name = entry.file_name().into_string().map_err(|_| "a plain name")?;
        let (line, _) = line(&readme, &name)?;
        let run: Value = serde_json::from_str(&report(&entry.path(), "json")?)?;
        let device = &run["device"];
        assert_eq!(device["kind"], "real", "{name}");
        let interrupted = line.contains("interrupted");
        assert_eq!(run["complete"] == false, interrupted, "{name}");
        let driver = device["driver"].as_str().ok_or("a driver")?;
        let product = device["name"].as_str().ok_or("a name")?.to_lowercase();
        let [model, driver_version, ..] = name.split('_').collect::<Vec<_>>()[..] else {
            return Err(format!("{name}: not MODEL_DRIVER_SUFFIX").into());
        };
        assert!(product.contains(model), "{name}: {product}");
        assert_eq!(driver_version, driver, "{name}");
        let text = report(&entry.path(), "terminal")?;
        assert!(!text.contains("VIRTUAL") && text.contains("(real)"), "{name}");
        // These records are older than proofs of single cells.
        assert!(text.contains("PROOFS BY MECHANISM"), "{name}: {text}");
    }
    assert!(count > 0, "no example");
    Ok(())
}
