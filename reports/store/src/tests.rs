//! Record folders for the tests of this room: finished, crashed and damaged.

mod finishing;
mod properties;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use gpubench_record::{
    CalibrationBinding, CellTenant, DeviceKind, FORMAT_VERSION, FormatVersion, GateKind, GateScope,
    Json, MechanismRow, Outcome, Proof, ProofTime, Role, RunEvent, RunRecord, SampleRow,
    TelemetryRow, TenantResult,
};
use gpubench_sample_records as sample_records;
use tempfile::TempDir;

use super::samples_for_tests::{log_bytes, row};
use super::{EventLog, TelemetryLog, log_path};
use crate::{
    CELLS_FOLDER, EVENTS_FILE, Finished, LATENCIES_FILE, RECORD_FILE, Record, SAMPLES_FILE,
    StoreError, TELEMETRY_LOG_FILE, finish, write_record_json,
};

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

// Opening a record: finished, crashed, of another version, or damaged.

#[test]
fn a_written_record_reads_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    for (_, record) in sample_records::all() {
        write_record_json(dir.path(), &record).unwrap();
        let opened = Record::open(dir.path()).unwrap();
        assert_eq!(opened.run(), &record);
        assert!(!opened.is_rebuilt());
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "a temporary file is left: {left:?}");
}

#[test]
fn a_crashed_run_opens_as_an_incomplete_record_with_all_its_samples() {
    let dir = crashed_run();
    append_bytes(&dir.path().join(EVENTS_FILE), b"{\"event\":\"cell-en");
    let record = Record::open(dir.path()).unwrap();
    assert!(record.is_rebuilt() && !record.run().complete);
    let reason = record.run().incomplete_reason.as_deref();
    assert_eq!(reason, Some("the run crashed; 2 of 4 cells ran"));
    assert_eq!(record.warnings(), ["the last event (line 6) is incomplete and is left out"]);
    assert_eq!(record.run().calibration, sample_records::calibration());
    let outcomes: Vec<_> =
        record.run().cells.iter().map(|cell| cell.outcome.reason.clone().unwrap()).collect();
    assert_eq!(
        outcomes,
        ["not scored: the run left no record.json", "the run ended during this cell"]
    );
    assert_eq!(record.run().cells[1].tenant_results[0].rows, 3);
    for finished in [false, true] {
        if finished {
            let done = finish(dir.path()).unwrap();
            assert_eq!((done.sample_rows, done.telemetry_rows), (Some(210), Some(5)));
            assert!(!dir.path().join(CELLS_FOLDER).exists());
            assert!(!dir.path().join(TELEMETRY_LOG_FILE).exists());
        }
        let record = Record::open(dir.path()).unwrap();
        assert_eq!(record.samples("b00-c000", "victim").unwrap(), victim_rows());
        assert_eq!(record.samples("b00-c001", "victim").unwrap(), victim_rows()[..3]);
        assert_eq!(record.telemetry().unwrap(), (0..5).map(reading).collect::<Vec<_>>());
        let text = record.samples("b00-c001", "neighbour-1");
        assert_eq!(text.is_ok(), !finished || record.run().cells[1].tenant_results[1].rows == 0);
        assert!(matches!(record.samples("b9", "victim"), Err(StoreError::NoSamples { .. })));
        for (cell, tenant) in [("../b00", "victim"), ("..", "victim"), ("b00-c000", "")] {
            let error = record.samples(cell, tenant).unwrap_err();
            assert!(matches!(error, StoreError::Name { .. }), "{error}");
        }
    }
    assert_eq!(finish(dir.path()).unwrap(), Finished::default(), "a second call changes nothing");
}

#[test]
fn merges_the_mechanism_rows_and_proofs_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventLog::create(dir.path()).unwrap();
    let variant = "time-slicing[slice=default]".to_owned();
    let proof = |when: ProofTime| Proof {
        when,
        t_ns: Some(1),
        check: "pids".to_owned(),
        holds: true,
        evidence: "812".to_owned(),
        hardware: false,
        limiter: false,
    };
    let row = |proof| MechanismRow {
        name: "time-slicing".to_owned(),
        variant: variant.clone(),
        outcome: Outcome::measured(),
        remedy: None,
        proof,
        tenants: BTreeMap::new(),
    };
    for event in [
        began(),
        RunEvent::Mechanism { row: row(vec![proof(ProofTime::AtOpen)]) },
        RunEvent::Proved {
            variant: variant.clone(),
            cell: Some("c1".to_owned()),
            proof: proof(ProofTime::During),
        },
        RunEvent::Proved { variant: "mps".to_owned(), cell: None, proof: proof(ProofTime::During) },
        RunEvent::Mechanism { row: row(vec![proof(ProofTime::During), proof(ProofTime::Once)]) },
        cell_ended("not-planned", 1),
        RunEvent::Ended { complete: true, reason: None, at: "2026-03-01T03:00:00Z".to_owned() },
    ] {
        events.append(&event).unwrap();
    }
    events.close().unwrap();
    let record = Record::open(dir.path()).unwrap();
    let mechanisms = &record.run().mechanisms;
    assert_eq!(mechanisms.len(), 1);
    let when: Vec<_> = mechanisms[0].proof.iter().map(|proof| proof.when.name()).collect();
    assert_eq!(when, ["at open", "during", "once"]);
    assert_eq!(record.warnings().len(), 2);
    let reason = record.run().incomplete_reason.as_deref();
    assert_eq!(reason, Some("the run ended before it was scored; 0 of 4 cells ran"));
}

#[test]
fn each_unreadable_record_names_the_file_line_and_problem() {
    let dir = tempfile::tempdir().unwrap();
    let error = || Record::open(dir.path()).unwrap_err().to_string();
    let shown = dir.path().display().to_string();
    assert_eq!(
        error(),
        format!("{shown} holds no record: it has neither record.json nor events.jsonl")
    );
    let absent = Record::open(&dir.path().join("absent")).unwrap_err().to_string();
    assert_eq!(absent, format!("no such folder: {shown}/absent"));
    let events = dir.path().join(EVENTS_FILE);
    let first = began().to_json().unwrap();
    let head = format!("{shown}/events.jsonl line");
    let no_plan = "1: the first event has no format_version, so the file has no plan";
    for (text, ending) in [
        (String::new(), no_plan),
        ("{\"event\":\"warning\",\"text\":\"x\"}\n".to_owned(), no_plan),
        (format!("{first}\n{first}\n"), "2: a second \"began\"; a record has one run"),
        (format!("{first}\n\n"), "2: EOF while parsing a value"),
    ] {
        std::fs::write(&events, text).unwrap();
        assert_eq!(error(), format!("{head} {ending}"));
    }
    std::fs::write(&events, format!("{first}\n{{\"event\":\"beamed-up\"}}\n")).unwrap();
    let unknown = error();
    assert!(
        unknown.starts_with(&format!("{head} 2: unknown variant `beamed-up`, expected one of"))
    );
    std::fs::write(&events, first.replacen("\"major\":2", "\"major\":3", 1)).unwrap();
    assert!(
        error()
            .ends_with("format 3.4 cannot be read by this gpubench, which reads 2.x from 2.3 on")
    );
    let record_json = dir.path().join(RECORD_FILE);
    std::fs::write(&record_json, "{\"format_version\":{\"major\":9,\"minor\":1},\"new\":[]}")
        .unwrap();
    let reads = "cannot be read by this gpubench, which reads 1.0 and 2.x from 2.3 on";
    assert_eq!(error(), format!("{shown}/record.json: record format 9.1 {reads}"));
    std::fs::write(&record_json, first.replacen("\"minor\":4", "\"minor\":2", 1)).unwrap();
    assert_eq!(error(), format!("{shown}/record.json: record format 2.2 {reads}"));
    std::fs::write(&record_json, "{\"format_version\":{\"major\":2,\"minor\":7},\n\"new\":[]}")
        .unwrap();
    assert_eq!(error(), format!("{shown}/record.json line 2 column 9: missing field `scoring`"));
    std::fs::write(&record_json, "{\"format_version\":{\"major\":1,\"minor\":0}}").unwrap();
    assert_eq!(error(), format!("{shown}/record.json of format 1.0: missing field `scoring`"));
}

#[test]
fn a_later_minor_version_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = sample_records::real();
    record.format_version = FormatVersion { minor: 9, ..FORMAT_VERSION };
    write_record_json(dir.path(), &record).unwrap();
    let path = dir.path().join(RECORD_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen('{', "{\"a_later_field\": 1,", 1)).unwrap();
    assert_eq!(Record::open(dir.path()).unwrap().run(), &record);
}

#[test]
fn refuses_a_figure_that_json_cannot_hold_and_keeps_the_old_record() {
    let dir = tempfile::tempdir().unwrap();
    let good = sample_records::real();
    write_record_json(dir.path(), &good).unwrap();
    let mut bad = good.clone();
    bad.cells[0].figures.closed_rate_per_s = Some(f64::NAN);
    let error = write_record_json(dir.path(), &bad).unwrap_err();
    assert!(matches!(error, StoreError::Unstorable { what: "the record", .. }), "{error}");
    assert_eq!(Record::open(dir.path()).unwrap().run(), &good);
}

// Records of format 1.0, the first published one.

#[test]
fn reads_a_record_of_format_1_0() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    for (name, today) in
        [("real", sample_records::real()), ("virtual", sample_records::on_the_virtual_gpu())]
    {
        let dir = tempfile::tempdir().unwrap();
        let old = golden.join(format!("{name}.format-1.0.json"));
        std::fs::copy(old, dir.path().join(RECORD_FILE)).unwrap();
        let record = Record::open(dir.path()).unwrap();
        let read = record.run();
        assert_eq!(read.format_version, FORMAT_VERSION);
        assert_eq!(read.cells, today.cells, "{name}");
        assert_eq!(read.matrix, today.matrix, "{name}");
        assert_eq!(read.plan.skips, today.plan.skips, "{name}");
        // From the table of that format.
        assert_eq!(read.plan.workloads["reserve"].answering_codes, [2]);
    }
}

/// A gate had no kind in format 1.0, and stolen CPU time or a late harness excluded the cell or
/// its open loop.
#[test]
fn gates_of_format_1_0_have_a_kind_and_exclude_what_they_exclude_today() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/real.format-1.0.json");
    let mut old: serde_json::Value =
        serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let names = ["cpu-steal", "lateness", "drift", "xid"];
    let gates =
        names.map(|name| serde_json::json!({"gate": name, "state": "failed", "detail": ""}));
    old["cells"][0]["gates"] = gates.to_vec().into();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(RECORD_FILE), old.to_string()).unwrap();
    let record = Record::open(dir.path()).unwrap();
    let found: Vec<(GateKind, GateScope)> =
        record.run().cells[0].gates.iter().map(|gate| (gate.kind, gate.scope)).collect();
    let expected = [
        (GateKind::Disturbance, GateScope::Nothing),
        (GateKind::Disturbance, GateScope::Nothing),
        (GateKind::Disturbance, GateScope::Cell),
        (GateKind::Validity, GateScope::Cell),
    ];
    assert_eq!(found, expected);
}

// Latencies of a record: from the sample logs, the latency log, or the samples.

#[test]
fn latencies_are_the_same_from_the_log_and_from_the_samples() {
    let dir = crashed_run();
    let of_victim = || {
        let record = Record::open(dir.path()).unwrap();
        record.latencies("b00-c000", "victim").unwrap()
    };
    let from_sample_logs = of_victim();
    assert_eq!(from_sample_logs.count(), 200);
    finish(dir.path()).unwrap();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let (samples, latencies) = (read(SAMPLES_FILE), read(LATENCIES_FILE));
    std::fs::remove_file(dir.path().join(SAMPLES_FILE)).unwrap();
    assert_eq!(of_victim(), from_sample_logs);
    std::fs::remove_file(dir.path().join(LATENCIES_FILE)).unwrap();
    assert!(!Record::open(dir.path()).unwrap().has_latencies());
    std::fs::write(dir.path().join(SAMPLES_FILE), samples).unwrap();
    assert_eq!(of_victim(), from_sample_logs);
    // Damage is an error, although the samples are intact.
    std::fs::write(dir.path().join(LATENCIES_FILE), &latencies[1..]).unwrap();
    let record = Record::open(dir.path()).unwrap();
    let error = record.latencies("b00-c000", "victim").unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// Each fact of a virtual GPU that a record which names its device real still has.
#[test]
fn a_record_that_hides_one_sign_of_the_virtual_gpu_is_shown_as_virtual() {
    type Sign = fn(&mut RunRecord);
    let signs: [(&str, Sign); 9] = [
        ("device.name", |run| run.device.name = "Virtual H100".to_owned()),
        ("device.driver", |run| run.device.driver = "580.00.virtual".to_owned()),
        ("device.facts.vbios", |run| {
            run.device.facts.insert("vbios".to_owned(), "00.00.virtual".to_owned());
        }),
        ("device.facts.machine_hash", |run| {
            run.device.facts.insert("machine_hash".to_owned(), "5eed".to_owned());
        }),
        ("device.pci_id", |run| run.device.pci_id = Some("ffff10de:ffff10de".to_owned())),
        ("provenance.clock", |run| run.provenance.clock = "virtual".to_owned()),
        ("provenance.command", |run| {
            run.provenance.command =
                ["matrix", "--device", "virtual:h200"].map(str::to_owned).to_vec();
        }),
        ("calibration.binding.kind", |run| {
            if let Some(bound) = &mut run.calibration.binding {
                bound.kind = DeviceKind::Virtual;
            }
        }),
        ("calibration.binding.name", |run| {
            if let Some(bound) = &mut run.calibration.binding {
                bound.name = "Virtual H100".to_owned();
            }
        }),
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut real = sample_records::real();
    real.calibration.binding = Some(CalibrationBinding {
        uuid: real.device.uuid.clone(),
        name: real.device.name.clone(),
        kind: DeviceKind::Real,
        peaks: BTreeMap::new(),
        entries_hash: String::new(),
    });
    write_record_json(dir.path(), &real).unwrap();
    assert_eq!(Record::open(dir.path()).unwrap().run().device.kind, DeviceKind::Real);
    for (key, plant) in signs {
        let mut forged = real.clone();
        plant(&mut forged);
        write_record_json(dir.path(), &forged).unwrap();
        let record = Record::open(dir.path()).unwrap();
        assert_eq!(record.run().device.kind, DeviceKind::Virtual, "{key}");
        assert!(record.is_damaged(RECORD_FILE), "{key}");
        let said = record.warnings().iter().any(|text| text.contains(key));
        assert!(said, "{key}: {:?}", record.warnings());
    }
}
