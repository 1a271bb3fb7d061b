//! The tables about mechanisms, cells, proofs and probes.

use super::figures::{MISSING_TEXT, figure, level_cell, one_line, outcome, readable};
use gpubench_record::{
    ClaimRow, Condition, Estimate, OperatorRow, OutcomeKind, PlannedTime, Proof, RunRecord,
    TenantTime, TimePart, Verdict,
};
use gpubench_show::{Cell, Column, Notes, Table};
use std::collections::BTreeMap;

/// Figures of probes, which are no scores.
pub(super) fn probe_figures(record: &RunRecord) -> Table {
    let columns = ["mechanism", "explains", "what", "figure", "n"].map(str::to_owned);
    let rows = record.probe_figures.iter().map(|one| {
        let explains = one.explains.as_deref().unwrap_or_default();
        let estimate = readable(&one.estimate);
        let figure = figure(Some(&estimate), Some(&estimate.unit));
        let n = Cell::text(one.estimate.n.to_string());
        let variant = Cell::text(&one.variant);
        let (explains, what) = (Cell::text(explains), Cell::text(one.title()));
        vec![variant, explains, what, figure, n]
    });
    Table::new("probe-figures", "Probes", columns, rows).numbers(&["figure", "n"])
}

/// The variant, with the name of the mechanism if the variant does not begin with it.
pub(super) fn mechanism(name: &str, variant: &str) -> Cell {
    if variant.starts_with(name) { Cell::text(variant) } else { Cell::lines([name, variant]) }
}

/// The mechanisms: outcome, overall level, proof.
pub(super) fn mechanisms(record: &RunRecord, notes: &mut Notes) -> Table {
    let columns =
        ["mechanism", "overall", "weakest axis", "rests on", "unmeasured axes", "proof", "outcome"];
    let rows = record.mechanisms.iter().map(|row| {
        let overall = record
            .overall
            .iter()
            .find(|overall| (&overall.mechanism, &overall.variant) == (&row.name, &row.variant));
        let level = overall.and_then(|overall| overall.level.as_deref());
        let weakest = overall.and_then(|overall| overall.weakest_axis.as_deref());
        let axes = overall.map(|overall| overall.axes.join(", "));
        let unmeasured = overall.map(|overall| overall.unmeasured_axes.join(", "));
        let notes = row.outcome.reason.iter().map(|reason| notes.number(reason)).collect();
        vec![
            mechanism(&row.name, &row.variant),
            level_cell(level, None),
            Cell::text(weakest.unwrap_or_default()),
            Cell::text(axes.unwrap_or_default()),
            Cell::text(unmeasured.unwrap_or_default()),
            Cell::text(proof_summary(&row.proof)),
            outcome(row.outcome.outcome, notes),
        ]
    });
    Table::new(
        "mechanisms",
        "Mechanisms: the overall level is that of the weakest axis",
        columns,
        rows,
    )
}

fn proof_summary(proof: &[Proof]) -> String {
    if proof.is_empty() {
        return String::new();
    }
    let holding = proof.iter().filter(|proof| proof.holds).count();
    let shows =
        |what: fn(&&Proof) -> bool| proof.iter().filter(|proof| proof.holds).any(|p| what(&p));
    let partition =
        if shows(|proof| proof.hardware) { ", hardware partition observed" } else { "" };
    let limiter = if shows(|proof| proof.limiter) { ", limiter observed" } else { "" };
    format!("{holding} of {} checks hold{partition}{limiter}", proof.len())
}

/// The rate of each aggressor without a neighbour, and the ceiling that it is held against.
pub(super) fn aggressors(record: &RunRecord) -> Table {
    let rows = record.calibration.peaks.iter().map(|(name, peak)| {
        let rate = |per_s: f64| format!("{per_s:.3e} {}/s", peak.unit);
        let share = peak.alone_per_s / peak.peak_per_s;
        let ceiling = rate(peak.peak_per_s);
        let texts = [name, peak.ceiling.as_str(), &ceiling, &peak.source];
        let [name, kind, ceiling, source] = texts.map(Cell::text);
        let (alone, share) = (rate(peak.alone_per_s), format!("{:.1} %", 100.0 * share));
        vec![name, Cell::text(alone), Cell::text(share), ceiling, kind, source]
    });
    let columns = ["aggressor", "rate", "of ceiling", "ceiling", "kind", "source"];
    let heading = "Aggressors without a neighbour, and the peaks of their resources";
    Table::new("aggressors", heading, columns, rows)
        .numbers(&["rate", "of ceiling", "ceiling"])
        .in_detail()
}

/// What the time of the run was spent on, beside the prediction of its plan.
pub(super) fn time_use(record: &RunRecord) -> Table {
    let (planned, spent) = (&record.plan.time, &record.time);
    let mut parts: Vec<TimePart> = planned.iter().map(|one| one.part).collect();
    parts.extend(spent.iter().map(|one| one.part));
    parts.sort();
    parts.dedup();
    let total = |sums: &mut dyn Iterator<Item = u64>| sums.reduce(|sum, ns| sum + ns);
    let used_ns = total(&mut spent.iter().map(|one| one.ns));
    let planned_ns = total(&mut planned.iter().map(|one| one.ns));
    let row = |part: &str, of: Option<&PlannedTime>, predicted: Option<u64>, used: Option<u64>| {
        let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
        let guessed = if of.is_some_and(|of| of.guessed) { " guessed" } else { "" };
        let predicted = predicted.map_or_else(String::new, |ns| seconds(ns) + guessed);
        let share = used.zip(used_ns).map(|(used, all)| 100.0 * used as f64 / all as f64);
        let share = share.map_or_else(String::new, |share| format!("{share:.1} %"));
        let used = used.map_or_else(String::new, seconds);
        [part.to_owned(), predicted, used, share].map(Cell::text).to_vec()
    };
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for part in parts {
        let planned = planned.iter().find(|one| one.part == part);
        let used = spent.iter().find(|one| one.part == part).map(|one| one.ns);
        rows.push(row(part.as_str(), planned, planned.map(|one| one.ns), used));
    }
    if !rows.is_empty() {
        rows.push(row("whole run", None, planned_ns, used_ns));
    }
    let columns = ["part", "predicted", "used", "share"];
    Table::new("time", "Time", columns, rows).numbers(&columns[1..])
}

/// Requested mechanisms and axes that did not run, with reason and remedy.
pub(super) fn skips(record: &RunRecord) -> Table {
    let none = String::new();
    // Mechanisms that share axis, reason and remedy share a row.
    let mut rows: Vec<(Vec<&str>, [&str; 3])> = Vec::new();
    let mechanisms = record.mechanisms.iter();
    for row in mechanisms.filter(|row| row.outcome.outcome == OutcomeKind::Waived) {
        let reason = row.outcome.reason.as_ref().unwrap_or(&none);
        let remedy = row.remedy.as_ref().unwrap_or(&none);
        add(&mut rows, &row.variant, ["", reason, remedy]);
    }
    for skip in &record.plan.skips {
        let axis = skip.axis.as_ref().unwrap_or(&none);
        let remedy = skip.remedy.as_ref().unwrap_or(&none);
        add(&mut rows, &skip.variant, [axis, &skip.reason, remedy]);
    }
    let columns = ["mechanism", "axis", "reason", "remedy"];
    Table::new(
        "skips",
        "Did not run",
        columns,
        rows.into_iter().map(|(variants, of)| {
            let mut cells = vec![Cell::lines(variants)];
            cells.extend(of.map(Cell::text));
            cells
        }),
    )
}

/// Adds a mechanism to the row of the same axis, reason and remedy.
fn add<'a>(rows: &mut Vec<(Vec<&'a str>, [&'a str; 3])>, variant: &'a str, of: [&'a str; 3]) {
    match rows.iter_mut().find(|(_, known)| *known == of) {
        Some((variants, _)) if variants.contains(&variant) => {}
        Some((variants, _)) => variants.push(variant),
        None => rows.push((vec![variant], of)),
    }
}

/// Cells without a measurement, counted by outcome, mechanism and condition.
pub(super) fn cells(record: &RunRecord) -> Table {
    let mut groups: BTreeMap<(u8, &str, &str), (usize, usize)> = BTreeMap::new();
    for (index, cell) in record.cells.iter().enumerate() {
        let rank = match cell.outcome.outcome {
            OutcomeKind::Measured => continue,
            OutcomeKind::Failed => 0,
            OutcomeKind::Inconclusive => 1,
            OutcomeKind::Waived => 2,
        };
        let key = (rank, cell.cell.variant.as_str(), cell.cell.condition.as_str());
        groups.entry(key).or_insert((0, index)).0 += 1;
    }
    let rows = groups.into_iter().map(|((_, variant, condition), (count, first))| {
        let first = &record.cells[first];
        let reason = first.outcome.reason.as_deref().unwrap_or_default();
        vec![
            outcome(first.outcome.outcome, Vec::new()),
            Cell::text(count.to_string()),
            Cell::text(variant),
            Cell::text(condition),
            Cell::text(&first.cell.id),
            Cell::text(reason),
        ]
    });
    let columns = ["outcome", "cells", "mechanism", "condition", "first cell", "its reason"];
    Table::new("cells", "Cells without a measurement", columns, rows).numbers(&["cells"])
}

/// The number of cells by outcome, as a sentence.
pub(super) fn cells_in_words(record: &RunRecord) -> String {
    let count = |kind| record.cells.iter().filter(|cell| cell.outcome.outcome == kind).count();
    let planned = record.plan.cells.len();
    let others = [
        (count(OutcomeKind::Inconclusive), "inconclusive"),
        (count(OutcomeKind::Failed), "failed"),
        (count(OutcomeKind::Waived), "waived"),
        (planned.saturating_sub(record.cells.len()), "not run"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: String = others.map(|(count, word)| format!(", {count} {word}")).collect();
    format!("Cells: {planned} planned, {} measured{others}", count(OutcomeKind::Measured))
}

/// The proofs that the mechanisms were in force.
pub(super) fn proof(record: &RunRecord) -> Table {
    let rows = record.mechanisms.iter().flat_map(|row| {
        row.proof.iter().map(|proof| {
            let holds = if proof.holds { "holds" } else { "DOES NOT HOLD" };
            let shows = match (proof.hardware, proof.limiter) {
                (true, true) => "partition, limiter",
                (true, false) => "partition",
                (false, true) => "limiter",
                (false, false) => MISSING_TEXT,
            };
            [row.variant.as_str(), proof.when.name(), &proof.check, holds, shows, &proof.evidence]
                .map(Cell::text)
                .into()
        })
    });
    let columns = ["mechanism", "when", "check", "verdict", "shows", "evidence"];
    Table::new("proof", "Proof that the mechanisms were in force", columns, rows).in_detail()
}

/// Progress of the tenants that shared the device.
pub(super) fn operator(record: &RunRecord) -> Table {
    let columns = [
        "mechanism",
        "tenants",
        "ANTT",
        "STP (devices)",
        "min and max progress",
        "Jain",
        "utilisation",
        "GPU time",
        "n",
    ];
    let rows = record.operator.iter().map(|row| {
        let of = |estimate: &Estimate| figure(Some(estimate), None);
        let progress = [&row.progress_min, &row.progress_max].map(|one| one_line(one, None));
        vec![
            mechanism(&row.mechanism, &row.variant),
            tenants(row),
            of(&row.antt),
            of(&row.stp),
            Cell::lines(progress),
            of(&row.jain),
            of(&row.utilisation),
            Cell::lines(row.gpu_time.iter().map(time)),
            Cell::text(row.stp.n.to_string()),
        ]
    });
    Table::new(
        "operator",
        "Operator's view: progress of each tenant, its rate over its rate alone; decides no level. \
         Read Jain with the smallest progress: two tenants at two to one still have 0.9",
        columns,
        rows,
    )
    .numbers(&["ANTT", "STP (devices)", "Jain", "utilisation", "n"])
    .grouped()
}

fn tenants(row: &OperatorRow) -> Cell {
    let pair = format!("{} beside {}", row.victim, row.aggressor);
    Cell::lines([format!("{} tenants", row.tenants), pair])
}

fn time(of: &TenantTime) -> String {
    let TenantTime { tenant, share, .. } = of;
    let seconds = of.gpu_time_ns as f64 / 1e9;
    format!("{tenant} {seconds:.2} s ({:.0} %)", 100.0 * share)
}

/// Requests within the promised latency, and retention by number of tenants.
pub(super) fn service(record: &RunRecord, notes: &mut Notes) -> Table {
    let slo = record.plan.slo_ns;
    let mut columns = ["mechanism", "victim"].map(Column::text).to_vec();
    columns.extend(["tenants", "retention (ratio)"].map(Column::number));
    columns.extend(
        slo.map(|slo_ns| Column::number(format!("within {} ms (ratio)", slo_ns as f64 / 1e6))),
    );
    columns.extend(["n", "outcome"].map(Column::text));
    let or_missing = |estimate: &Option<Estimate>| figure(estimate.as_ref(), None);
    // Depths and loads have tables of their own.
    let usual = record.service.iter().filter(|row| row.shape.is_usual());
    let rows = usual.map(|row| {
        let beside = match (&row.aggressor, row.condition) {
            (Some(aggressor), _) => format!("beside {aggressor}"),
            (None, Condition::N) => "native".to_owned(),
            (None, _) => "solo".to_owned(),
        };
        let mut cells = vec![
            mechanism(&row.mechanism, &row.variant),
            Cell::lines([&row.victim, &beside]),
            Cell::text(row.tenants.to_string()),
            or_missing(&row.retention),
        ];
        cells.extend(slo.map(|_| or_missing(&row.within_slo)));
        let n = [&row.within_slo, &row.retention].into_iter().flatten().next();
        cells.push(Cell::lines([
            n.map_or_else(String::new, |figure| figure.n.to_string()),
            slo.map_or_else(String::new, |_| format!("{} requests", row.requests)),
        ]));
        let reason = row.outcome.reason.iter();
        cells.push(outcome(row.outcome.outcome, reason.map(|text| notes.number(text)).collect()));
        cells
    });
    let heading = match slo {
        Some(_) => "Service: rate over solo, and requests within the promised latency",
        None => "Service: rate over solo by number of active tenants",
    };
    Table::new("service", heading, columns, rows)
}

/// The maximum number of tenants that keep the promised latency.
pub(super) fn tenant_limits(record: &RunRecord, notes: &mut Notes) -> Table {
    let columns = ["mechanism", "victim", "max tenants", "tested", "n", "outcome"];
    let rows = record.tenant_limits.iter().map(|row| {
        let tried: Vec<String> = row.tried.iter().map(u32::to_string).collect();
        let n = row.tenants.as_ref().map(|tenants| tenants.n.to_string());
        let reason = row.outcome.reason.iter();
        vec![
            mechanism(&row.mechanism, &row.variant),
            Cell::lines([&row.victim, &format!("beside {}", row.aggressor)]),
            figure(row.tenants.as_ref(), None),
            Cell::text(tried.join(", ")),
            Cell::text(n.unwrap_or_default()),
            outcome(row.outcome.outcome, reason.map(|text| notes.number(text)).collect()),
        ]
    });
    let pct = record.tenant_limits.first().map_or(0.0, |row| row.share * 100.0);
    let slo_ms = record.plan.slo_ns.map_or(0.0, |slo_ns| slo_ns as f64 / 1e6);
    let heading =
        format!("Maximum number of active tenants with {pct} % of requests within {slo_ms} ms");
    Table::new("tenant-limits", &heading, columns, rows).numbers(&["max tenants", "n"])
}

/// The claims that the record decides or leaves inconclusive.
pub(super) fn tested(record: &RunRecord) -> Table {
    let columns = ["claim", "verdict", "says", "test", "figures"];
    let rows = record.claims.iter();
    let rows = rows.filter(|row| row.verdict != Verdict::Untested);
    let heading = format!("Claims of the literature: {}", counts(&record.claims));
    let rows = rows.map(|row| {
        let id = Cell::lines([row.id.clone(), row.mechanisms.join(", ")]);
        let says = Cell::lines([&row.statement, &row.source]);
        let [verdict, test, evidence] =
            [row.verdict.as_str(), &row.test, &row.evidence].map(Cell::text);
        vec![id, verdict, says, test, evidence]
    });
    Table::new("claims", &heading, columns, rows)
}

/// The claims that the record cannot test.
pub(super) fn untested(record: &RunRecord) -> Table {
    let columns = ["claim", "says", "source", "reason"];
    let rows = record.claims.iter();
    let rows = rows.filter(|row| row.verdict == Verdict::Untested);
    let rows = rows
        .map(|row| [&row.id, &row.statement, &row.source, &row.evidence].map(Cell::text).into());
    Table::new("claims-untested", "Claims without a test in this record", columns, rows).in_detail()
}

/// How many claims have each verdict.
pub(super) fn counts(rows: &[ClaimRow]) -> String {
    let count = |verdict: Verdict| {
        let n = rows.iter().filter(|row| row.verdict == verdict).count();
        format!("{n} {}", verdict.as_str())
    };
    Verdict::ALL.map(count).join(", ")
}

/// Where the ledger comes from, if not from the record.
pub(super) fn notice(record: &RunRecord) -> Option<String> {
    let foreign = record.plan.claims.is_empty() && !record.claims.is_empty();
    foreign.then(|| {
        "CLAIMS: this record holds no claims ledger; it is compared with that of this version"
            .to_owned()
    })
}
