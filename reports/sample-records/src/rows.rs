//! Rows of the sample records: mechanisms, matrix, overall levels, fault tallies, claims.

use std::collections::BTreeMap;

use gpubench_record::fault::Times;
use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Axis, Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, CeilingKind, Cell,
    CellTenant, ClaimFigure, ClaimRow, Condition, DeviceIdentity, DeviceKind, Durations, Ends,
    Estimate, FaultTally, Harm, MatrixRow, MechanismRow, OperatorRow, Outcome, OverallRow,
    PeakEntry, Plan, PlannedPair, Proof, ProofTime, Provenance, Role, Skip, SubAxis, TenantTime,
    Thresholds, Verdict, WorkloadSpec,
};

pub fn mechanism(name: &str, variant: &str, outcome: Outcome, hardware: bool) -> MechanismRow {
    let proof = |when, holds| Proof {
        when,
        t_ns: Some(425_000_000),
        check: "compute processes listed by NVML".to_owned(),
        holds,
        evidence: "pids 812, 813 on one device".to_owned(),
        hardware,
        limiter: name == "mig",
    };
    let proof = vec![proof(ProofTime::AtOpen, true), proof(ProofTime::During, true)];
    MechanismRow {
        name: name.to_owned(),
        variant: variant.to_owned(),
        outcome,
        remedy: None,
        proof,
    }
}

pub fn estimate(value: f64, lo: f64, hi: f64, n: u32, unit: &str) -> Option<Estimate> {
    Some(Estimate { value, lo, hi, ends: Ends::Interval, parts: None, n, unit: unit.to_owned() })
}

pub fn empty_row(mechanism: &str, variant: &str, axis: &str, sub_axis: Option<&str>) -> MatrixRow {
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
        tail_at_load: None,
        survival: None,
        clock_part: None,
        overshoot: None,
        requests: 0,
        blocks_lost: None,
    }
}

pub fn reference_row() -> MatrixRow {
    MatrixRow {
        word: Some("reference".to_owned()),
        retention: estimate(0.999_8, 0.996_1, 1.003_5, 8, "ratio"),
        requests: 15_980,
        ..empty_row("exclusive", "exclusive", "compute", Some("sm"))
    }
}

pub fn slicing_row(
    axis: &str,
    sub_axis: Option<&str>,
    aggressor: &str,
    retention: f64,
) -> MatrixRow {
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
        ..empty_row("time-slicing", "time-slicing[slice=default]", axis, sub_axis)
    }
}

pub fn jitter_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("fma".to_owned()),
        level: Some("L0".to_owned()),
        word: Some("High".to_owned()),
        warnings: vec!["the p99 of one block rests on 371 requests".to_owned()],
        jitter: estimate(2.31, 2.174, 2.451, 7, "native medians"),
        requests: 3_391,
        ..empty_row("time-slicing", "time-slicing[slice=default]", "jitter", None)
    }
}

pub fn mig_row() -> MatrixRow {
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

/// The bound of Clopper and Pearson for 59 of 59 trials, with this error in the lower tail.
fn all_of_59(tail: f64) -> f64 {
    tail.powf(1.0 / 59.0)
}

pub fn fault_row() -> MatrixRow {
    MatrixRow {
        aggressor: Some("illegal-address".to_owned()),
        level: Some("L3".to_owned()),
        word: Some("Hardware".to_owned()),
        survival: estimate(1.0, all_of_59(0.025), 1.0, 59, "proportion"),
        ..empty_row("mig", "mig[3g+3g]", "fault", None)
    }
}

/// The trials of five records.
pub fn fault_tally() -> FaultTally {
    FaultTally {
        mechanism: "mig".to_owned(),
        variant: "mig[3g+3g]".to_owned(),
        fault: "illegal-address".to_owned(),
        class: "mmu".to_owned(),
        records: 5,
        trials: 59,
        left_out: 1,
        contained: 59,
        survival: estimate(1.0, all_of_59(0.025), 1.0, 59, "proportion"),
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

pub fn overall(
    mechanism: &str,
    variant: &str,
    level: Option<&str>,
    weakest: Option<&str>,
    [axes, unmeasured]: [&[&str]; 2],
) -> OverallRow {
    OverallRow {
        mechanism: mechanism.to_owned(),
        variant: variant.to_owned(),
        level: level.map(str::to_owned),
        weakest_axis: weakest.map(str::to_owned),
        axes: axes.iter().map(|&axis| axis.to_owned()).collect(),
        unmeasured_axes: unmeasured.iter().map(|&axis| axis.to_owned()).collect(),
    }
}

fn ratio(value: f64) -> Estimate {
    Estimate {
        value,
        lo: value - 0.01,
        hi: value + 0.01,
        ends: Ends::Interval,
        parts: None,
        n: 8,
        unit: "ratio".to_owned(),
    }
}

/// A victim that keeps half of its rate beside a neighbour that keeps 0.45 of its own.
pub fn operator_row(variant: &str) -> OperatorRow {
    let time = |tenant: &str, gpu_time_ns, share| TenantTime {
        tenant: tenant.to_owned(),
        workload: "fma".to_owned(),
        gpu_time_ns,
        share,
    };
    OperatorRow {
        mechanism: "time-slicing".to_owned(),
        variant: variant.to_owned(),
        sub_axis: SubAxis::Sm,
        victim: "fma".to_owned(),
        aggressor: "fma".to_owned(),
        tenants: 2,
        antt: ratio(2.111),
        stp: ratio(0.95),
        progress_min: ratio(0.45),
        progress_max: ratio(0.5),
        jain: ratio(0.997),
        utilisation: ratio(0.664),
        gpu_time: vec![
            time("victim", 12_000_000_000, 0.25),
            time("neighbour-1", 36_000_000_000, 0.75),
        ],
    }
}

/// A claim that the record refutes, and one that it does not test.
pub fn claims(variant: &str) -> Vec<ClaimRow> {
    let claim = |id: &str, mechanism: &str, verdict, statement: &str, evidence: &str| ClaimRow {
        id: id.to_owned(),
        verdict,
        evidence: evidence.to_owned(),
        mechanisms: vec![mechanism.to_owned()],
        axis: Some(Axis::Compute),
        statement: statement.to_owned(),
        source: "Time-slicing, a vendor, 2024-05, https://vendor.example/slicing".to_owned(),
        published_for: None,
        needs: Vec::new(),
        test: String::new(),
        figures: Vec::new(),
    };
    let refuted = ClaimRow {
        test: "retention on sm: at least 0.95".to_owned(),
        figures: vec![ClaimFigure {
            of: format!("{variant} sm fma beside fma"),
            verdict: Verdict::Refuted,
            estimate: Some(ratio(0.497)),
            reason: None,
        }],
        ..claim(
            "SELL-TS",
            "time-slicing",
            Verdict::Refuted,
            "a tenant beside another is as fast as alone",
            "0.497 [0.487, 0.507] ratio, n = 8",
        )
    };
    let untested = claim(
        "MIG-6",
        "mig",
        Verdict::Untested,
        "instances must be idle to change the layout",
        "needs an attempt to destroy a busy instance",
    );
    vec![refuted, untested]
}

// Plan, device, provenance and calibration of the sample records.

/// A plan of two cells, each with a victim and a neighbour.
pub fn plan(decides: bool, blocks: u32) -> Plan {
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
        required_proofs: Some(BTreeMap::new()),
        user_victim: None,
        axes: ["compute", "bandwidth", "jitter", "fault"].map(str::to_owned).into(),
        blocks,
        looks: 1,
        durations: Durations { warmup_ns: 1, closed_ns: 2, open_ns: 3, gap_ns: 0, sparse_ns: 0 },
        thresholds: Thresholds::default(),
        margins: None,
        mechanisms: vec![PlannedMechanism {
            properties: gpubench_record::MechanismProperties::of_format_1_0("time-slicing"),
            name: "time-slicing".to_owned(),
            variant: "time-slicing[slice=default]".to_owned(),
            host_changes: Vec::new(),
            unprotected: Some("time-slicing[slice=default]".to_owned()),
        }],
        cells: ["b00-c000", "b00-c001", "b00-c002", "b01-c003"].map(cell).into(),
        fault_trials: Vec::new(),
        probes: Vec::new(),
        workloads: BTreeMap::new(),
        pairs: vec![PlannedPair {
            sub_axis: SubAxis::Sm,
            victim: "fma".to_owned(),
            aggressor: "fma".to_owned(),
        }],
        jitter_from: SubAxis::Sm,
        jitter_pairs: None,
        reference: "exclusive".to_owned(),
        claimed: Vec::new(),
        claims: Vec::new(),
        skips: vec![Skip {
            name: "mps".to_owned(),
            variant: "mps".to_owned(),
            axis: Some("power".to_owned()),
            reason: "NVML reports no power on this board".to_owned(),
            remedy: None,
        }],
        rotation: None,
        soak: None,
        top_up: None,
        superseded: Vec::new(),
        superseded_trials: Vec::new(),
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
        sparse: None,
    }
}

pub fn device(kind: DeviceKind, name: &str) -> DeviceIdentity {
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

pub fn provenance(ended_at: Option<&str>) -> Provenance {
    Provenance {
        gpubench: "0.1.0".to_owned(),
        started_at: "2026-03-01T02:00:00Z".to_owned(),
        ended_at: ended_at.map(str::to_owned),
        command: vec!["gpubench".to_owned(), "matrix".to_owned()],
        host: BTreeMap::from([("cpu".to_owned(), "64 cores".to_owned())]),
        clock: "wall".to_owned(),
        labels: BTreeMap::new(),
        timer_floor_ns: BTreeMap::from([("clock_read_p50".to_owned(), 21)]),
        dropped_variables: Vec::new(),
        visible_devices: None,
        victim_environment: None,
    }
}

pub fn calibration() -> Calibration {
    let entry = CalibrationEntry {
        spec: WorkloadSpec {
            name: "fma".to_owned(),
            params: BTreeMap::from([("grid".to_owned(), 56)]),
        },
        native_rate_per_s: 998.7,
        service_ns: 1_001_300,
        work_per_request: 0.1 + 0.2,
        unit: "GFLOP".to_owned(),
    };
    let basis = CalibrationBasis {
        victims: vec!["fma".to_owned()],
        service_ns: 1_000_000,
        share: 3.0 / 7.0,
        ptx_hash: "0b51".to_owned(),
    };
    let device = device(DeviceKind::Real, "NVIDIA H100 80GB HBM3");
    let binding = CalibrationBinding {
        uuid: device.uuid,
        name: device.name,
        kind: device.kind,
        peaks: BTreeMap::from([("memory_bytes_per_s".to_owned(), 3.35e12)]),
        entries_hash: String::new(),
    };
    let peak = PeakEntry {
        alone_per_s: 60.7e12,
        peak_per_s: 66.9e12,
        ceiling: CeilingKind::Hardware,
        source: "SM clock 1980 MHz x 16896 cores x 2".to_owned(),
        unit: "operations".to_owned(),
    };
    Calibration {
        peaks: [("fma-hog".to_owned(), peak)].into(),
        ..Calibration::new([("fma".to_owned(), entry)].into(), basis, binding)
    }
}
