//! The published JSON Schema of profiles.

use serde_json::Value;

use super::Profile;
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
