//! How much of what tenants computed was compared, and what the comparison can have missed.

use std::collections::BTreeMap;

use gpubench_record::{OutputCheck, RunRecord};
use gpubench_show::{Cell, Table};

/// The outputs of one workload over all cells.
#[derive(Default)]
struct Outputs<'a> {
    compared: usize,
    wrong: usize,
    /// Tenants of which the output was not read or has no reference.
    missing: usize,
    bytes: u64,
    least_chance: Option<f64>,
    /// Part of what requests wrote that was read inside the windows, at most.
    most_read: Option<f64>,
    reason: Option<&'a str>,
}

impl<'a> Outputs<'a> {
    fn add(&mut self, output: &'a OutputCheck, requests: u64) {
        self.reason = self.reason.or(output.none.as_deref());
        match output.agrees() {
            Some(agrees) => {
                self.compared += 1;
                self.wrong += usize::from(!agrees || !output.wrong_after.is_empty());
                let read = output.read_share(requests).filter(|share| *share > 0.0);
                self.most_read = match (self.most_read, read) {
                    (Some(most), Some(read)) => Some(most.max(read)),
                    (most, read) => most.or(read),
                };
                self.bytes = self.bytes.max(output.bytes);
                let chance = output.chance_of_one_request(requests);
                self.least_chance =
                    Some(self.least_chance.map_or(chance, |least| least.min(chance)));
            }
            None => self.missing += usize::from(output.none.is_none()),
        }
    }
}

pub(super) fn results(record: &RunRecord) -> Table {
    let mut outputs: BTreeMap<&str, Outputs<'_>> = BTreeMap::new();
    for tenant in record.cells.iter().flat_map(|cell| &cell.tenant_results) {
        let workload = tenant.planned.workload.as_deref();
        if let (Some(workload), Some(output)) = (workload, &tenant.output) {
            outputs.entry(workload).or_default().add(output, tenant.rows);
        }
    }
    let rows = outputs.into_iter().map(|(workload, of)| {
        let chance = of.least_chance.map_or_else(String::new, |chance| format!("{chance:.2e}"));
        let read = of.most_read.map_or_else(String::new, |share| format!("{:.3}", 100.0 * share));
        let stays = if of.compared > 0 { "1" } else { "" };
        let reason = of.reason.map(|reason| format!("no output to check: {reason}"));
        vec![
            Cell::text(workload),
            Cell::text(of.compared.to_string()),
            Cell::text(of.wrong.to_string()),
            Cell::text(of.missing.to_string()),
            Cell::text(if of.compared > 0 { of.bytes.to_string() } else { String::new() }),
            Cell::text(read),
            Cell::text(stays),
            Cell::text(chance),
            Cell::text(reason.unwrap_or_default()),
        ]
    });
    let columns = [
        "workload",
        "compared",
        "wrong",
        "not compared",
        "bytes",
        "read inside (%)",
        "P(stays)",
        "P(one request)",
        "note",
    ];
    let heading = "Results after each cell, against the same work alone: outputs of tenants, \
                   the part of what they wrote that was read inside windows, at most, and the \
                   probability that the check sees a wrong bit that stays, or that one request \
                   writes";
    Table::new("results", heading, columns, rows).numbers(&columns[1..8])
}
