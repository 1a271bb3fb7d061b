//! JSON of the types that other packages read and write whole.
//!
//! serde's code for a type is generic over the format, and each package that names
//! `serde_json::from_slice::<RunRecord>` compiles all of it again: with three formats of the input
//! that was most of what compiling the reports took. Behind this trait it is compiled once, here.

use std::io::Write;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Result;

use crate::cell::CellResult;
use crate::event::RunEvent;
use crate::plan::Cell;
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

json!(Cell, CellResult, FromTenant, RunEvent, RunRecord, TelemetryRow, ToProgram, ToTenant);

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

/// Writes a record as indented JSON with a final line feed, piece by piece.
pub fn write(record: &RunRecord, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, record)?;
    out.write_all(b"\n")
}

/// Whether the JSON of what is scored reads back as it was, which a figure that is not finite does
/// not. The rest of a record was read from JSON, or compared when it was written.
pub fn check_scored(run: &RunRecord) -> std::result::Result<(), String> {
    fn same<T: Serialize + DeserializeOwned + PartialEq>(part: &T) -> Result<bool> {
        Ok(serde_json::from_str::<T>(&serde_json::to_string(part)?)? == *part)
    }
    for (name, found) in [
        ("matrix", same(&run.matrix)),
        ("overall", same(&run.overall)),
        ("probe_figures", same(&run.probe_figures)),
        ("fault_tallies", same(&run.fault_tallies)),
        ("service", same(&run.service)),
        ("transients", same(&run.transients)),
        ("energy", same(&run.energy)),
        ("attribution", same(&run.attribution)),
        ("tenant_limits", same(&run.tenant_limits)),
        ("dose_curves", same(&run.dose_curves)),
        ("operator", same(&run.operator)),
        ("claims", same(&run.claims)),
    ] {
        match found {
            Ok(true) => {}
            Ok(false) => return Err(format!("its {name} reads back differently")),
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    Ok(())
}

/// A record as indented JSON.
/// Fails when a part of it has no JSON.
pub fn indented(record: &RunRecord) -> Result<String> {
    serde_json::to_string_pretty(record)
}
