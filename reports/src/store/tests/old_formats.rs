//! Records of format 1.0, the first published one.

use std::path::Path;

use gpubench_record::{FORMAT_VERSION, GateKind, GateScope};

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

/// A gate had no kind in format 1.0, and stolen CPU time or a late harness excluded the cell or
/// its open loop.
#[test]
fn gates_of_format_1_0_have_a_kind_and_exclude_what_they_exclude_today() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/real.format-1.0.json");
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
