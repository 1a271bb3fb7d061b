//! What counters of the vendor say: energy for a request, and the part of each tenant beside its
//! work.

use gpubench_record::{Condition, Estimate, RunRecord};
use gpubench_show::{Cell, Table};

use super::figures;
use super::neighbours::brief;

/// Energy for a request. No counter has that of a tenant: it is split by work.
pub(super) fn energy(record: &RunRecord) -> Table {
    let columns = [
        "mechanism",
        "tenants",
        "J/request",
        "idle part",
        "of time-slicing",
        "device W",
        "W by work",
        "read from",
    ];
    let rows = record.energy.iter().map(|row| {
        let by_work: Vec<String> = row.by_work.iter().map(|one| brief(Some(&one.share))).collect();
        let source = match (row.counter, &row.reason) {
            (Some(counter), None) => counter.as_str().to_owned(),
            (Some(counter), Some(how)) => format!("{}: {how}", counter.as_str()),
            (None, why) => format!("not measured: {}", why.as_deref().unwrap_or("no reading")),
        };
        let tenants = match row.condition {
            Condition::C => row.tenants.to_string(),
            condition => format!("1 ({})", condition.as_str()),
        };
        let fine = |of: &Option<Estimate>| {
            of.as_ref().map_or_else(
                || figures::MISSING_TEXT.to_owned(),
                |one| {
                    format!("{:.3}+-{:.3}", one.value, (one.hi - one.value).max(one.value - one.lo))
                },
            )
        };
        vec![
            Cell::text(&row.variant),
            Cell::text(tenants),
            Cell::text(fine(&row.joules)),
            Cell::text(fine(&row.idle_joules)),
            Cell::text(brief(row.of_time_slicing.as_ref())),
            Cell::text(brief(row.watts.as_ref())),
            Cell::text(by_work.join(" / ")),
            Cell::text(source),
        ]
    });
    let heading = "Energy: of the device over the requests of all tenants; W by work is a split";
    Table::new("energy", heading, columns, rows.collect::<Vec<_>>())
        .grouped()
        .numbers(&columns[1..7])
}

/// What counters say that each tenant used, beside its work.
pub(super) fn attribution(record: &RunRecord) -> Table {
    let columns =
        ["mechanism", "counter", "tenant", "percent", "share reported", "share known", "error"];
    let rows = record.attribution.iter().map(|row| {
        let error = row.error.as_ref().map(|one| {
            format!("{:+.2}+-{:.2}", one.value, (one.hi - one.value).max(one.value - one.lo))
        });
        let why = || format!("not measured: {}", row.reason.as_deref().unwrap_or("no reading"));
        vec![
            Cell::text(&row.variant),
            Cell::text(row.counter.as_str()),
            Cell::text(&row.tenant),
            Cell::text(brief(row.percent.as_ref())),
            Cell::text(brief(row.reported.as_ref())),
            Cell::text(brief(row.known.as_ref())),
            Cell::text(error.unwrap_or_else(why)),
        ]
    });
    let heading = "Attribution: what counters say that a tenant used, and its part of the work";
    Table::new("attribution", heading, columns, rows.collect::<Vec<_>>())
        .grouped()
        .numbers(&columns[3..6])
}
