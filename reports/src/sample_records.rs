//! Records made by hand, one for each situation that a report must tell apart.

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::run::{Calibration, CalibrationEntry, ProfileRef};
use gpubench_record::tally::Times;
use gpubench_record::{
    Cell, CellResult, CellTenant, Condition, DeviceIdentity, DeviceKind, Durations, Estimate,
    FORMAT_VERSION, FaultTally, Gate, GateResult, GateScope, GateState, Harm, MatrixRow,
    MechanismRow, Outcome, OverallRow, Plan, PlannedPair, ProbeFigure, Proof, Provenance, Role,
    RunRecord, Skip, SubAxis, TenantResult, Thresholds, WorkloadSpec,
};

/// Every sample record with the name of its golden files.
pub(crate) fn all() -> Vec<(&'static str, RunRecord)> {
    vec![
        ("real", real()),
        ("virtual", on_the_virtual_gpu()),
        ("incomplete", incomplete()),
        ("all-waived", all_waived()),
    ]
}

/// A whole run on silicon, with every outcome in it.
pub(crate) fn real() -> RunRecord {
    let slicing = "time-slicing[slice=default]";
    RunRecord {
        format_version: FORMAT_VERSION,
        scoring: "scoring-v1".to_owned(),
        complete: true,
        incomplete_reason: None,
        device: device(DeviceKind::Real, "NVIDIA H100 80GB HBM3"),
        provenance: provenance(Some("2026-03-01T02:09:51Z")),
        profile: ProfileRef {
            name: "default".to_owned(),
            hash: "5eed".repeat(16),
        },
        calibration: calibration(),
        seed: 42,
        plan: plan(true, 8),
        mechanisms: vec![
            mechanism("exclusive", "exclusive", Outcome::measured(), false),
            mechanism("time-slicing", slicing, Outcome::measured(), false),
            mechanism("mig", "mig[3g+3g]", Outcome::measured(), true),
            MechanismRow {
                remedy: Some("install HAMi 2.5 or later".to_owned()),
                proof: Vec::new(),
                ..mechanism(
                    "hami",
                    "hami[cores=50]",
                    Outcome::waived("no libvgpu.so found"),
                    false,
                )
            },
        ],
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
            overall("time-slicing", slicing, Some("L0"), Some("compute"), &[]),
            overall("mig", "mig[3g+3g]", None, None, &["memory"]),
        ],
        cells: cells(),
        probes: Vec::new(),
        service: Vec::new(),
        tenant_limits: Vec::new(),
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
        claims: Vec::new(),
    }
}

/// The same on the virtual GPU, with the profile that decides nothing.
pub(crate) fn on_the_virtual_gpu() -> RunRecord {
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

/// A run that was interrupted, and says things that markup and terminals must not obey.
pub(crate) fn incomplete() -> RunRecord {
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
pub(crate) fn all_waived() -> RunRecord {
    let mut record = real();
    record.calibration = Calibration::new(BTreeMap::new());
    record.matrix.clear();
    record.overall.clear();
    record.fault_tallies.clear();
    record.cells.clear();
    for row in &mut record.mechanisms {
        row.outcome = Outcome::waived("the GPU is in use by process 4711");
        row.remedy = Some("stop process 4711, or choose another --device".to_owned());
        row.proof.clear();
    }
    record
}

/// A plan of two cells, each with a victim and a neighbour.
pub(crate) fn plan(decides: bool, blocks: u32) -> Plan {
    Plan {
        profile: if decides { "default" } else { "smoke" }.to_owned(),
        profile_hash: "5eed".repeat(16),
        decides,
        seed: 42,
        tenants: 2,
        share: 3.0 / 7.0,
        load: 0.25,
        bursts: None,
        slo_ns: None,
        slo_share: 0.99,
        neighbours: Vec::new(),
        sweep: Vec::new(),
        service_ns: 1_000_000,
        telemetry_period_ns: 100_000_000,
        foreign: None,
        axes: ["compute", "bandwidth", "jitter", "fault"]
            .map(str::to_owned)
            .into(),
        blocks,
        durations: Durations {
            warmup_ns: 1,
            closed_ns: 2,
            open_ns: 3,
            gap_ns: 0,
        },
        thresholds: Thresholds::default(),
        mechanisms: vec![PlannedMechanism {
            properties: gpubench_record::MechanismProperties::of_format_1_0("time-slicing"),
            name: "time-slicing".to_owned(),
            variant: "time-slicing[slice=default]".to_owned(),
            host_changes: Vec::new(),
            unprotected: Some("time-slicing[slice=default]".to_owned()),
        }],
        cells: ["b00-c000", "b00-c001", "b00-c002", "b01-c003"]
            .map(cell)
            .into(),
        fault_trials: Vec::new(),
        workloads: BTreeMap::new(),
        pairs: vec![PlannedPair {
            sub_axis: SubAxis::Sm,
            victim: "fma".to_owned(),
            aggressor: "fma".to_owned(),
        }],
        jitter_from: SubAxis::Sm,
        reference: "exclusive".to_owned(),
        claimed: Vec::new(),
        skips: vec![Skip {
            name: "mps".to_owned(),
            variant: "mps".to_owned(),
            axis: Some("power".to_owned()),
            reason: "NVML reports no power on this board".to_owned(),
            remedy: None,
        }],
    }
}

fn cell(id: &str) -> Cell {
    let tenant = |name: &str, role, workload: Option<&str>| CellTenant {
        tenant: name.to_owned(),
        role,
        workload: workload.map(str::to_owned),
    };
    Cell {
        id: id.to_owned(),
        block: u32::from(id.starts_with("b01")),
        group: "g0".to_owned(),
        mechanism: "time-slicing".to_owned(),
        variant: "time-slicing[slice=default]".to_owned(),
        sub_axis: SubAxis::Sm,
        condition: Condition::C,
        victim: "fma".to_owned(),
        aggressor: Some("fma".to_owned()),
        dose: 1.0,
        tenants: vec![
            tenant("victim", Role::Victim, Some("fma")),
            tenant("neighbour-1", Role::Aggressor, Some("fma")),
        ],
        schedule_seed: 7,
        closed_only: false,
    }
}

pub(crate) fn device(kind: DeviceKind, name: &str) -> DeviceIdentity {
    DeviceIdentity {
        kind,
        name: name.to_owned(),
        uuid: "GPU-7a1c0de5-0000-4b1d-8e57-0123456789ab".to_owned(),
        driver: "550.54.15".to_owned(),
        cuda: "12.4".to_owned(),
        compute_capability: "9.0".to_owned(),
        sm_count: 132,
        memory_mib: 81_559,
        l2_kib: 51_200,
        pci_id: Some("0x233010DE".to_owned()),
        facts: BTreeMap::from([("ecc".to_owned(), "on".to_owned())]),
    }
}

pub(crate) fn provenance(ended_at: Option<&str>) -> Provenance {
    Provenance {
        gpubench: "0.1.0".to_owned(),
        started_at: "2026-03-01T02:00:00Z".to_owned(),
        ended_at: ended_at.map(str::to_owned),
        command: vec!["gpubench".to_owned(), "matrix".to_owned()],
        host: BTreeMap::from([("cpu".to_owned(), "64 cores".to_owned())]),
        clock: "wall".to_owned(),
        timer_floor_ns: BTreeMap::from([("clock_read_p50".to_owned(), 21)]),
    }
}

pub(crate) fn calibration() -> Calibration {
    Calibration::new(BTreeMap::from([(
        "fma".to_owned(),
        CalibrationEntry {
            spec: WorkloadSpec {
                name: "fma".to_owned(),
                params: BTreeMap::from([("grid".to_owned(), 56)]),
            },
            native_rate_per_s: 998.7,
            service_ns: 1_001_300,
            work_per_request: 0.1 + 0.2,
            unit: "GFLOP".to_owned(),
        },
    )]))
}

fn mechanism(name: &str, variant: &str, outcome: Outcome, hardware: bool) -> MechanismRow {
    let proof = |when: &str, holds| Proof {
        when: when.to_owned(),
        check: "compute processes listed by NVML".to_owned(),
        holds,
        evidence: "pids 812, 813 on one device".to_owned(),
        hardware,
        limiter: name == "mig",
    };
    let proof = vec![proof("before", true), proof("during", true)];
    MechanismRow {
        name: name.to_owned(),
        variant: variant.to_owned(),
        outcome,
        remedy: None,
        proof,
    }
}

fn estimate(value: f64, lo: f64, hi: f64, n: u32, unit: &str) -> Option<Estimate> {
    Some(Estimate {
        value,
        lo,
        hi,
        n,
        unit: unit.to_owned(),
    })
}

fn empty_row(mechanism: &str, variant: &str, axis: &str, sub_axis: Option<&str>) -> MatrixRow {
    MatrixRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        axis: axis.to_owned(),
        sub_axis: sub_axis.map(str::to_owned),
        victim: None,
        aggressor: None,
        outcome: Outcome::measured(),
        warnings: Vec::new(),
        level: None,
        word: None,
        claimed: Vec::new(),
        u_kind: None,
        retention: None,
        guarantee: None,
        efficiency: None,
        effectiveness: None,
        isolation_index: None,
        jitter: None,
        survival: None,
        overshoot: None,
        requests: 0,
    }
}

fn reference_row() -> MatrixRow {
    MatrixRow {
        word: Some("reference".to_owned()),
        retention: estimate(0.999_8, 0.996_1, 1.003_5, 8, "ratio"),
        requests: 15_980,
        ..empty_row("exclusive", "exclusive", "compute", Some("sm"))
    }
}

fn slicing_row(axis: &str, sub_axis: Option<&str>, aggressor: &str, retention: f64) -> MatrixRow {
    let ratio = |value: f64| estimate(value, value - 0.004_2, value + 0.004_2, 8, "ratio");
    MatrixRow {
        aggressor: Some(aggressor.to_owned()),
        level: Some("L0".to_owned()),
        word: Some("None".to_owned()),
        claimed: vec!["survey-2024: None".to_owned(), "vendor: Partial".to_owned()],
        u_kind: Some("time-slicing".to_owned()),
        retention: ratio(retention),
        guarantee: ratio(retention - 0.012),
        efficiency: ratio(0.976),
        effectiveness: ratio(0.485),
        isolation_index: estimate(0.003, -0.011_2, 0.017_4, 8, "index"),
        requests: 24_112,
        ..empty_row(
            "time-slicing",
            "time-slicing[slice=default]",
            axis,
            sub_axis,
        )
    }
}

fn jitter_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("fma".to_owned()),
        level: Some("L0".to_owned()),
        word: Some("High".to_owned()),
        warnings: vec!["the p99 of one block rests on 371 requests".to_owned()],
        jitter: estimate(2.31, 2.174, 2.451, 7, "native medians"),
        requests: 3_391,
        ..empty_row(
            "time-slicing",
            "time-slicing[slice=default]",
            "jitter",
            None,
        )
    }
}

fn mig_row() -> MatrixRow {
    let why = "interval straddles 0.95: L2 or L3, 14 blocks would decide";
    MatrixRow {
        aggressor: Some("stream-copy".to_owned()),
        outcome: Outcome::inconclusive(why),
        level: Some("L2..L3".to_owned()),
        word: Some("Hardware".to_owned()),
        claimed: vec!["vendor: Hardware".to_owned()],
        retention: estimate(0.957, 0.949_96, 0.964, 8, "ratio"),
        guarantee: estimate(0.951, 0.94, 0.962, 6, "ratio"),
        requests: 22_004,
        ..empty_row("mig", "mig[3g+3g]", "bandwidth", Some("dram"))
    }
}

fn fault_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("illegal-address".to_owned()),
        level: Some("L3".to_owned()),
        word: Some("Hardware".to_owned()),
        survival: estimate(1.0, 0.95, 1.0, 59, "proportion"),
        ..empty_row("mig", "mig[3g+3g]", "fault", None)
    }
}

/// Five nights of it.
fn fault_tally() -> FaultTally {
    FaultTally {
        mechanism: "mig".to_owned(),
        variant: "mig[3g+3g]".to_owned(),
        fault: "illegal-address".to_owned(),
        class: "mmu".to_owned(),
        records: 5,
        trials: 59,
        left_out: 1,
        contained: 59,
        survival: estimate(1.0, 0.95, 1.0, 59, "proportion"),
        more_for_l2: Some(0),
        more_for_l3: Some(0),
        victims: [(Harm::Unharmed, 59)].into(),
        own_codes: [(700, 59)].into(),
        xids: [(31, 58), (45, 1)].into(),
        detected: Times::of([90_000, 110_000, 1_200_000]),
        next_good: Times::of([800_000, 2_100_000]),
        new_client: Times::of([120_000_000, 124_000_000]),
        recovery_before: [(0, 59)].into(),
        recovery_after: [(0, 59)].into(),
        left_as_found: 59,
        ..FaultTally::default()
    }
}

fn overall(
    mechanism: &str,
    variant: &str,
    level: Option<&str>,
    weakest: Option<&str>,
    unmeasured: &[&str],
) -> OverallRow {
    OverallRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: level.map(str::to_owned),
        weakest_axis: weakest.map(str::to_owned),
        unmeasured_axes: unmeasured.iter().map(|&axis| axis.to_owned()).collect(),
    }
}

fn cells() -> Vec<CellResult> {
    let outcomes = [
        Outcome::measured(),
        Outcome::inconclusive("the aggressor ended 12 ms before the window did"),
        Outcome::inconclusive("overlap 0.91, below 0.95"),
        Outcome::failed("victim of cell b07-c031 was killed from outside"),
    ];
    let cells = plan(true, 8).cells.into_iter().zip(outcomes);
    cells
        .map(|(cell, outcome)| cell_result(&cell, outcome))
        .collect()
}

fn cell_result(cell: &Cell, outcome: Outcome) -> CellResult {
    let results = cell.tenants.iter().map(|tenant| TenantResult {
        rows: 3_010,
        ..TenantResult::ready(tenant, None)
    });
    CellResult {
        cell: cell.clone(),
        rates: BTreeMap::from([("closed_rate_per_s".to_owned(), 497.3)]),
        requests: BTreeMap::from([("closed".to_owned(), 2_486)]),
        outcome,
        gates: vec![GateResult {
            gate: Gate::Other("overlap".to_owned()),
            state: GateState::Passed,
            scope: GateScope::Cell,
            detail: "0.997 of the window, at least 0.95".to_owned(),
        }],
        tenant_results: results.collect(),
    }
}
