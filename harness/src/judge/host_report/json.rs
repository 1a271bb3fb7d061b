//! The host report as JSON, for programs.

use gpubench_workloads::timer_selftest::OVER_NS;
use serde_json::{Value, json};

use super::HostReport;
use crate::judge::device_check::Achieved;

/// The whole report.
#[must_use]
pub fn to_json(report: &HostReport) -> Value {
    let timer: Vec<Value> = report
        .timer
        .iter()
        .map(|(class, tested)| match tested {
            Ok((stops, p)) => json!({
                "scheduling": class, "wakes": p.wakes, "guard_ns": p.guard_ns, "p50_ns": p.p50_ns,
                "p99_ns": p.p99_ns, "p999_ns": p.p999_ns, "max_ns": p.max_ns,
                "late": { "over_ns": OVER_NS, "overslept": p.overslept, "stopped": p.stopped },
                "spinning": {
                    "stops_per_s": stops.per_s(), "stopped_share": stops.share(),
                    "longest_stop_ns": stops.longest_ns,
                },
            }),
            Err(reason) => json!({ "scheduling": class, "outcome": "waived", "reason": reason }),
        })
        .collect();
    let verified: Value = report
        .verified
        .iter()
        .map(|(name, found)| (name.clone(), json!(found.to_string())))
        .collect();
    let achieved: Vec<Value> = report.achieved.iter().map(achieved_json).collect();
    let effect = match report.detectable_effect() {
        Ok((spread, effect_log)) => json!({
            "mde80_ratio": effect_log.exp() - 1.0, "blocks": report.blocks,
            "sd_log": spread.sd_log, "pairs": spread.pairs, "loop_ns": spread.loop_ns,
            "victim": spread.victim,
        }),
        Err(reason) => json!({ "outcome": "inconclusive", "reason": reason }),
    };
    json!({
        "scope": report.scope,
        "device": report.device.as_ref().ok(),
        "no_device": report.device.as_ref().err(),
        "root": report.root,
        "mechanisms": report.mechanisms,
        "labels": report.labels,
        "kernel_log": report.kernel_log,
        "planted": report.planted,
        "noise": report.noise,
        "timer_lateness_at_1_khz": timer,
        "achieved": achieved,
        "clocks": match &report.clocks {
            Ok(clocks) => clocks.as_json(),
            Err(reason) => json!({ "verdict": "unknown", "text": reason }),
        },
        "detectable_effect": effect,
        "kernels": verified,
    })
}

fn achieved_json(one: &Achieved) -> Value {
    let share = one.per_s.as_ref().ok().zip(one.peak_per_s.as_ref().ok());
    json!({
        "name": one.name, "unit": one.unit,
        "achieved_per_s": one.per_s.as_ref().ok(), "not_achieved": one.per_s.as_ref().err(),
        "peak_per_s": one.peak_per_s.as_ref().ok(), "no_peak": one.peak_per_s.as_ref().err(),
        "share_of_peak": share.map(|(achieved, peak)| achieved / peak),
    })
}
