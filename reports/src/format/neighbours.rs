//! The experiments on neighbours: which pair harms, what equal tenants get, what a share is worth,
//! what queues and loads do. Each is a table, and the tables of a record with one are its screen.

use std::collections::BTreeMap;

use gpubench_judge::figures::expected::expected;
use gpubench_record::{
    Condition, Ends, Estimate, MatrixRow, OperatorRow, RunRecord, ServiceRow, Verdict, counted,
};
use gpubench_show::{Cell, Column, Labels, Page, Paint, Table};

use super::document::{left_out, selected, title, urgent};
use super::screen::facts;
use super::vendor_counters::{attribution, energy};
use super::{RenderOptions, figures};

/// The screen of a record of one of the experiments; `None` for any other record.
pub(super) fn screen(record: &RunRecord, options: &RenderOptions) -> Option<String> {
    let record = &*selected(record, &options.selection);
    let tables = tables(record);
    // Equal tenants beside a matrix are a part of its report.
    let has_levels = record.matrix.iter().any(|row| row.level.is_some());
    let is_part = has_levels && tables.len() == 1 && !equal(record).rows.is_empty();
    if tables.is_empty() || is_part {
        return None;
    }
    let mut page = Page::new(title(record));
    page.say(facts::run(record));
    urgent(record).into_iter().chain(left_out(record, options)).for_each(|text| page.notice(text));
    for table in tables {
        page.push(gpubench_show::Block::Gap);
        page.push(Table { boxed: false, ..table });
    }
    page.push(gpubench_show::Block::Gap);
    sentences(record).into_iter().for_each(|text| page.say(text));
    Some(page.text(options.look))
}

/// The tables of the experiments that the record has.
pub(super) fn tables(record: &RunRecord) -> Vec<Table> {
    let mut tables = vec![pairs(record), shares(record), equal(record), depth(record)];
    tables.extend([load(record), transients(record), energy(record), attribution(record)]);
    tables.retain(|table| !table.rows.is_empty());
    let labels = Labels::of_records(&[record]);
    tables.iter_mut().for_each(|table| labels.on_table(table));
    tables
}

/// What follows from the tables, and the claims that the record tests.
fn sentences(record: &RunRecord) -> Vec<String> {
    let measured = record.cells.iter().filter(|one| one.outcome.is_measured()).count();
    let cells = counted(record.plan.cells.len(), "cell");
    let mut said = prediction(record);
    said.extend(goodput(record));
    said.extend(successors(record));
    let tested = record.claims.iter().filter(|one| one.verdict != Verdict::Untested);
    said.extend(tested.take(4).map(|one| {
        let source = one.source.split(';').next().unwrap_or_default();
        format!("claim {} {}: {} ({source})", one.id, one.verdict.as_str(), one.statement)
    }));
    said.push(format!("{measured} of {cells} measured; +- is the half of an interval"));
    said
}

/// `0.29+-0.01`: the larger half of the interval, rounded up.
pub(super) fn brief(of: Option<&Estimate>) -> String {
    let Some(of) = of else {
        return figures::MISSING_TEXT.to_owned();
    };
    let half = (of.hi - of.value).max(of.value - of.lo);
    match of.ends {
        Ends::AtMost => format!("<{:.3}", of.hi),
        Ends::AtLeast => format!(">={:.2}", of.lo),
        Ends::Interval | Ends::Range => {
            format!("{:.2}+-{:.2}", of.value, (half * 100.0).ceil() / 100.0)
        }
    }
}

fn of_level(row: &MatrixRow) -> Cell {
    let (paint, class) = match row.level.as_deref() {
        Some("L3") => (Paint::Good, "level L3"),
        Some("L2") => (Paint::Fair, "level L2"),
        Some("L1") => (Paint::Weak, "level L1"),
        Some("L0") => (Paint::Bad, "level L0"),
        _ => (Paint::Plain, "level open"),
    };
    Cell::text(brief(row.retention.as_ref())).painted(paint, class)
}

// The whole matrix.

/// The rows of a variant by victim and aggressor.
type Grid<'a> = BTreeMap<(&'a str, &'a str), &'a MatrixRow>;

/// The retentions of every victim beside every aggressor, where the plan has all pairs.
fn grid<'a>(record: &'a RunRecord, variant: &str) -> Grid<'a> {
    let rows = record.matrix.iter().filter(|row| row.variant == variant && row.axis != "jitter");
    let rows = rows.filter(|row| row.retention.is_some());
    rows.filter_map(|row| Some(((row.victim.as_deref()?, row.aggressor.as_deref()?), row)))
        .collect()
}

/// Victims and aggressors of a plan of the whole matrix, each in the order of the plan.
fn sides(record: &RunRecord) -> Option<[Vec<&str>; 2]> {
    let mut sides: [Vec<&str>; 2] = [Vec::new(), Vec::new()];
    for pair in &record.plan.pairs {
        for (side, name) in sides.iter_mut().zip([&pair.victim, &pair.aggressor]) {
            if !side.contains(&name.as_str()) {
                side.push(name);
            }
        }
    }
    let whole = sides[0].len() * sides[1].len() == record.plan.pairs.len();
    (whole && sides.iter().all(|side| side.len() > 1)).then_some(sides)
}

/// The mean of several retentions. Half-widths add: it covers at least as often as each of them.
fn mean<'a>(of: impl Iterator<Item = &'a MatrixRow>) -> Option<Estimate> {
    let all: Vec<&Estimate> = of.filter_map(|row| row.retention.as_ref()).collect();
    let first = all.first()?;
    let mean =
        |of: fn(&Estimate) -> f64| all.iter().map(|one| of(one)).sum::<f64>() / all.len() as f64;
    let (value, lo, hi) = (mean(|one| one.value), mean(|one| one.lo), mean(|one| one.hi));
    Some(Estimate { value, lo, hi, ends: Ends::Interval, parts: None, ..(*first).clone() })
}

fn least<'a>(of: impl Iterator<Item = &'a MatrixRow>) -> Option<&'a MatrixRow> {
    let value = |row: &&MatrixRow| row.retention.as_ref().map_or(f64::INFINITY, |one| one.value);
    of.min_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Whether the interval shows that the victim lost anything to speak of.
fn is_harmed(row: &MatrixRow) -> bool {
    row.retention.as_ref().is_some_and(|one| one.hi < 0.99)
}

/// Retention of each pair; the mean of a victim is its sensitivity, that of an aggressor its
/// pressure. The most sensitive victim is first.
fn pairs(record: &RunRecord) -> Table {
    let Some([victims, aggressors]) = sides(record) else {
        return Table::plain([""], Vec::<[String; 1]>::new());
    };
    let mut columns = ["mechanism", "victim"].map(Column::text).to_vec();
    columns.extend(aggressors.iter().map(|name| Column::number(*name)));
    columns.extend(["sensitivity", "worst"].map(Column::number));
    let mut rows = Vec::new();
    for mechanism in &record.mechanisms {
        let grid = grid(record, &mechanism.variant);
        let own = |victim: &str| -> Vec<&MatrixRow> {
            aggressors.iter().filter_map(|other| grid.get(&(victim, *other)).copied()).collect()
        };
        let by = |aggressor: &str| -> Vec<&MatrixRow> {
            victims.iter().filter_map(|victim| grid.get(&(*victim, aggressor)).copied()).collect()
        };
        let mut ranked: Vec<&str> =
            victims.iter().copied().filter(|name| !own(name).is_empty()).collect();
        let value = |name: &str| mean(own(name).into_iter()).map_or(1.0, |one| one.value);
        ranked.sort_by(|a, b| value(a).total_cmp(&value(b)));
        for victim in &ranked {
            let mut cells = vec![Cell::text(&mechanism.variant), Cell::text(victim)];
            let of = |name: &&str| {
                grid.get(&(*victim, *name)).map_or_else(|| Cell::text(""), |row| of_level(row))
            };
            cells.extend(aggressors.iter().map(of));
            cells.push(Cell::text(brief(mean(own(victim).into_iter()).as_ref())));
            let worst = least(own(victim).into_iter().filter(|row| is_harmed(row)));
            let worst = worst.and_then(|row| row.aggressor.as_deref());
            cells.push(Cell::text(worst.unwrap_or_default()));
            rows.push(cells);
        }
        if !ranked.is_empty() {
            let mut cells = vec![Cell::text(&mechanism.variant), Cell::text("pressure")];
            cells.extend(
                aggressors
                    .iter()
                    .map(|name| Cell::text(brief(mean(by(name).into_iter()).as_ref()))),
            );
            let worst = least(grid.values().copied().filter(|row| is_harmed(row)));
            let worst = worst.and_then(|row| row.victim.as_deref()).unwrap_or_default();
            cells.extend([Cell::text(""), Cell::text(worst)]);
            rows.push(cells);
        }
    }
    let heading = "Pairs: what a victim keeps of its solo rate beside each aggressor (1 = all)";
    Table::new("pairs", heading, columns, rows).grouped()
}

/// How far predictions of the pairs were off.
fn prediction(record: &RunRecord) -> Vec<String> {
    let found = expected(record);
    let mut errors: Vec<f64> = found.iter().filter_map(|one| one.error).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize];
    let (Some(worst), false) = (
        found.iter().filter(|one| one.error.is_some()).max_by(|a, b| {
            let size = |error: Option<f64>| error.map_or(0.0, f64::abs);
            size(a.error).total_cmp(&size(b.error))
        }),
        errors.is_empty(),
    ) else {
        return Vec::new();
    };
    let row = worst.row;
    let measured = row.retention.as_ref().map_or(0.0, |one| one.value);
    let within = errors.iter().filter(|error| error.abs() <= 0.1).count();
    vec![
        format!(
            "predicted from native and solo cells alone, less measured: median {:+.2}, from {:+.2} \
             to {:+.2}; {within} of {} within 0.1. No prediction is a figure",
            at(0.5),
            at(0.0),
            at(1.0),
            counted(errors.len(), "pair"),
        ),
        format!(
            "farthest off: {} beside {} under {}, predicted {:.2}, measured {measured:.2}",
            row.victim.as_deref().unwrap_or_default(),
            row.aggressor.as_deref().unwrap_or_default(),
            row.variant,
            worst.retention,
        ),
    ]
}

/// Predicted beside measured, one line for each pair.
pub(super) fn predictions(record: &RunRecord) -> Table {
    let columns =
        ["mechanism", "victim", "beside", "predicted R", "measured R", "predicted less measured"];
    let rows = expected(record).into_iter().map(|one| {
        vec![
            Cell::text(&one.row.variant),
            Cell::text(one.row.victim.as_deref().unwrap_or_default()),
            Cell::text(one.row.aggressor.as_deref().unwrap_or_default()),
            Cell::text(format!("{:.2}", one.retention)),
            figures::figure(one.row.retention.as_ref(), None),
            Cell::text(one.error.map_or_else(String::new, |error| format!("{error:+.2}"))),
        ]
    });
    let heading = "Predictions: from native and solo cells alone; no prediction is a figure";
    Table::new("predictions", heading, columns, rows).grouped().numbers(&columns[3..])
}

// Equal tenants, and asked shares.

/// The rows of tenants that do the same work, without asked shares or with them.
fn of_equals(record: &RunRecord, asked: bool) -> impl Iterator<Item = &OperatorRow> {
    let rows = record.operator.iter().filter(|row| row.victim == row.aggressor);
    rows.filter(move |row| self::asked(&row.variant).is_some() == asked)
}

/// The limits that a variant asks for the victim and each neighbour: `mps-quota[pct=10/90]`.
pub(super) fn asked(variant: &str) -> Option<[f64; 2]> {
    let options = variant.split(['[', ']', ',']);
    options.filter_map(|option| option.split_once('=')).find_map(|(_, limit)| {
        let (own, each) = limit.split_once('/')?;
        Some([own.parse::<f64>().ok()?, each.parse::<f64>().ok()?])
    })
}

fn equal(record: &RunRecord) -> Table {
    let columns =
        ["mechanism", "workload", "tenants", "fair", "least", "most", "sum (STP)", "ANTT", "Jain"];
    let mut all: Vec<&OperatorRow> = of_equals(record, false).collect();
    let position = |variant: &str| record.mechanisms.iter().position(|one| one.variant == variant);
    all.sort_by_key(|row| (position(&row.variant), row.victim.clone(), row.tenants));
    let rows = all.into_iter().map(|row| {
        vec![
            Cell::text(&row.variant),
            Cell::text(&row.victim),
            Cell::text(row.tenants.to_string()),
            Cell::text(format!("{:.2}", 1.0 / f64::from(row.tenants))),
            Cell::text(brief(Some(&row.progress_min))),
            Cell::text(brief(Some(&row.progress_max))),
            Cell::text(brief(Some(&row.stp))),
            Cell::text(brief(Some(&row.antt))),
            Cell::text(brief(Some(&row.jain))),
        ]
    });
    let heading = "Equal tenants: progress of each over its rate alone on the device";
    Table::new("equal", heading, columns, rows).grouped().numbers(&columns[2..])
}

fn shares(record: &RunRecord) -> Table {
    let columns =
        ["mechanism", "asked", "victim got", "neighbour got", "sum", "of time", "least of asked"];
    let rows = of_equals(record, true).filter_map(|row| {
        let limits = asked(&row.variant)?;
        let [own, other] = [row.progress.first()?, row.progress.get(1)?];
        let time = row.gpu_time.first().map(|one| format!("{:.2}", one.share));
        let got = |of: &Estimate, asked: f64| 100.0 * of.value / asked;
        let kept = [got(&own.progress, limits[0]), got(&other.progress, limits[1])];
        let pays = if kept[0] <= kept[1] { "victim" } else { "neighbour" };
        let [first, second] = limits;
        Some(vec![
            Cell::text(&row.mechanism),
            Cell::text(format!("{first}/{second}")),
            Cell::text(brief(Some(&own.progress))),
            Cell::text(brief(Some(&other.progress))),
            Cell::text(brief(Some(&row.stp))),
            Cell::text(time.unwrap_or_default()),
            Cell::text(format!("{pays} {:.2}", kept[0].min(kept[1]))),
        ])
    });
    let heading = "Shares: limits asked in percent of the device, and the share of its work got";
    Table::new("shares", heading, columns, rows.collect::<Vec<_>>())
        .grouped()
        .numbers(&columns[1..])
}

// Depth and load.

fn beside(row: &ServiceRow) -> String {
    match &row.aggressor {
        Some(aggressor) => format!("{} beside {aggressor}", row.victim),
        None => format!("{} solo", row.victim),
    }
}

/// Rows of contended cells with depths of their own, and those with the usual ones beside them.
pub(super) fn of_depths(record: &RunRecord) -> impl Iterator<Item = &ServiceRow> {
    let has = |row: &ServiceRow| row.shape.depth.or(row.shape.neighbour_depth).is_some();
    let any = record.service.iter().any(has);
    let rows = record.service.iter().filter(move |row| any && row.shape.load_pct.is_none());
    let all = record.plan.tenants;
    rows.filter(move |row| row.condition == Condition::C && row.tenants == all)
}

fn depth(record: &RunRecord) -> Table {
    let mut others: Vec<u32> = of_depths(record).map(|row| row.shape.depths()[1]).collect();
    others.sort_unstable();
    others.dedup();
    let mut grid: BTreeMap<(usize, String, u32), BTreeMap<u32, &ServiceRow>> = BTreeMap::new();
    for row in of_depths(record) {
        let mut mechanisms = record.mechanisms.iter();
        let at = mechanisms.position(|one| one.variant == row.variant).unwrap_or(usize::MAX);
        let [own, other] = row.shape.depths();
        grid.entry((at, beside(row), own)).or_default().insert(other, row);
    }
    let mut columns = ["mechanism", "cells"].map(Column::text).to_vec();
    columns.push(Column::number("victim's depth"));
    columns.extend(others.iter().map(|depth| Column::number(format!("neighbour's {depth}"))));
    let rows = grid.into_iter().map(|((_, what, own), cells)| {
        let variant = cells.values().next().map_or("", |row| row.variant.as_str());
        let mut line = vec![Cell::text(variant), Cell::text(what), Cell::text(own.to_string())];
        line.extend(others.iter().map(|depth| {
            Cell::text(brief(cells.get(depth).and_then(|row| row.retention.as_ref())))
        }));
        line
    });
    let heading = "Depth: what a victim keeps of its solo rate, by requests outstanding";
    Table::new("depth", heading, columns, rows.collect::<Vec<_>>()).grouped()
}

/// Rows at loads of their own, by mechanism, cells and load.
pub(super) fn of_loads(record: &RunRecord) -> Vec<&ServiceRow> {
    let position = |variant: &str| record.mechanisms.iter().position(|one| one.variant == variant);
    let rows = record.service.iter().filter(|row| row.shape.load_pct.is_some());
    let mut rows: Vec<&ServiceRow> = rows.collect();
    rows.sort_by_key(|row| (position(&row.variant), row.aggressor.clone(), row.shape.load_pct));
    rows
}

fn load(record: &RunRecord) -> Table {
    let columns =
        ["mechanism", "cells", "load %", "of solo", "done/s", "p50 ms", "p99 ms", "state"];
    let rows = of_loads(record).into_iter().filter_map(|row| {
        let at = row.at_load.as_ref()?;
        let ms = |of: &Option<Estimate>| brief(of.as_ref().map(in_ms).as_ref());
        let state = match (&at.growth, row.outcome.reason.as_deref()) {
            (Some(growth), _) => format!("overloaded, +{:.0}/s", growth.value),
            (None, Some(reason)) => reason.split(':').next().unwrap_or(reason).to_owned(),
            (None, None) => "keeps up".to_owned(),
        };
        let of = |of: &Option<Estimate>| {
            of.as_ref().map_or_else(String::new, |one| format!("{:.0}", one.value))
        };
        Some(vec![
            Cell::text(&row.variant),
            Cell::text(beside(row)),
            Cell::text(row.shape.load_pct.map_or_else(String::new, |pct| pct.to_string())),
            Cell::text(brief(at.of_solo.as_ref())),
            Cell::text(of(&at.completed)),
            Cell::text(ms(&at.p50)),
            Cell::text(ms(&at.p99)),
            Cell::text(state),
        ])
    });
    let heading =
        "Load: latency by load; above capacity a queue grows by so many requests a second";
    Table::new("load", heading, columns, rows.collect::<Vec<_>>()).grouped().numbers(&columns[2..7])
}

pub(super) fn in_ms(of: &Estimate) -> Estimate {
    let ms = |ns: f64| ns / 1e6;
    let (value, lo, hi) = (ms(of.value), ms(of.lo), ms(of.hi));
    Estimate { value, lo, hi, parts: None, unit: "ms".to_owned(), ..of.clone() }
}

/// The largest tested load at which the p99 surely keeps the promised latency, and the smallest at
/// which it surely does not.
fn goodput(record: &RunRecord) -> Vec<String> {
    let Some(slo_ns) = record.plan.slo_ns else {
        return Vec::new();
    };
    let mut curves: BTreeMap<(String, String), Vec<&ServiceRow>> = BTreeMap::new();
    for row in of_loads(record) {
        curves.entry((beside(row), row.variant.clone())).or_default().push(row);
    }
    let slo = slo_ns as f64;
    let of = |rows: &[&ServiceRow]| {
        let p99 = |row: &&&ServiceRow| row.at_load.as_ref().and_then(|at| at.p99.clone());
        let breaks = |row: &&&ServiceRow| {
            let grows = row.at_load.as_ref().is_some_and(|at| at.growth.is_some());
            grows || p99(row).is_some_and(|p99| p99.lo > slo)
        };
        let keeps = |row: &&&ServiceRow| p99(row).is_some_and(|p99| p99.hi <= slo);
        let kept = rows.iter().take_while(keeps).last().and_then(|row| row.shape.load_pct);
        let broken = rows.iter().find(breaks).and_then(|row| row.shape.load_pct);
        let kept = kept.map_or_else(|| "none tested".to_owned(), |pct| format!("{pct} %"));
        match broken {
            Some(pct) => format!("{kept} (broken at {pct} %)"),
            None => format!("{kept} (no tested load breaks it)"),
        }
    };
    let mut by_cells: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((cells, variant), rows) in &curves {
        by_cells.entry(cells).or_default().push(format!("{variant} {}", of(rows)));
    }
    let ms = slo / 1e6;
    let said = by_cells.into_iter().map(|(cells, all)| {
        format!("largest load with p99 <= {ms} ms, {cells}: {}", all.join("; "))
    });
    said.collect()
}

// Events of neighbours.

/// The words of an event, as its row has them.
fn event_in_words(event: &str) -> &str {
    match event {
        "restart" => "kill, successor",
        "sm-fault" => "MPS SM fault",
        other => other,
    }
}

fn transients(record: &RunRecord) -> Table {
    let columns = ["mechanism", "event", "n", "stall ms", "lost", "back ms", "rate", "state"];
    let rows = record.transients.iter().map(|row| {
        let n = row.stall.as_ref().map_or(0, |stall| stall.n);
        let state = match (row.not_back, row.outcome.reason.as_deref()) {
            (_, Some(reason)) => reason.to_owned(),
            (0, None) => "back".to_owned(),
            (some, None) => format!("not back in {some}"),
        };
        vec![
            Cell::text(&row.variant),
            Cell::text(event_in_words(&row.event)),
            Cell::text(n.to_string()),
            Cell::text(brief(row.stall.as_ref())),
            Cell::text(brief(row.lost.as_ref())),
            Cell::text(brief(row.back.as_ref())),
            Cell::text(brief(row.rate_ratio.as_ref())),
            Cell::text(state),
        ]
    });
    let heading = "Transients: worst stall, time to the old rate, and last rate over the old one";
    Table::new("transients", heading, columns, rows.collect::<Vec<_>>())
        .grouped()
        .numbers(&columns[2..7])
}

/// When the successor of a killed neighbour had run its first kernel; it has no load after that.
fn successors(record: &RunRecord) -> Option<String> {
    let labels = Labels::of_records(&[record]);
    let after = record.transients.iter().filter_map(|row| {
        Some(format!("{} {}", labels.get(&row.variant), brief(Some(row.restarted.as_ref()?))))
    });
    let after: Vec<String> = after.collect();
    let what = "ms from a kill until a new process had opened a context and run one kernel";
    (!after.is_empty()).then(|| format!("{what}: {}", after.join(", ")))
}
