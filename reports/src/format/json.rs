//! The record as JSON: the contract for programs.

use std::io::Write;

use gpubench_record::RunRecord;

use super::{Format, RenderError, RenderOptions};
use crate::store::to_json;

/// The JSON format.
pub(super) struct Json;

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "the whole record, for programs; its schema is published and versioned"
    }

    fn render(
        &self,
        record: &RunRecord,
        _options: &RenderOptions,
        out: &mut dyn Write,
    ) -> Result<(), RenderError> {
        let json = to_json(record).map_err(|reason| RenderError::NotJson { reason })?;
        Ok(out.write_all(json.as_bytes())?)
    }
}
