//! Which records' fault trials count together.

use std::collections::BTreeMap;

use gpubench_record::run::ProfileRef;
use gpubench_record::{DeviceIdentity, DeviceKind, FORMAT_VERSION, Provenance, RunRecord};

use super::lab::Lab;
use crate::score::{MACHINE_HASH, VERSION, pool};

/// A record of a real device.
fn record() -> RunRecord {
    let lab = Lab::slicing(1000.0, 1000.0, 500.0);
    let text = str::to_owned;
    RunRecord {
        format_version: FORMAT_VERSION,
        scoring: text(VERSION),
        complete: true,
        incomplete_reason: None,
        device: DeviceIdentity {
            kind: DeviceKind::Real,
            name: text("NVIDIA H100 80GB HBM3"),
            uuid: text("GPU-one"),
            driver: text("615.00"),
            cuda: text("13.4"),
            compute_capability: text("9.0"),
            sm_count: 132,
            memory_mib: 81_920,
            l2_kib: 51_200,
            pci_id: None,
            facts: BTreeMap::new(),
        },
        provenance: Provenance {
            gpubench: text("0.1.0"),
            started_at: text(""),
            ended_at: None,
            command: Vec::new(),
            host: BTreeMap::new(),
            clock: text("wall"),
            labels: BTreeMap::new(),
            timer_floor_ns: BTreeMap::new(),
            dropped_variables: Vec::new(),
            visible_devices: None,
            victim_environment: None,
        },
        profile: ProfileRef { name: text("default"), hash: text("5eed") },
        calibration: lab.calibration,
        seed: 1,
        plan: lab.plan,
        mechanisms: lab.mechanisms,
        matrix: Vec::new(),
        overall: Vec::new(),
        cells: Vec::new(),
        superseded: Vec::new(),
        interruptions: Vec::new(),
        probes: Vec::new(),
        probe_figures: Vec::new(),
        fault_trials: Vec::new(),
        fault_trials_stopped: None,
        fault_tallies: Vec::new(),
        records_left_out: Vec::new(),
        service: Vec::new(),
        tenant_limits: Vec::new(),
        dose_curves: Vec::new(),
        operator: Vec::new(),
        device_speed: None,
        claims: Vec::new(),
        problems: Vec::new(),
    }
}

fn record_of(started_at: &str, seed: u64) -> RunRecord {
    let mut record = record();
    record.provenance.started_at = started_at.to_owned();
    record.seed = seed;
    record
}

fn machine(mut record: RunRecord, hash: Option<&str>) -> RunRecord {
    record.device.kind = DeviceKind::Virtual;
    record.provenance.clock = "virtual".to_owned();
    let hash = hash.map(|hash| (MACHINE_HASH.to_owned(), hash.to_owned()));
    record.device.facts.extend(hash);
    record
}

/// Why the trials of `other` do not count with those of `record`; `None` where they do.
fn why(record: &RunRecord, other: &RunRecord) -> Option<String> {
    let pooled = pool(record, &[("it".to_owned(), other)]);
    assert_eq!(pooled.earlier.len() + pooled.left_out.len(), 1);
    let left_out = pooled.left_out.into_iter().next()?;
    assert_eq!(left_out.record, "it");
    Some(left_out.reason)
}

#[test]
fn records_of_one_device_and_driver_count_together() {
    let (one, two) = (record_of("2026-01-01T02:00:00Z", 1), record_of("2026-01-02T02:00:00Z", 1));
    assert_eq!(why(&two, &one), None);
    type Change = fn(&mut RunRecord);
    let changes: [(Change, &str); 5] = [
        (|r| r.device.driver = "580.00".to_owned(), "its driver is 580.00"),
        (|r| r.device.uuid = "GPU-other".to_owned(), "its device is real GPU-other"),
        (|r| r.plan.tenants = 7, "its tenants is 7"),
        (|r| r.scoring = "scoring-v0".to_owned(), "its scoring is scoring-v0"),
        (|r| r.device.kind = DeviceKind::Virtual, "its device is virtual"),
    ];
    for (change, want) in changes {
        let mut other = one.clone();
        change(&mut other);
        let why = why(&two, &other).unwrap_or_default();
        assert!(why.contains(want), "{why}");
    }
    assert!(why(&one, &one).is_some_and(|why| why.contains("another record that counts")));
}

#[test]
fn virtual_records_need_one_machine_file_and_different_seeds() {
    let (one, two) = (record_of("2026-01-01T02:00:00Z", 1), record_of("2026-01-02T02:00:00Z", 2));
    let on = |record: &RunRecord, hash| machine(record.clone(), hash);
    assert_eq!(why(&on(&two, Some("aa")), &on(&one, Some("aa"))), None);
    let same = record_of("2026-01-02T02:00:00Z", 1);
    for (record, other, want) in [
        (on(&same, Some("aa")), on(&one, Some("aa")), "another record that counts"),
        (on(&two, Some("aa")), on(&one, Some("bb")), "machine file bb, not virtual"),
        (on(&two, None), on(&one, None), "neither record names its machine file"),
        (on(&two, Some("aa")), one.clone(), "its device is real"),
    ] {
        let why = why(&record, &other).unwrap_or_default();
        assert!(why.contains(want), "{why}");
    }
}
