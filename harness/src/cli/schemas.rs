//! The published schemas of what this package prints as JSON: records, plans and catalogues. Those
//! of comparisons are checked beside their types.

use std::path::Path;

use gpubench_record::RunRecord;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::plan;
use crate::verbs::{Rehearsed, listing};

/// The schema of what is printed: a field that is always printed is required.
fn schema_of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

/// Compares a schema with the one checked in, or writes it where `GPUBENCH_REGENERATE` is set.
#[test]
fn the_published_schemas_are_up_to_date() -> Result<(), Box<dyn std::error::Error>> {
    for (name, schema) in [
        ("record", schema_of::<RunRecord>()),
        ("plan", schema_of::<plan::AsJson<'_>>()),
        ("rehearsal", schema_of::<Vec<Rehearsed>>()),
        ("list", schema_of::<Vec<listing::Entry<'_>>>()),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/schema");
        let path = folder.join(format!("{name}.json"));
        let mut value = schema.to_value();
        // With some features of serde_json maps keep the order of insertion.
        value.sort_all_objects();
        let text = serde_json::to_string_pretty(&value)? + "\n";
        if std::env::var_os("GPUBENCH_REGENERATE").is_some() {
            std::fs::write(&path, &text)?;
        }
        assert!(
            std::fs::read_to_string(&path)? == text,
            "{name}.json is out of date: run `GPUBENCH_REGENERATE=1 cargo test -p gpubench schemas`"
        );
    }
    Ok(())
}
