//! The tables of promised latencies and tenant counts.

use gpubench_record::{Condition, Estimate, RunRecord};

use super::parts::{Cell, Notes, Table};
use super::tables::mechanism;

/// Requests within the promised latency, and retention by number of tenants.
pub(super) fn service(record: &RunRecord, notes: &mut Notes) -> Table {
    let slo = record.plan.slo_ns;
    let mut columns: Vec<String> =
        ["mechanism", "victim", "tenants", "retention (ratio)"].map(str::to_owned).into();
    columns.extend(slo.map(|slo_ns| format!("within {} ms (ratio)", slo_ns as f64 / 1e6)));
    columns.extend(["n", "outcome"].map(str::to_owned));
    let figure =
        |estimate: &Option<Estimate>| Cell::Figure { estimate: estimate.clone(), unit: None };
    let rows = record.service.iter().map(|row| {
        let beside = match (&row.aggressor, row.condition) {
            (Some(aggressor), _) => format!("beside {aggressor}"),
            (None, Condition::N) => "native".to_owned(),
            (None, _) => "solo".to_owned(),
        };
        let mut cells = vec![
            mechanism(&row.mechanism, &row.variant),
            Cell::lines([&row.victim, &beside]),
            Cell::text(row.tenants.to_string()),
            figure(&row.retention),
        ];
        cells.extend(slo.map(|_| figure(&row.within_slo)));
        let n = [&row.within_slo, &row.retention].into_iter().flatten().next();
        cells.push(Cell::lines([
            n.map_or_else(String::new, |figure| figure.n.to_string()),
            slo.map_or_else(String::new, |_| format!("{} requests", row.requests)),
        ]));
        let reason = row.outcome.reason.iter();
        cells.push(Cell::Outcome {
            kind: row.outcome.outcome,
            notes: reason.map(|text| notes.number(text)).collect(),
        });
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
            Cell::Figure { estimate: row.tenants.clone(), unit: None },
            Cell::text(tried.join(", ")),
            Cell::text(n.unwrap_or_default()),
            Cell::Outcome {
                kind: row.outcome.outcome,
                notes: reason.map(|text| notes.number(text)).collect(),
            },
        ]
    });
    let pct = record.tenant_limits.first().map_or(0.0, |row| row.share * 100.0);
    let slo_ms = record.plan.slo_ns.map_or(0.0, |slo_ns| slo_ns as f64 / 1e6);
    let heading =
        format!("Maximum number of active tenants with {pct} % of requests within {slo_ms} ms");
    Table::new("tenant-limits", &heading, columns.map(str::to_owned).into(), rows)
}
