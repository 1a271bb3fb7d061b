//! JSON of the types that other packages read and write whole.
//!
//! serde's code for a type is generic over the format, and each package that names
//! `serde_json::from_slice::<RunRecord>` compiles all of it again: with three formats of the input
//! that was most of what compiling the reports took. Behind this trait it is compiled once, here.

use serde_json::Result;

use crate::event::RunEvent;
use crate::run::RunRecord;
use crate::telemetry::TelemetryRow;
use crate::user_victim::ToProgram;
use crate::wire::{FromTenant, ToTenant};

/// A type with JSON of its own. Figures read back as the bits that they were.
pub trait Json: Sized {
    /// Reads a value.
    /// Fails when the bytes are no JSON, or not of this type.
    fn from_json(json: &[u8]) -> Result<Self>;

    /// The value on one line, without a line feed.
    /// Fails when a part of it has no JSON.
    fn to_json(&self) -> Result<String>;
}

macro_rules! json {
    ($($of:ty),+) => {
        $(
            impl Json for $of {
                fn from_json(json: &[u8]) -> Result<Self> {
                    serde_json::from_str(text(json)?)
                }

                fn to_json(&self) -> Result<String> {
                    serde_json::to_string(self)
                }
            }
        )+
    };
}

json!(FromTenant, RunEvent, RunRecord, TelemetryRow, ToProgram, ToTenant);

/// The bytes as text: one look at all of them is faster than one at each text in them.
fn text(json: &[u8]) -> Result<&str> {
    std::str::from_utf8(json).map_err(|error| {
        // The parser names the line and column.
        let found = serde_json::from_slice::<serde_json::Value>(json).err();
        found.unwrap_or_else(|| serde::de::Error::custom(error))
    })
}

/// A record as a JSON value.
/// Fails when a part of it has no JSON.
pub fn value(record: &RunRecord) -> Result<serde_json::Value> {
    serde_json::from_str(&record.to_json()?)
}

/// A record as indented JSON.
/// Fails when a part of it has no JSON.
pub fn indented(record: &RunRecord) -> Result<String> {
    serde_json::to_string_pretty(record)
}
