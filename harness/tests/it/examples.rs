//! The current binary reads the example records of real GPUs.

use crate::support::{Error, TestResult, finish, gpubench};
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
        let name = entry
            .file_name()
            .into_string()
            .map_err(|_| "a plain name")?;
        assert!(
            readme.contains(&format!("`{name}`")),
            "{name} is not in the README"
        );
        let run: serde_json::Value = serde_json::from_str(&report(&entry.path(), "json")?)?;
        let device = &run["device"];
        assert_eq!(device["kind"], "real", "{name}");
        let line = readme
            .lines()
            .find(|line| line.contains(&format!("`{name}`")));
        let interrupted = line.is_some_and(|line| line.contains("interrupted"));
        assert_eq!(run["complete"] == false, interrupted, "{name}");
        let driver = device["driver"].as_str().ok_or("a driver")?;
        let product = device["name"].as_str().ok_or("a name")?.to_lowercase();
        let [model, driver_version, ..] = name.split('_').collect::<Vec<_>>()[..] else {
            return Err(format!("{name}: not MODEL_DRIVER_SUFFIX").into());
        };
        assert!(product.contains(model), "{name}: {product}");
        assert_eq!(driver_version, driver, "{name}");
        let text = report(&entry.path(), "terminal")?;
        assert!(
            !text.contains("VIRTUAL") && text.contains("(real)"),
            "{name}"
        );
        // These records are older than proofs of single cells.
        assert!(text.contains("PROOFS BY MECHANISM"), "{name}: {text}");
    }
    assert!(count > 0, "no example");
    Ok(())
}
