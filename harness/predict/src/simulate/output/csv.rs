//! The report as CSV: one row per mode, or per load and mode for a sweep.

use crate::simulate::reference::{Interval, ReplicatedMode};
use crate::simulate::report::Report;
use crate::simulate::summary::State;

/// The report as CSV with a header line. No value needs quoting.
pub fn csv(report: &Report) -> String {
    match &report.sweep {
        Some(_) => swept(report),
        None => plain(report),
    }
}

fn plain(report: &Report) -> String {
    let header = "mode,offered,served,served_percent,p50_ms,p99_ms,mean_ms,load,state,growth_per_s";
    let rows = report.modes.iter().map(|mode| {
        let (state, growth) = match mode.state {
            State::Stable => ("stable", None),
            State::Overloaded { growth_per_s, .. } => ("overloaded", Some(growth_per_s)),
        };
        [
            mode.mode.name().to_owned(),
            report.offered.to_string(),
            mode.served.to_string(),
            number(mode.served_percent),
            number(mode.p50_ms),
            number(mode.p99_ms),
            number(mode.mean_ms),
            mode.load.to_string(),
            state.to_owned(),
            number(growth),
        ]
        .join(",")
    });
    lines(header, rows)
}

fn swept(report: &Report) -> String {
    let header = "device_load,offered_per_s,mode,p50_ms,p50_lo_ms,p50_hi_ms,p99_ms,p99_lo_ms,\
                  p99_hi_ms,replications,state,growth_per_s,is_knee";
    let sweep = report.sweep.iter();
    let rows = sweep.flat_map(|sweep| {
        sweep.points.iter().flat_map(move |point| {
            point.modes.iter().map(move |mode| {
                let is_knee = sweep
                    .knees
                    .iter()
                    .any(|knee| knee.mode == mode.mode && knee.device_load == point.device_load);
                swept_row(point.device_load, point.offered_per_s, mode, is_knee)
            })
        })
    });
    lines(header, rows)
}

fn swept_row(device_load: f64, offered_per_s: f64, mode: &ReplicatedMode, is_knee: bool) -> String {
    let interval = |found: Option<Interval>| {
        let part = |of: fn(Interval) -> f64| number(found.map(of));
        [part(|i| i.value), part(|i| i.lo), part(|i| i.hi)].join(",")
    };
    [
        device_load.to_string(),
        offered_per_s.to_string(),
        mode.mode.name().to_owned(),
        interval(mode.p50_ms),
        interval(mode.p99_ms),
        mode.p99_ms.map_or_else(String::new, |found| found.n.to_string()),
        if mode.overloaded == 0 { "stable" } else { "overloaded" }.to_owned(),
        number(mode.growth_per_s),
        is_knee.to_string(),
    ]
    .join(",")
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn lines(header: &str, rows: impl Iterator<Item = String>) -> String {
    std::iter::once(header.to_owned()).chain(rows).map(|line| line + "\n").collect()
}
