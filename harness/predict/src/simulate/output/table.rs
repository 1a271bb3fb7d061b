//! The report as text: one table for each part.

use super::figure;
use crate::simulate::reference::{Interval, ReplicatedMode};
use crate::simulate::report::Report;
use crate::simulate::summary::State;
use crate::simulate::sweep::Sweep;
use crate::text::draw;
use gpubench_record::counted;

/// The report as text.
pub fn table(report: &Report) -> String {
    let mut parts = vec![heading(report), modes(report)];
    if let Some(replicated) = &report.replicated {
        let percent = replicated.intervals.coverage * 100.0;
        parts.push(format!(
            "mean over {} replications [{percent} % t interval]\n{}",
            replicated.replications,
            replicated_modes(&replicated.modes)
        ));
    }
    if report.hostile.is_some() {
        parts.push(hostile(report));
    }
    if let Some(sweep) = &report.sweep {
        parts.push(sweep_table(sweep));
    }
    parts.join("\n")
}

fn heading(report: &Report) -> String {
    let scenario = &report.scenario;
    format!(
        "prediction of the {} model, not a measurement: {}, {} ms of service, {} \
         requests/s each, {} s, seed {}\n",
        report.model,
        counted(scenario.tenants, "tenant"),
        scenario.service_ms,
        scenario.rate_per_s,
        scenario.duration_s,
        scenario.seed
    )
}

fn modes(report: &Report) -> String {
    let header = ["mode", "offered", "served", "served %", "p50 ms", "p99 ms", "load", "state"];
    let rows = report.modes.iter().map(|mode| {
        vec![
            mode.mode.name().to_owned(),
            report.offered.to_string(),
            mode.served.to_string(),
            mode.served_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}")),
            figure(mode.p50_ms),
            figure(mode.p99_ms),
            format!("{:.2}", mode.load),
            state(mode.state),
        ]
    });
    draw(&header, rows)
}

fn state(state: State) -> String {
    match state {
        State::Stable => "stable".to_owned(),
        State::Overloaded { growth_per_s, .. } => growing(growth_per_s),
    }
}

fn growing(growth_per_s: f64) -> String {
    format!("overloaded: the queues grow by {growth_per_s:.2} requests/s")
}

fn replicated_modes(modes: &[ReplicatedMode]) -> String {
    let header = ["mode", "served %", "p50 ms", "p99 ms", "state"];
    let rows = modes.iter().map(|mode| {
        vec![
            mode.mode.name().to_owned(),
            interval(mode.served_percent),
            interval(mode.p50_ms),
            interval(mode.p99_ms),
            mode.growth_per_s.map_or_else(|| "stable".to_owned(), growing),
        ]
    });
    draw(&header, rows)
}

fn interval(found: Option<Interval>) -> String {
    let text = |found: Interval| format!("{:.2} [{:.2}, {:.2}]", found.value, found.lo, found.hi);
    found.map_or_else(|| "-".to_owned(), text)
}

fn hostile(report: &Report) -> String {
    let header = ["mode", "p99 without ms", "p99 with ms", "added ms", "gap to MIG ms"];
    let rows = report.hostile.iter().flatten().map(|row| {
        vec![
            row.mode.name().to_owned(),
            figure(row.p99_without_ms),
            figure(row.p99_with_ms),
            figure(row.added_ms),
            figure(row.gap_to_mig_ms),
        ]
    });
    let title = "other tenants beside the hostile one (gap: added ms above that of MIG)";
    format!("{title}\n{}", draw(&header, rows))
}

fn sweep_table(sweep: &Sweep) -> String {
    let header = ["device load", "mode", "p50 ms", "p99 ms", "state"];
    let rows = sweep.points.iter().flat_map(|point| {
        point.modes.iter().map(|mode| {
            let knee = sweep
                .knees
                .iter()
                .find(|knee| knee.mode == mode.mode && knee.device_load == point.device_load);
            let bounded = if knee.is_some() { "knee" } else { "stable" };
            vec![
                format!("{:.3}", point.device_load),
                mode.mode.name().to_owned(),
                interval(mode.p50_ms),
                interval(mode.p99_ms),
                mode.growth_per_s.map_or_else(|| bounded.to_owned(), growing),
            ]
        })
    });
    let percent = sweep.intervals.coverage * 100.0;
    format!("latency against load [{percent} % intervals, simultaneous]\n{}", draw(&header, rows))
}
