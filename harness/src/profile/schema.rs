//! The published JSON Schema of profiles, and the list of keys in their README.

use serde_json::{Map, Value};

use super::Profile;
use super::built_in::DEFAULT;
use super::hash::sorted;

/// The schema of a profile file, as `profiles/schema.json` holds it.
#[must_use]
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(Profile).to_value();
    // A file is laid over the default, so only its version is required.
    remove_required(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("required".to_owned(), serde_json::json!(["version"]));
    }
    sorted(&schema)
}

fn remove_required(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("required");
            map.values_mut().for_each(remove_required);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_required),
        _ => {}
    }
}

/// The Markdown table of every key with its default, as `profiles/README.md` holds it.
#[must_use]
pub fn keys_table() -> String {
    let schema = schema();
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
