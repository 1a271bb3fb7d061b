//! Records of older formats.

use std::path::Path;

use gpubench_record::user_victim::{Reports, UserVictim};
use gpubench_record::{CeilingKind, FORMAT_VERSION, GateKind, GateScope, PeakEntry, json};

use crate::sample_records;
use crate::store::{RECORD_FILE, Record};

#[test]
fn reads_a_record_of_format_1_0() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
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
        assert!(read.plan.claimed.iter().any(|one| one.mechanism == "mig"));
    }
}

#[test]
fn reads_a_record_of_format_2_0() {
    let mut today = sample_records::real();
    today.plan.user_victim =
        Some(UserVictim { command: "serve".to_owned(), reports: Reports::Lines, ready_ns: 1 });
    let peak = PeakEntry {
        alone_per_s: 1.0,
        peak_per_s: 2.0,
        ceiling: CeilingKind::Detector,
        source: "fma-hog, 4x".to_owned(),
        unit: "operations".to_owned(),
    };
    today.calibration.peaks.insert("fma-hog".to_owned(), peak);
    let mut old = json::value(&today).unwrap();
    old["format_version"]["minor"] = 0.into();
    for (object, new_key, old_key) in
        [("/plan", "user_victim", "foreign"), ("/calibration/peaks/fma-hog", "source", "canary")]
    {
        let object = old.pointer_mut(object).unwrap().as_object_mut().unwrap();
        let value = object.remove(new_key).unwrap();
        object.insert(old_key.to_owned(), value);
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(RECORD_FILE), old.to_string()).unwrap();
    assert_eq!(Record::open(dir.path()).unwrap().run(), &today);
}

/// A gate had no kind before format 2.3, and stolen CPU time or a late harness excluded the cell or
/// its open loop.
#[test]
fn gates_of_format_2_2_have_a_kind_and_exclude_what_they_exclude_today() {
    let today = sample_records::real();
    let mut old = json::value(&today).unwrap();
    old["format_version"]["minor"] = 2.into();
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
