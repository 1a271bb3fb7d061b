//! Plan, device, provenance and calibration of the sample records.

use std::collections::BTreeMap;

use gpubench_record::plan::PlannedMechanism;
use gpubench_record::{
    Calibration, CalibrationBasis, CalibrationBinding, CalibrationEntry, CeilingKind, Cell,
    CellTenant, Condition, DeviceIdentity, DeviceKind, Durations, PeakEntry, Plan, PlannedPair,
    Provenance, Role, Skip, SubAxis, Thresholds, WorkloadSpec,
};

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
        required_proofs: Some(BTreeMap::new()),
        user_victim: None,
        axes: ["compute", "bandwidth", "jitter", "fault"].map(str::to_owned).into(),
        blocks,
        durations: Durations { warmup_ns: 1, closed_ns: 2, open_ns: 3, gap_ns: 0 },
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
        labels: BTreeMap::new(),
        timer_floor_ns: BTreeMap::from([("clock_read_p50".to_owned(), 21)]),
        dropped_variables: Vec::new(),
        visible_devices: None,
        victim_environment: None,
    }
}

pub(crate) fn calibration() -> Calibration {
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
