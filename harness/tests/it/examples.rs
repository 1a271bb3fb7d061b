//! The records of real GPUs that come with the project can be read by the program of today.

use crate::support::{Error, TestResult, binary};
use std::path::{Path, PathBuf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/examples")
}

fn report(record: &Path, format: &str) -> Result<String, Error> {
    let output = binary()
        .args(["report", "--format", format])
        .arg(record)
        .output()?;
    let complaint = String::from_utf8(output.stderr)?;
    assert!(output.status.success(), "{}: {complaint}", record.display());
    Ok(String::from_utf8(output.stdout)?)
}

/// Each is of the GPU and driver that its folder is named after, and told of in the README, also
/// where it was interrupted.
#[test]
fn each_example_is_of_the_gpu_that_it_is_named_after() -> TestResult {
    let told = std::fs::read_to_string(examples().join("README.md"))?;
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
        assert!(told.contains(&format!("`{name}`")), "{name} is not told of");
        let run: serde_json::Value = serde_json::from_str(&report(&entry.path(), "json")?)?;
        let device = &run["device"];
        assert_eq!(device["kind"], "real", "{name}");
        let line = told
            .lines()
            .find(|line| line.contains(&format!("`{name}`")));
        let says_so = line.is_some_and(|line| line.contains("interrupted"));
        assert_eq!(run["complete"] == false, says_so, "{name}");
        let driver = device["driver"].as_str().ok_or("a driver")?;
        let product = device["name"].as_str().ok_or("a name")?.to_lowercase();
        let [model, of_driver, ..] = name.split('_').collect::<Vec<_>>()[..] else {
            return Err(format!("{name}: not MODEL_DRIVER_WHAT").into());
        };
        assert!(product.contains(model), "{name}: {product}");
        assert_eq!(of_driver, driver, "{name}");
        let text = report(&entry.path(), "terminal")?;
        assert!(
            !text.contains("VIRTUAL") && text.contains("(real)"),
            "{name}"
        );
    }
    assert!(count > 0, "no example");
    Ok(())
}
