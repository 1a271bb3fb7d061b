//! Files generated from the profile: its schema and the table of keys.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::super::built_in::DEFAULT;
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
    let keys = keys_table();
    assert!(keys.lines().count() > 30, "{keys}");
    for line in keys.lines().skip(2) {
        assert!(
            !line.contains("| - |") && !line.ends_with("|  |"),
            "a default and a meaning: {line}"
        );
    }
    assert_generated("README.md", &format!("{before}{BEGIN}{keys}{END}{after}"))
}

/// The Markdown table of every key with its default, as `profiles/README.md` holds it.
fn keys_table() -> String {
    let schema = schema::schema();
    // The default profile is part of the binary, and every load parses it.
    let defaults = DEFAULT.text.parse::<toml::Table>().unwrap_or_default();
    let mut lines = vec!["| key | default | meaning |".to_owned(), "|---|---|---|".to_owned()];
    let root = schema.as_object().cloned().unwrap_or_default();
    for (key, property) in properties(&root, &root) {
        let default = defaults.get(&key);
        let fields = properties(&root, &resolve(&root, &property));
        if fields.is_empty() {
            lines.push(line(&key, default, &property));
        }
        for (field, property) in fields {
            let default = default.and_then(|table| table.get(&field));
            lines.push(line(&format!("{key}.{field}"), default, &property));
        }
    }
    lines.join("\n") + "\n"
}

fn line(key: &str, default: Option<&toml::Value>, property: &Map<String, Value>) -> String {
    let default = default.map_or_else(|| "-".to_owned(), |value| format!("`{value}`"));
    let meaning = property.get("description").and_then(Value::as_str).unwrap_or("");
    format!("| `{key}` | {default} | {} |", meaning.replace('\n', " "))
}

/// The properties of an object schema, in the order of the schema.
fn properties(
    root: &Map<String, Value>,
    schema: &Map<String, Value>,
) -> Vec<(String, Map<String, Value>)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let entries = properties.into_iter().flatten().filter_map(|(key, property)| {
        let mut property = property.as_object()?.clone();
        if !property.contains_key("description") {
            let target = resolve(root, &property);
            property.extend(target.get("description").cloned().map(|d| ("description".into(), d)));
        }
        Some((key.clone(), property))
    });
    entries.collect()
}

/// The target of `$ref`, or the schema itself.
fn resolve(root: &Map<String, Value>, schema: &Map<String, Value>) -> Map<String, Value> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    let target = name.and_then(|name| root.get("$defs")?.get(name)?.as_object());
    target.unwrap_or(schema).clone()
}
