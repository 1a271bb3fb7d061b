//! The operator's view: progress of all tenants, its fairness, and their GPU time.

use gpubench_record::{Estimate, OperatorRow, RunRecord, TenantTime};

use super::figures::one_line;
use super::parts::{Cell, Table};
use super::tables::mechanism;

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
        let figure =
            |estimate: &Estimate| Cell::Figure { estimate: Some(estimate.clone()), unit: None };
        let progress = [&row.progress_min, &row.progress_max].map(|one| one_line(one, None));
        vec![
            mechanism(&row.mechanism, &row.variant),
            tenants(row),
            figure(&row.antt),
            figure(&row.stp),
            Cell::lines(progress),
            figure(&row.jain),
            figure(&row.utilisation),
            Cell::lines(row.gpu_time.iter().map(time)),
            Cell::text(row.stp.n.to_string()),
        ]
    });
    Table::new(
        "operator",
        "Operator's view: progress of each tenant, its rate over its rate alone; decides no level. \
         Read Jain with the smallest progress: two tenants at two to one still have 0.9",
        columns.map(str::to_owned).into(),
        rows,
    )
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
