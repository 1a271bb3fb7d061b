//! Rows, verdicts, reasons and laws on synthetic records.

use std::collections::BTreeMap;

use gpubench_record::{Json, RunRecord};
use serde_json::{Value, json};

use super::{
    Compared, Conclusion, DeviceSize, Fidelity, KnownDifference, Pair, Reasons, Row, Verdict,
};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const SIZE: DeviceSize = DeviceSize { sms: 132, threads_per_sm: 2048, blocks_per_sm: 32 };

/// A record with these rows and whatever else is given.
fn record(matrix: Value, more: Value) -> Result<RunRecord, serde_json::Error> {
    let mut record = json!({
        "format_version": {"major": 2, "minor": 3},
        "scoring": "scoring-v3",
        "complete": true,
        "device": {"kind": "real", "name": "GPU", "uuid": "GPU-0", "driver": "580",
            "cuda": "13.0", "compute_capability": "9.0", "sm_count": 0, "memory_mib": 1,
            "l2_kib": 0},
        "provenance": {"gpubench": "0", "started_at": "", "command": [], "clock": "wall"},
        "profile": {"name": "p", "hash": ""},
        "calibration": {"hash": "", "entries": {}},
        "seed": 1,
        "plan": {"profile": "p", "profile_hash": "", "decides": true, "seed": 1, "tenants": 2,
            "share": 0.5, "blocks": 8, "cells": [], "mechanisms": [],
            "durations": {"warmup_ns": 1, "closed_ns": 1, "open_ns": 1, "gap_ns": 1},
            "thresholds": gpubench_record::Thresholds::default(),
            "skips": [{"name": "mig", "mechanism": "mig", "reason": "no MIG here"}]},
        "mechanisms": [], "overall": [], "cells": [], "claims": [],
        "matrix": matrix,
    });
    if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
        record.extend(more);
    }
    RunRecord::from_json(record.to_string().as_bytes())
}

fn estimate(value: f64) -> Value {
    json!({"value": value, "lo": value, "hi": value, "n": 8, "unit": "ratio"})
}

fn row(variant: &str, sub_axis: &str, level: &str, retention: f64) -> Value {
    json!({"mechanism": variant, "variant": variant, "axis": "bandwidth", "sub_axis": sub_axis,
        "victim": "stream", "aggressor": "dram-copy", "outcome": "measured", "level": level,
        "word": "None", "retention": estimate(retention), "guarantee": null, "efficiency": null,
        "effectiveness": null, "isolation_index": null, "jitter": null, "survival": null,
        "requests": 1})
}

fn tally(fault: &str, harm: &str, code: Option<i32>, trials: u32) -> Value {
    let codes = |code: Option<i32>| match code {
        Some(code) => json!({code.to_string(): 1}),
        None => json!({}),
    };
    let victims = if trials > 0 { json!({harm: 1}) } else { json!({}) };
    json!({"mechanism": "mps", "variant": "mps", "fault": fault, "class": "sm", "records": 1,
        "trials": trials, "left_out": 1 - trials, "contained": 0, "survival": null,
        "more_for_l2": null, "more_for_l3": null, "victims": victims,
        "victim_codes": codes(code), "own_codes": {}, "xids": {}, "xids_unobserved": 0,
        "detected": null, "next_good": null, "new_client": null, "refused_with": {},
        "no_new_client": 0, "service_gone": 0, "recovery_before": {}, "recovery_after": {},
        "left_as_found": 0, "unknown_if_left": 0})
}

fn compared(real: &RunRecord, model: &RunRecord) -> Compared {
    Compared::of(&Pair {
        name: "h100",
        real,
        machine: "h100-80",
        model,
        size: SIZE,
        noticed: &BTreeMap::new(),
    })
}

fn verdicts(rows: &[Row]) -> Vec<(String, Verdict)> {
    rows.iter().map(|row| (row.key(), row.verdict())).collect()
}

#[test]
fn each_row_of_the_record_has_its_verdict() -> TestResult {
    let mut reference = row("exclusive", "dram", "L3", 1.0);
    reference["word"] = json!("reference");
    let real = record(
        json!([
            reference,
            row("mps", "dram", "L0", 0.16),
            row("mps", "l2", "L0", 0.29),
            row("mps", "pcie", "L0", 0.008),
            row("hami", "dram", "L0", 0.29),
            row("mig", "dram", "L3", 1.0),
        ]),
        json!({}),
    )?;
    let model = record(
        json!([
            row("mps", "dram", "L1", 0.73),
            row("mps", "l2", "L0", 0.40),
            row("mps", "pcie", "L0", 0.297),
            row("hami", "dram", "L0", 0.30),
            row("turing", "dram", "L0", 0.30),
        ]),
        json!({}),
    )?;
    let found = compared(&real, &model);
    let want = [
        ("mps bandwidth/dram", Verdict::Optimistic),
        ("mps bandwidth/l2", Verdict::Outside),
        ("mps bandwidth/pcie", Verdict::Within),
        ("hami bandwidth/dram", Verdict::Within),
        ("mig bandwidth/dram", Verdict::Outside),
    ];
    let want = want.map(|(key, verdict)| (key.to_owned(), verdict));
    assert_eq!(verdicts(&found.rows), want);
    assert_eq!(found.rows[4].checks[0].model, "no MIG here");
    Ok(())
}

#[test]
fn a_peer_that_survives_in_the_model_alone_is_optimistic() -> TestResult {
    let with = |tallies: Value| record(json!([]), json!({"fault_tallies": tallies}));
    let real = with(json!([
        tally("sigkill", "dead", Some(700), 1),
        tally("assert", "unharmed", None, 1),
        tally("trap", "dead", Some(719), 1),
        tally("misaligned", "dead", Some(719), 1),
        tally("wrong-address-space", "dead", None, 0),
        tally("oom", "stalled", Some(2), 1),
    ]))?;
    let model = with(json!([
        tally("sigkill", "unharmed", None, 1),
        tally("assert", "dead", Some(710), 1),
        tally("trap", "dead", Some(719), 1),
        tally("misaligned", "dead", Some(716), 1),
        tally("wrong-address-space", "dead", Some(717), 1),
    ]))?;
    let found = compared(&real, &model);
    let want = [
        ("mps fault/sigkill", Verdict::Optimistic),
        ("mps fault/assert", Verdict::Outside),
        ("mps fault/trap", Verdict::Within),
        ("mps fault/misaligned", Verdict::Outside),
        ("mps fault/wrong-address-space", Verdict::Outside),
        ("mps fault/oom", Verdict::Outside),
    ];
    let want = want.map(|(key, verdict)| (key.to_owned(), verdict));
    assert_eq!(verdicts(&found.rows), want);
    assert_eq!(found.rows[3].worst().map(|check| check.figure.as_str()), Some("peer's code"));
    Ok(())
}

#[test]
fn only_a_listed_reason_of_the_right_kind_covers_a_row_and_none_is_left_over() -> TestResult {
    let real = record(json!([row("mps", "dram", "L0", 0.16)]), json!({}))?;
    let optimistic = record(json!([row("mps", "dram", "L1", 0.73)]), json!({}))?;
    let outside = record(json!([row("mps", "dram", "L0", 0.3)]), json!({}))?;
    let reasons = |optimistic: bool| Reasons {
        differences: vec![KnownDifference {
            record: "h100".to_owned(),
            rows: vec!["mps bandwidth/dram".to_owned()],
            optimistic,
            reason: "because".to_owned(),
        }],
    };
    let none = Reasons::default();
    for (model, reasons, conclusion, unneeded) in [
        (&optimistic, &none, Conclusion::Optimistic, 0),
        (&optimistic, &reasons(true), Conclusion::Holds, 0),
        (&optimistic, &reasons(false), Conclusion::Optimistic, 1),
        (&outside, &none, Conclusion::Differs, 0),
        (&outside, &reasons(false), Conclusion::Holds, 0),
        (&outside, &reasons(true), Conclusion::Differs, 1),
        (&real, &none, Conclusion::Holds, 0),
        (&real, &reasons(false), Conclusion::Differs, 1),
    ] {
        let found = Fidelity::of(vec![compared(&real, model)], reasons);
        assert_eq!(found.conclusion(), conclusion, "{reasons:?}");
        assert_eq!(found.unneeded.len(), unneeded, "{reasons:?}");
    }
    Ok(())
}

/// Retentions that the law gives for a weight and a cap come back as that weight and cap.
#[test]
fn the_law_is_found_again_and_predicts_the_other_rows() -> TestResult {
    let (weight, cap) = (1.5, 560.0);
    let law = |blocks: f64| 3.0 * weight * 56.0 / (weight * 56.0 + blocks);
    let rows =
        [("mps", cap), ("mps-quota", 528.0), ("stream-priority", cap), ("green-context", 512.0)];
    let matrix = rows.map(|(variant, blocks)| row(variant, "l2", "L0", law(blocks)));
    let entry = |blocks: u64, rate: f64| {
        json!({"spec": {"name": "x", "params": {"blocks": blocks, "threads": 256}},
            "native_rate_per_s": rate, "service_ns": 1, "work_per_request": 1.0, "unit": "bytes"})
    };
    let proof = |variant: &str, evidence: &str| {
        json!({"name": variant, "variant": variant, "outcome": "measured", "proof": [
            {"when": "before", "check": "processes", "holds": true, "evidence": "none of them"},
            {"when": "before", "check": "SMs", "holds": true, "evidence": evidence}]})
    };
    let real = record(
        json!(matrix),
        json!({
            "calibration": {
                "hash": "",
                "entries": {"stream": entry(56, 1000.0), "dram-copy": entry(1056, 1.0)},
                "peaks": {"dram-copy": {"alone_per_s": 3000.0, "peak_per_s": 3000.0,
                    "source": "x", "unit": "bytes"}},
            },
            "mechanisms": [
                proof("mps-quota", "seen: victim 66, neighbour-1 66 (blocks ran on 66)"),
                proof("green-context", "victim: 64 SMs, neighbour-1: 64 SMs; 0 in common"),
            ],
        }),
    )?;
    let found = compared(&real, &real).cross_checks;
    assert_eq!(found.len(), 1);
    assert!((found[0].weight - weight).abs() < 1e-9, "{found:?}");
    assert!(found[0].cap.is_some_and(|found| (found - cap).abs() < 1e-6), "{found:?}");
    let blocks: Vec<f64> = found[0].rows.iter().map(|row| row.blocks).collect();
    assert_eq!(blocks, [1056.0, 528.0, 1056.0, 512.0]);
    assert!(found[0].rows.iter().all(|row| row.error.is_some_and(|error| error.abs() < 1e-9)));
    Ok(())
}
