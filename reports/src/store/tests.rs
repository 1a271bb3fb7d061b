//! Record folders for the tests of this room: finished, crashed and damaged.

mod cuts;
mod finishing;
mod latencies;
mod old_formats;
mod opening;
mod properties;
mod reopening;

use std::io::Write as _;
use std::path::Path;

use gpubench_record::{
    CellTenant, FORMAT_VERSION, Role, RunEvent, SampleRow, TelemetryRow, TenantResult,
};
use tempfile::TempDir;

use super::samples_for_tests::{log_bytes, row};
use super::{EventLog, TelemetryLog, log_path};
use crate::sample_records;

pub(super) fn began() -> RunEvent {
    RunEvent::Began {
        format_version: FORMAT_VERSION,
        plan: Box::new(sample_records::plan(true, 8)),
        device: Box::new(sample_records::real().device),
        provenance: Box::new(sample_records::provenance(None)),
        settings: None,
    }
}

pub(super) fn cell_ended(id: &str, rows: u64) -> RunEvent {
    let tenant = |name: &str, role| {
        let planned =
            CellTenant { tenant: name.to_owned(), role, workload: Some("fma".to_owned()) };
        TenantResult { rows, ..TenantResult::ready(&planned, None) }
    };
    RunEvent::CellEnded {
        id: id.to_owned(),
        tenants: vec![tenant("victim", Role::Victim), tenant("neighbour-1", Role::Aggressor)],
        failure: None,
        other_processes: Some(Vec::new()),
        throttle_reasons: None,
        xids: None,
        xid_lines: None,
        cpu_steal_ratio: None,
        surroundings: Box::default(),
    }
}

pub(super) fn write_log(dir: &Path, cell: &str, tenant: &str, rows: &[SampleRow]) {
    let path = log_path(dir, cell, tenant).unwrap();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, log_bytes(rows, rows.len() as u64 + 5)).unwrap();
}

pub(super) fn reading(t_ns: u64) -> TelemetryRow {
    TelemetryRow {
        t_ns,
        cell: "b00-c000".to_owned(),
        source: "nvml".to_owned(),
        metric: "power".to_owned(),
        value: 0.1 + t_ns as f64,
        unit: "mW".to_owned(),
    }
}

pub(super) fn victim_rows() -> Vec<SampleRow> {
    (0..200).map(row).collect()
}

/// A run that crashed in its second cell.
pub(super) fn crashed_run() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventLog::create(dir.path()).unwrap();
    events.append(&began()).unwrap();
    events
        .append(&RunEvent::Calibrated { calibration: sample_records::calibration(), device: None })
        .unwrap();
    events.append(&RunEvent::CellBegan { id: "b00-c000".to_owned() }).unwrap();
    write_log(dir.path(), "b00-c000", "victim", &victim_rows());
    write_log(dir.path(), "b00-c000", "neighbour-1", &victim_rows()[..7]);
    events.append(&cell_ended("b00-c000", 7)).unwrap();
    events.append(&RunEvent::CellBegan { id: "b00-c001".to_owned() }).unwrap();
    write_log(dir.path(), "b00-c001", "victim", &victim_rows()[..3]);
    let mut telemetry = TelemetryLog::create(dir.path()).unwrap();
    (0..5).for_each(|t| telemetry.append(&reading(t)).unwrap());
    dir
}

pub(super) fn append_bytes(path: &Path, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().append(true).open(path);
    file.unwrap().write_all(bytes).unwrap();
}
