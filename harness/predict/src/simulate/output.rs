//! Output of `simulate`: the report as a document, and its figures in full as CSV.

use gpubench_record::counted;
use gpubench_show::{Block, Cell, Page, Paint, Table};

use super::chart::chart;
use super::reference::{Interval, ReplicatedMode};
use super::report::{HostileMode, Replicated, Report};
use super::scenario::Scenario;
use super::sweep::Sweep;

/// The report for people, below the blocks that say where its parameters are from.
pub fn page(report: &Report, parameters: Vec<Block>) -> Page {
    let mut page =
        Page::new(format!("prediction of the {} model, not a measurement", report.model));
    page.blocks = parameters;
    page.push(modes(report).with_heading(load(&report.scenario)));
    page.say(LOAD);
    if let Some(replicated) = &report.replicated {
        page.push(replicated_modes(replicated));
    }
    if let Some(rows) = &report.hostile {
        page.push(hostile(rows));
    }
    if let Some(sweep) = &report.sweep {
        page.push(chart(sweep));
        page.push(swept(sweep));
    }
    page
}

/// What the column of the load is of.
const LOAD: &str = "load: of the busiest queue, its busy time per second; from 1 on it grows \
                    without end. MIG and MPS have a queue for each tenant, time-slice has one \
                    for all";

fn load(scenario: &Scenario) -> String {
    format!(
        "{}, {} ms of service, {} requests/s each, {} s, seed {}",
        counted(scenario.tenants, "tenant"),
        scenario.service_ms,
        scenario.rate_per_s,
        scenario.duration_s,
        scenario.seed
    )
}

fn modes(report: &Report) -> Table {
    let rows = report.modes.iter().map(|mode| {
        [
            mode.mode.name().into(),
            report.offered.to_string().into(),
            mode.served.to_string().into(),
            Cell::text(mode.served_percent.map_or_else(String::new, |one| format!("{one:.1}"))),
            figure(mode.p50_ms),
            figure(mode.p99_ms),
            figure(Some(mode.load)),
            state(mode.state.growth_per_s(), false),
        ]
    });
    let header = ["mode", "offered", "served", "served %", "p50 ms", "p99 ms", "load", "state"];
    Table::plain(header, rows).numbers(&header[1..7])
}

fn replicated_modes(replicated: &Replicated) -> Table {
    let rows = replicated.modes.iter().map(|mode| {
        [
            mode.mode.name().into(),
            interval(mode.served_percent),
            interval(mode.p50_ms),
            interval(mode.p99_ms),
            state(mode.growth_per_s, false),
        ]
    });
    let percent = replicated.intervals.coverage * 100.0;
    let count = replicated.replications;
    let header = ["mode", "served %", "p50 ms", "p99 ms", "state"];
    Table::plain(header, rows)
        .numbers(&header[1..4])
        .with_heading(format!("mean over {count} replications [{percent} % t interval]"))
}

fn hostile(rows: &[HostileMode]) -> Table {
    let rows = rows.iter().map(|row| {
        let figures = [row.p99_without_ms, row.p99_with_ms, row.added_ms, row.gap_to_mig_ms];
        std::iter::once(row.mode.name().into()).chain(figures.map(figure))
    });
    let header = ["mode", "p99 without ms", "p99 with ms", "added ms", "gap to MIG ms"];
    Table::plain(header, rows)
        .numbers(&header[1..])
        .with_heading("other tenants beside the hostile one (gap: added ms above that of MIG)")
}

fn swept(sweep: &Sweep) -> Table {
    let rows = sweep.points.iter().flat_map(|point| {
        point.modes.iter().map(|mode| {
            [
                format!("device load {:.3}", point.device_load).into(),
                mode.mode.name().into(),
                interval(mode.p50_ms),
                interval(mode.p99_ms),
                state(mode.growth_per_s, is_knee(sweep, point.device_load, mode)),
            ]
        })
    });
    let percent = sweep.intervals.coverage * 100.0;
    let header = ["load", "mode", "p50 ms", "p99 ms", "state"];
    Table::plain(header, rows)
        .numbers(&header[2..4])
        .with_heading(format!("latency against load [{percent} % intervals, simultaneous]"))
        .grouped()
}

fn is_knee(sweep: &Sweep, device_load: f64, mode: &ReplicatedMode) -> bool {
    let mut knees = sweep.knees.iter();
    knees.any(|knee| knee.mode == mode.mode && knee.device_load == device_load)
}

fn state(growth_per_s: Option<f64>, is_knee: bool) -> Cell {
    match growth_per_s {
        Some(growth) => {
            Cell::text(format!("overloaded: the queues grow by {growth:.2} requests/s"))
                .painted(Paint::Bad, "")
        }
        None if is_knee => Cell::text("knee").painted(Paint::Weak, ""),
        None => "stable".into(),
    }
}

fn figure(value: Option<f64>) -> Cell {
    Cell::text(value.map_or_else(String::new, |value| format!("{value:.2}")))
}

fn interval(found: Option<Interval>) -> Cell {
    let lines =
        |of: Interval| [format!("{:.2}", of.value), format!("[{:.2}, {:.2}]", of.lo, of.hi)];
    Cell::lines(found.map(lines).unwrap_or_default())
}

/// The figures of the report in full: a row per mode, or per load and mode of a sweep.
pub fn csv(report: &Report) -> String {
    let table = report.sweep.as_ref().map_or_else(|| modes_in_full(report), swept_in_full);
    gpubench_show::csv(std::iter::once(&table))
}

fn modes_in_full(report: &Report) -> Table {
    let header = "mode,offered,served,served_percent,p50_ms,p99_ms,mean_ms,load,state,growth_per_s";
    let rows = report.modes.iter().map(|mode| {
        let growth = mode.state.growth_per_s();
        [
            mode.mode.name().to_owned(),
            report.offered.to_string(),
            mode.served.to_string(),
            in_full(mode.served_percent),
            in_full(mode.p50_ms),
            in_full(mode.p99_ms),
            in_full(mode.mean_ms),
            mode.load.to_string(),
            if growth.is_none() { "stable" } else { "overloaded" }.to_owned(),
            in_full(growth),
        ]
    });
    Table::plain(header.split(','), rows)
}

fn swept_in_full(sweep: &Sweep) -> Table {
    let header = "device_load,offered_per_s,mode,p50_ms,p50_lo_ms,p50_hi_ms,p99_ms,p99_lo_ms,\
                  p99_hi_ms,replications,state,growth_per_s,is_knee";
    let rows = sweep.points.iter().flat_map(|point| {
        point.modes.iter().map(|mode| {
            let bounds = |found: Option<Interval>| {
                let part = |of: fn(Interval) -> f64| in_full(found.map(of));
                [part(|one| one.value), part(|one| one.lo), part(|one| one.hi)]
            };
            let mut row = vec![
                point.device_load.to_string(),
                point.offered_per_s.to_string(),
                mode.mode.name().to_owned(),
            ];
            row.extend(bounds(mode.p50_ms));
            row.extend(bounds(mode.p99_ms));
            row.extend([
                mode.p99_ms.map_or_else(String::new, |found| found.n.to_string()),
                if mode.overloaded == 0 { "stable" } else { "overloaded" }.to_owned(),
                in_full(mode.growth_per_s),
                is_knee(sweep, point.device_load, mode).to_string(),
            ]);
            row
        })
    });
    Table::plain(header.split(','), rows)
}

fn in_full(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
