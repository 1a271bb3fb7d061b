//! Files generated from the profile: its schema and the table of keys.

use std::path::PathBuf;

use super::super::schema;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Compares a generated file with the one checked in, or writes it where
/// `GPUBENCH_REGENERATE` is set.
fn assert_generated(file: &str, generated: &str) -> TestResult {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../profiles").join(file);
    if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
        std::fs::write(&path, generated)?;
    }
    let found = std::fs::read_to_string(&path)?;
    assert!(
        found == generated,
        "profiles/{file} is out of date: run `GPUBENCH_REGENERATE=1 cargo test -p gpubench profile`"
    );
    Ok(())
}

#[test]
fn the_published_schema_is_up_to_date() -> TestResult {
    let text = serde_json::to_string_pretty(&schema::schema())? + "\n";
    assert_generated("schema.json", &text)
}

#[test]
fn the_readme_lists_every_key() -> TestResult {
    const BEGIN: &str = "<!-- keys: generated, do not edit -->\n";
    const END: &str = "<!-- end of keys -->";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../profiles/README.md");
    let found = std::fs::read_to_string(path)?;
    let (before, rest) = found.split_once(BEGIN).ok_or("no mark where the keys begin")?;
    let (_, after) = rest.split_once(END).ok_or("no mark where the keys end")?;
    let keys = schema::keys_table();
    assert!(keys.lines().count() > 30, "{keys}");
    for line in keys.lines().skip(2) {
        assert!(
            !line.contains("| - |") && !line.ends_with("|  |"),
            "a default and a meaning: {line}"
        );
    }
    assert_generated("README.md", &format!("{before}{BEGIN}{keys}{END}{after}"))
}
