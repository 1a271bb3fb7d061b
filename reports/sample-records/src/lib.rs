//! Handmade records, one for each situation that a report must distinguish.

use gpubench_record::sample::MISSING;
use gpubench_record::{
    Calibration, DeviceKind, FORMAT_VERSION, Json, Outcome, Phase, Plan, Provenance, RunRecord,
    SampleRow, SampleStatus,
};

/// Every sample record, with the name of its golden files.
pub fn all() -> Vec<(&'static str, RunRecord)> {
    vec![
        ("real", real()),
        ("virtual", on_the_virtual_gpu()),
        ("incomplete", incomplete()),
        ("all-waived", all_waived()),
    ]
}

/// A complete run on a real GPU, with every outcome.
pub fn real() -> RunRecord {
    let record = RunRecord::from_json(include_bytes!("real.json")).expect("a record");
    RunRecord { format_version: FORMAT_VERSION, ..record }
}

pub fn plan(decides: bool, blocks: u32) -> Plan {
    let profile = if decides { "default" } else { "smoke" }.to_owned();
    Plan { profile, decides, blocks, ..real().plan }
}

pub fn provenance(ended_at: Option<&str>) -> Provenance {
    Provenance { ended_at: ended_at.map(str::to_owned), ..real().provenance }
}

pub fn calibration() -> Calibration {
    real().calibration
}

/// The same on the virtual GPU, with a profile that decides nothing.
pub fn on_the_virtual_gpu() -> RunRecord {
    let mut record = real();
    (record.device.kind, record.device.name) = (DeviceKind::Virtual, "Virtual Turing".to_owned());
    record.provenance.clock = "virtual".to_owned();
    record.provenance.timer_floor_ns.clear();
    record.profile.name = "smoke".to_owned();
    record.plan = plan(false, 6);
    record.mechanisms.truncate(2);
    record.matrix.truncate(3);
    record.overall.truncate(1);
    record.fault_tallies.clear();
    record.cells.retain(|cell| cell.outcome.is_measured());
    record
}

/// An interrupted run with text that contains markup and escape sequences.
pub fn incomplete() -> RunRecord {
    let mut record = real();
    record.complete = false;
    record.incomplete_reason = Some("interrupted by the user in block 3".to_owned());
    record.provenance.ended_at = None;
    record.device.name = "GPU <script>alert(1)</script> | \u{1b}[31mred\n".to_owned();
    record.cells.truncate(2);
    record.matrix.truncate(2);
    record.matrix[1].outcome = Outcome::inconclusive("aggressor \"fma\" & co | ended *early* <b>");
    record.matrix[1].warnings = vec!["only 3 of 8 blocks, 5 more needed".to_owned()];
    record.overall.clear();
    record.fault_tallies.clear();
    record
}

/// A host on which nothing could run.
pub fn all_waived() -> RunRecord {
    let mut record = real();
    record.calibration = Calibration::default();
    record.matrix.clear();
    record.overall.clear();
    record.fault_tallies.clear();
    record.cells.clear();
    record.operator.clear();
    for row in &mut record.mechanisms {
        row.outcome = Outcome::waived("the GPU is in use by process 4711");
        row.remedy = Some("stop process 4711, or choose another --device".to_owned());
        row.proof.clear();
    }
    record
}

/// A completed open-loop request.
pub fn row(seq: u64) -> SampleRow {
    SampleRow {
        seq,
        t_sched_ns: seq * 1_000,
        t_issue_ns: seq * 1_000 + 40,
        t_ret_ns: seq * 1_000 + 300,
        t_done_ns: seq * 1_000 + 900,
        gpu_ns: if seq.is_multiple_of(3) { MISSING } else { 512 },
        error: 0,
        phase: Phase::Open,
        status: SampleStatus::Ok,
        issuer_idle: seq.is_multiple_of(2),
    }
}
