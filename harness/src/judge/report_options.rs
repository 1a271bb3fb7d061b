//! What a report of a record shows besides it: latencies, telemetry, and the comparison with
//! earlier records. `gpubench matrix` and `gpubench report` take both from here.

use std::path::PathBuf;

use gpubench_reports::format::Page;
use gpubench_reports::{Format, RenderOptions, Timeline, View};

use super::Opened;
use super::latency_charts::latency_charts;
use super::session::comparison;
use crate::figures::retention_charts;

/// What `format` shows of an opened record, with earlier records to compare it with.
#[must_use]
pub fn report_options(
    opened: &Opened,
    format: &dyn Format,
    view: View,
    earlier: &[PathBuf],
) -> RenderOptions {
    let mut warnings = opened.warnings.clone();
    let record_dir = Some(opened.dir.display().to_string());
    let mut options = RenderOptions { view, record_dir, ..RenderOptions::default() };
    // Of the views of a terminal only the full one shows latencies.
    let has_latencies = view == View::Full || format.name() != "terminal";
    if format.is_for_people() && has_latencies {
        options.latency = latency_charts(&opened.record, &opened.run, &mut warnings);
    }
    if format.draws_charts() {
        options.retention = retention_charts(&opened.run);
        options.timeline = timeline(opened, &mut warnings);
        options.diff = diff(opened, earlier);
    }
    options.warnings = warnings;
    options
}

fn timeline(opened: &Opened, warnings: &mut Vec<String>) -> Option<Timeline> {
    match opened.record.telemetry() {
        Ok(rows) => Timeline::of(&rows),
        Err(error) => {
            warnings.push(format!("no chart of the telemetry: {error}"));
            None
        }
    }
}

/// The comparison with earlier records. One that cannot be made says why.
fn diff(opened: &Opened, earlier: &[PathBuf]) -> Option<Page> {
    if earlier.is_empty() {
        return None;
    }
    Some(comparison(earlier, &opened.dir).unwrap_or_else(|error| Page {
        title: "The earlier records cannot be compared with this one".to_owned(),
        notices: vec![error.to_string()],
        ..Page::default()
    }))
}
