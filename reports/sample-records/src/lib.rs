//! Handmade records, one for each situation that a report must distinguish.

mod rows;

use std::collections::BTreeMap;

use gpubench_record::Calibration;
use gpubench_record::run::ProfileRef;
use gpubench_record::sample::MISSING;
use gpubench_record::{
    Cell, CellFigures, CellResult, DeviceKind, FORMAT_VERSION, Gate, GateKind, GateResult,
    GateScope, GateState, MatrixRow, MechanismRow, Outcome, ProbeFigure, RunRecord, TenantResult,
};
use gpubench_record::{Phase, SampleRow, SampleStatus};

pub use rows::{calibration, device, plan, provenance};
use rows::{
    claims, empty_row, estimate, fault_row, fault_tally, jitter_row, mechanism, mig_row,
    operator_row, overall, reference_row, slicing_row,
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
    let slicing = "time-slicing[slice=default]";
    RunRecord {
        format_version: FORMAT_VERSION,
        scoring: "scoring-v1".to_owned(),
        complete: true,
        incomplete_reason: None,
        device: device(DeviceKind::Real, "NVIDIA H100 80GB HBM3"),
        provenance: provenance(Some("2026-03-01T02:09:51Z")),
        profile: ProfileRef { name: "default".to_owned(), hash: "5eed".repeat(16) },
        calibration: calibration(),
        seed: 42,
        plan: plan(true, 8),
        mechanisms: mechanisms(slicing),
        matrix: vec![
            reference_row(),
            slicing_row("compute", Some("sm"), "fma", 0.497),
            slicing_row("bandwidth", Some("dram"), "stream-copy", 0.502),
            jitter_row(),
            mig_row(),
            fault_row(),
            MatrixRow {
                outcome: Outcome::failed("victim of cell b07-c031 was killed from outside"),
                ..empty_row("mig", "mig[3g+3g]", "memory", Some("cap"))
            },
            MatrixRow {
                outcome: Outcome::waived("no libvgpu.so found"),
                ..empty_row("hami", "hami[cores=50]", "compute", Some("sm"))
            },
        ],
        overall: vec![
            overall(
                "time-slicing",
                slicing,
                Some("L0"),
                Some("compute"),
                [&["compute", "jitter"], &[]],
            ),
            overall("mig", "mig[3g+3g]", None, None, [&[], &["memory"]]),
        ],
        cells: cells(),
        superseded: Vec::new(),
        interruptions: Vec::new(),
        probes: Vec::new(),
        service: Vec::new(),
        tenant_limits: Vec::new(),
        dose_curves: Vec::new(),
        probe_figures: estimate(0.497, 0.49, 0.503, 24, "of the device")
            .map(|estimate| ProbeFigure {
                variant: slicing.to_owned(),
                figure: "SM share over 10 ms, alone".to_owned(),
                explains: Some("compute/sm".to_owned()),
                verdict: None,
                estimate,
            })
            .into_iter()
            .collect(),
        fault_trials: Vec::new(),
        fault_trials_stopped: None,
        fault_tallies: vec![fault_tally()],
        records_left_out: Vec::new(),
        operator: vec![operator_row(slicing)],
        device_speed: None,
        claims: claims(slicing),
        problems: Vec::new(),
    }
}

fn mechanisms(slicing: &str) -> Vec<MechanismRow> {
    vec![
        mechanism("exclusive", "exclusive", Outcome::measured(), false),
        mechanism("time-slicing", slicing, Outcome::measured(), false),
        mechanism("mig", "mig[3g+3g]", Outcome::measured(), true),
        MechanismRow {
            remedy: Some("install HAMi 2.5 or later".to_owned()),
            proof: Vec::new(),
            ..mechanism("hami", "hami[cores=50]", Outcome::waived("no libvgpu.so found"), false)
        },
    ]
}

/// The same on the virtual GPU, with a profile that decides nothing.
pub fn on_the_virtual_gpu() -> RunRecord {
    let mut record = real();
    record.device = device(DeviceKind::Virtual, "Virtual Turing");
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

fn cells() -> Vec<CellResult> {
    let outcomes = [
        Outcome::measured(),
        Outcome::inconclusive("the aggressor ended 12 ms before the window did"),
        Outcome::inconclusive("overlap 0.91, below 0.95"),
        Outcome::failed("victim of cell b07-c031 was killed from outside"),
    ];
    let cells = plan(true, 8).cells.into_iter().zip(outcomes);
    cells.map(|(cell, outcome)| cell_result(&cell, outcome)).collect()
}

fn cell_result(cell: &Cell, outcome: Outcome) -> CellResult {
    let results = cell
        .tenants
        .iter()
        .map(|tenant| TenantResult { rows: 3_010, ..TenantResult::ready(tenant, None) });
    CellResult {
        lone_ns: Vec::new(),
        cell: cell.clone(),
        figures: CellFigures { closed_rate_per_s: Some(497.3), ..CellFigures::default() },
        requests: BTreeMap::from([("closed".to_owned(), 2_486)]),
        outcome,
        gates: vec![GateResult {
            gate: Gate::Other("overlap".to_owned()),
            state: GateState::Passed,
            kind: GateKind::Validity,
            scope: GateScope::Cell,
            value: None,
            limit: None,
            unit: None,
            detail: "0.997 of the window, at least 0.95".to_owned(),
        }],
        tenant_results: results.collect(),
    }
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
