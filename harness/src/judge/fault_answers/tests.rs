//! What `list faults` says about answers, and what it rests on.

use gpubench_virtual_gpu::machine::faults::fault_names;
use gpubench_workloads::fault::{CATALOGUE, find};
use serde_json::{Value, json};

use super::{assumed_of, campaigns, measured_of};

fn keys(entries: &[Value]) -> Vec<&str> {
    let keys = entries.iter().filter_map(|entry| entry["key"].as_str());
    keys.collect()
}

#[test]
fn answers_that_differ_from_the_documents_are_marked() {
    let of = |name| find(name).map(measured_of).unwrap_or_default();
    assert_eq!(
        keys(&of("shared-oob")),
        [
            "under time-slicing: code 715, NVML's Xids 13, the log's 13 13 13, victim no error \
             (1 trial) ≠ documented code",
            "under mps: code 719, NVML's Xids 43, the log's 13 13 43, victim code 715 \
             (1 trial) ≠ documented nvml xids, log xids",
        ]
    );
    assert_eq!(
        keys(&of("illegal-address")),
        [
            "under time-slicing: code 700, NVML's Xids 31, the log's 31, victim no error \
             (1 trial)",
            "under mps: code 700, NVML's Xids 31, the log's 31, victim code 700 (1 trial)",
        ]
    );
    let unlike = |name, at: usize| of(name)[at]["unlike_documents"].clone();
    assert_eq!(unlike("placebo", 0), json!([]));
    assert_eq!(unlike("assert", 1), json!(["nvml_xids", "log_xids"]));
    assert_eq!(unlike("misaligned", 0), json!(["nvml_xids", "log_xids"]));
    let all = json!(["code", "nvml_xids", "log_xids"]);
    assert_eq!(unlike("mps-server-kill", 0), all, "only under MPS");
    let none = of("illegal-instruction");
    assert!(none.len() == 1 && keys(&none)[0].starts_with("none on NVIDIA H100"), "{none:?}");
}

#[test]
fn every_entry_says_what_it_rests_on() {
    for fault in CATALOGUE.iter() {
        let entries = measured_of(fault);
        assert!(!entries.is_empty(), "{fault:?}");
        for entry in entries {
            for key in ["device", "driver", "date"] {
                assert!(entry[key].as_str().is_some_and(|s| !s.is_empty()), "{entry}");
            }
            let reason = entry["reason"].as_str();
            assert_eq!(entry["trials"] == json!(0), reason.is_some(), "{entry}");
            assert_eq!(entry["evidence"], json!("measured"));
        }
        for entry in assumed_of(fault) {
            let evidence = entry["evidence"].as_str();
            assert!([Some("documented"), Some("unknown")].contains(&evidence), "{entry}");
            assert!(entry["source"].as_str().is_some_and(|s| !s.is_empty()));
        }
    }
    let line = campaigns().join("\n");
    assert!(line.contains("driver 580.159.04 on 2026-11-22, 1 trial of each"), "{line}");
    let assumed = find("trap").map(assumed_of).unwrap_or_default();
    assert_eq!(
        keys(&assumed),
        ["under every mechanism: code 719, Xids 13, other MPS clients code 719, new ones \
          refused (cuda.h allows 719 and 715; no document gives the Xid)"]
    );
    assert_eq!(assumed[0]["evidence"], json!("unknown"));
}

#[test]
fn machine_files_know_every_fault_of_the_catalogue() {
    let known: Vec<&str> = fault_names().collect();
    for fault in CATALOGUE.iter() {
        assert!(known.contains(&fault.name), "{fault:?}");
    }
    let others = known.iter().filter(|name| find(name).is_none());
    let others: Vec<&&str> = others.collect();
    assert_eq!(others, [&"run-time-limit", &"deadlock"]);
}
