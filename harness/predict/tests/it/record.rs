//! Records as input: calibration against figures computed by hand, and evidence for the tree.

use gpubench_predict::advise::evidence::{mig_capable, sm_bound};
use gpubench_predict::calibrate::{Calibrated, Choices, calibrate, output};
use gpubench_predict::pack::demand::kinds_of_record;
use gpubench_predict::simulate::Scenario;
use gpubench_record::{Json, RunRecord};
use gpubench_show::{Look, Page};
use serde_json::{Value, json};

fn record(cells: &Value, matrix: &Value, mechanisms: &Value) -> RunRecord {
    let value = json!({
        "format_version": gpubench_record::FORMAT_VERSION, "scoring": "scoring-v1",
        "complete": true,
        "device": {
            "kind": "virtual", "name": "Test GPU", "uuid": "GPU-0", "driver": "1", "cuda": "13.0",
            "compute_capability": "9.0", "sm_count": 132, "memory_mib": 1, "l2_kib": 1,
        },
        "provenance": {"gpubench": "0", "started_at": "", "command": [], "clock": "virtual"},
        "profile": {"name": "default", "hash": ""},
        "calibration": {"hash": "", "entries": {
            "compute": entry(500.0), "fma-hog": entry(250.0), "dram-copy": entry(250.0),
        }},
        "seed": 1,
        "plan": {
            "profile": "default", "profile_hash": "", "decides": true, "seed": 1, "tenants": 2,
            "share": 0.5, "blocks": 3, "mechanisms": [], "cells": [], "skips": [],
            "durations": {"warmup_ns": 1, "closed_ns": 1, "open_ns": 1, "gap_ns": 1},
            "thresholds": gpubench_record::Thresholds::default(),
        },
        "mechanisms": mechanisms, "matrix": matrix, "overall": [], "cells": cells, "claims": [],
    });
    RunRecord::from_json(value.to_string().as_bytes()).expect("a record")
}

fn entry(native_rate_per_s: f64) -> Value {
    json!({
        "spec": {"name": "x"}, "native_rate_per_s": native_rate_per_s, "service_ns": 2_000_000,
        "work_per_request": 1.0, "unit": "requests",
    })
}

/// A measured cell of the victim `compute`.
fn cell(block: u32, mechanism: &str, condition: &str, beside: Option<&str>, rates: Value) -> Value {
    json!({
        "id": format!("{block}-{mechanism}-{condition}"), "block": block, "group": "g",
        "mechanism": mechanism, "variant": format!("{mechanism}[x]"), "sub_axis": "sm",
        "victim": "compute",
        "condition": condition, "aggressor": beside, "dose": 1.0, "rates": rates,
        "requests": {}, "outcome": "measured", "gates": [], "tenants": [], "tenant_results": [],
        "schedule_seed": 0,
    })
}

fn shared(mechanism: &str, aggressor: &str, rates: &Value) -> Vec<Value> {
    (0..3).map(|block| cell(block, mechanism, "C", Some(aggressor), rates.clone())).collect()
}

fn calibrated(cells: Vec<Vec<Value>>) -> Calibrated {
    let record = record(&Value::from(cells.concat()), &json!([]), &json!([]));
    calibrate(&record, &Choices { slice_ms: 2.0, ..Choices::default() }).expect("a calibration")
}

fn near(found: Option<f64>, expected: f64, tolerance: f64) {
    let found = found.expect("a figure");
    assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
}

#[test]
fn a_neighbour_under_mps_lengthens_the_service_time() {
    // 2 ms alone, 2.6 ms beside: contention 0.3. A load of 0.26 as an M/D/1 queue: more than half
    // of the requests find it idle, so the median is the service time.
    let rates = json!({
        "closed_service_p50_ns": 2_600_000, "closed_rate_per_s": 384.6, "offered_per_s": 100.0,
        "open_latency_p50_ns": 2_600_000, "open_latency_p99_ns": 5_000_000,
    });
    let found = calibrated(vec![shared("mps", "fma-hog", &rates)]);
    let row = &found.comparisons[0];
    near(row.contention, 0.3, 1e-9);
    near(row.load, 0.26, 1e-9);
    near(row.p50.predicted_ms, 2.6, 1e-9);
    near(row.p50.miss_percent, 0.0, 1e-9);
    assert_eq!((row.p50.blocks, row.p50.measured_lo_ms), (3, Some(2.6)));
    // The p99 of the M/D/1 queue lies between two and three services here.
    assert!(row.p99.predicted_ms.is_some_and(|ms| (5.2..7.8).contains(&ms)), "{row:?}");
    assert!(row.p99.miss_percent.is_some_and(|percent| percent > 0.0));
    let applied = found.applied(&Scenario::default());
    assert_eq!((applied.service_ms, applied.switch_ms), (2.0, 0.8));
    assert!((applied.contention - 0.3).abs() < 1e-9);
}

#[test]
fn under_time_slicing_a_request_waits_for_the_rest_of_a_slice() {
    // Slice 2 ms, change 0.1 ms: 2 + 2 + 2 * 0.1 = 4.2 ms in the closed loop. The victim has
    // 2 / 4.2 of the time, the neighbour as much, the changes the rest.
    let per_s = 1000.0 / 4.2;
    let rates = json!({
        "closed_service_p50_ns": 4_200_000, "closed_rate_per_s": per_s,
        "aggressor_rate_per_s": per_s / 2.0, "offered_per_s": 1.0,
        "open_latency_p50_ns": 3_100_000, "open_latency_p99_ns": 4_100_000,
    });
    let found = calibrated(vec![shared("time-slicing", "fma-hog", &rates)]);
    let row = &found.comparisons[0];
    near(row.switch_ms, 0.1, 1e-6);
    near(row.time_slice_ms, 2.0, 1e-6);
    assert_eq!(row.contention, None);
    // Low load: half a slice, one switch, the service; at most nearly a whole slice.
    near(row.p50.predicted_ms, 3.1, 0.03);
    near(row.p99.predicted_ms, 4.08, 0.03);
    near(row.p50.miss_percent, 0.0, 1.0);
    let page = Page { blocks: output::blocks(&found), ..Page::default() };
    let text = page.text(Look::PIPED);
    assert!(text.contains("switch_ms") && text.contains("time-slicing[x]"), "{text}");
}

#[test]
fn host_time_of_a_request_overlaps_the_slices_of_the_neighbour() {
    // As above, but 0.1 ms of the victim's 2.1 ms is host time, in the neighbour's slice: the cycle
    // is still 4.2 ms.
    let native = |service_ns: u64, gpu_ns: u64| {
        let rates = json!({"closed_service_p50_ns": service_ns, "gpu_p50_ns": gpu_ns});
        vec![cell(0, "exclusive", "N", None, rates)]
    };
    let per_s = 1000.0 / 4.2;
    let rates = json!({
        "closed_service_p50_ns": 4_150_000, "closed_rate_per_s": per_s,
        "aggressor_rate_per_s": per_s / 2.0, "offered_per_s": 1.0,
    });
    let cells = |rates| shared("time-slicing", "fma-hog", rates);
    let found = calibrated(vec![native(2_100_000, 2_000_000), cells(&rates)]);
    let row = &found.comparisons[0];
    assert_eq!(found.parameters.service_ms.value, 2.1);
    near(row.switch_ms, 0.1, 1e-6);
    near(row.time_slice_ms, 2.0, 1e-6);
    near(row.p50.predicted_ms, 3.2, 0.03);
}

#[test]
fn slices_overload_and_gaps_are_reported() {
    let alone = vec![cell(0, "mig", "S", None, json!({"closed_service_p50_ns": 5_000_000}))];
    let overloaded = json!({
        "closed_service_p50_ns": 20_000_000, "closed_rate_per_s": 50.0, "offered_per_s": 100.0,
    });
    let native = vec![cell(0, "exclusive", "N", None, json!({"closed_service_p50_ns": 2_500_000}))];
    let cells = vec![native, alone, shared("mig", "fma-hog", &overloaded)];
    let found = calibrated(cells);
    // Measured natively, so the 2 ms of the calibration are not used.
    assert_eq!(found.parameters.service_ms.value, 2.5);
    near(found.parameters.slice_speed.as_ref().map(|basis| basis.value), 0.5, 1e-9);
    let row = &found.comparisons[0];
    assert_eq!((row.p50.predicted_ms, row.p50.measured_ms), (None, None));
    assert!(row.note.as_ref().is_some_and(|note| note.contains("overloaded at a load of 2.00")));
    let empty = record(&json!([]), &json!([]), &json!([]));
    let refused = |choices: &Choices| {
        calibrate(&empty, choices).expect_err("nothing to calibrate from").to_string()
    };
    assert!(refused(&Choices::default()).contains("a measured contended cell is missing"));
    assert!(refused(&Choices { slice_ms: 0.0, ..Choices::default() }).contains("slice_ms is 0"));
    let named = Choices { victim: Some("stream".to_owned()), ..Choices::default() };
    assert!(refused(&named).contains("unknown victim \"stream\""));
}

fn row(mechanism: &str, axis: &str, sub: Option<&str>, level: &str, kept: [f64; 3]) -> Value {
    let [value, lo, hi] = kept;
    let estimate = json!({"value": value, "lo": lo, "hi": hi, "n": 8, "unit": "ratio"});
    json!({
        "mechanism": mechanism, "variant": format!("{mechanism}[x]"), "axis": axis,
        "sub_axis": sub, "outcome": "measured", "level": level, "word": null,
        "retention": estimate, "guarantee": null, "efficiency": null, "effectiveness": null,
        "isolation_index": null, "jitter": null, "survival": null, "requests": 100,
    })
}

#[test]
fn a_record_answers_the_questions_that_it_measured() {
    let sm = |mechanism: &str, kept: [f64; 3]| row(mechanism, "compute", Some("sm"), "L0", kept);
    let with = |mps: [f64; 3], slicing: [f64; 3]| {
        let matrix = json!([sm("mps", mps), sm("time-slicing", slicing)]);
        sm_bound(&record(&json!([]), &matrix, &json!([]))).map(|found| found.value)
    };
    assert_eq!(with([0.8, 0.7, 0.9], [0.5, 0.45, 0.55]), Some("yes"));
    assert_eq!(with([0.4, 0.35, 0.45], [0.5, 0.45, 0.55]), Some("no"));
    assert_eq!(with([0.52, 0.47, 0.57], [0.5, 0.45, 0.55]), None);
    let mig = |mechanisms: &Value| {
        mig_capable(&record(&json!([]), &json!([]), mechanisms)).map(|found| found.value)
    };
    assert_eq!(mig(&json!([])), None);
    assert_eq!(
        mig(&json!([{"name": "mig", "variant": "mig[3g+3g]", "outcome": "measured"}])),
        Some("yes")
    );
    let waived = |reason: &str| {
        let outcome =
            json!([{"name": "mig", "variant": "m", "outcome": "waived", "reason": reason}]);
        mig(&outcome)
    };
    assert_eq!(waived("this GPU does not support MIG"), Some("no"));
    assert_eq!(waived("MIG mode is off and changing it needs root"), None);
    let old = |capability: &str| {
        let mut record = record(&json!([]), &json!([]), &json!([]));
        capability.clone_into(&mut record.device.compute_capability);
        mig_capable(&record).map(|found| found.value)
    };
    assert_eq!([old("7.5"), old("8.0"), old("10.0")], [Some("no"), None, None]);
}

#[test]
fn a_record_gives_the_demand_of_its_victims() {
    // 100 requests per second of 2 ms are a fifth of the device.
    let rates = json!({"closed_service_p50_ns": 2_600_000, "offered_per_s": 100.0});
    let cells = Value::from(shared("mps", "fma-hog", &rates));
    let found = kinds_of_record(&record(&cells, &json!([]), &json!([])), 6.0).expect("a demand");
    let kinds: Vec<(&str, f64)> =
        found.iter().map(|kind| (kind.name.as_str(), kind.compute)).collect();
    assert_eq!(kinds, [("compute", 0.2)]);
    let refused = kinds_of_record(&record(&json!([]), &json!([]), &json!([])), 6.0);
    assert!(refused.is_err_and(|error| error.to_string().contains("measured victim")));
}
