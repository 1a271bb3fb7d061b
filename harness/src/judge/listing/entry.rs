//! One entry of a catalogue, and its form as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One entry: its name, its summary, and its details by key.
pub struct Row {
    /// The name in flags and profiles.
    pub name: String,
    /// The summary in one line.
    pub summary: String,
    pub details: Vec<(&'static str, Value)>,
}

impl Row {
    /// The entry as JSON has it.
    pub fn as_entry(&self) -> Entry<'_> {
        Entry {
            name: &self.name,
            summary: &self.summary,
            details: self.details.iter().map(|(key, value)| (*key, value)).collect(),
        }
    }
}

/// An entry of a catalogue as JSON.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "gpubench list")]
pub struct Entry<'a> {
    /// The name in flags and profiles.
    pub name: &'a str,
    /// The summary in one line.
    pub summary: &'a str,
    /// What else the catalogue has of it.
    #[serde(flatten)]
    pub details: BTreeMap<&'static str, &'a Value>,
}
