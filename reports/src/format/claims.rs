//! The tables of claims: tested ones with the figures that decided, and the others with the reason.

use gpubench_record::{ClaimRow, RunRecord, Verdict};

use super::parts::{Cell, Table};

/// The claims that the record decides or leaves inconclusive.
pub(super) fn tested(record: &RunRecord) -> Table {
    let columns = ["claim", "verdict", "says", "test", "figures"];
    let rows = record.claims.iter();
    let rows = rows.filter(|row| row.verdict != Verdict::Untested);
    let heading = format!("Claims of the literature: {}", counts(&record.claims));
    let rows = rows.map(|row| {
        let id = Cell::lines([row.id.clone(), row.mechanisms.join(", ")]);
        let says = Cell::lines([row.statement.clone(), format!("({})", row.source)]);
        let [verdict, test, evidence] =
            [row.verdict.as_str(), &row.test, &row.evidence].map(Cell::text);
        vec![id, verdict, says, test, evidence]
    });
    Table::new("claims", &heading, columns.map(str::to_owned).into(), rows)
}

/// The claims that the record cannot test.
pub(super) fn untested(record: &RunRecord) -> Table {
    let columns = ["claim", "says", "source", "reason"];
    let rows = record.claims.iter();
    let rows = rows.filter(|row| row.verdict == Verdict::Untested);
    let rows = rows
        .map(|row| [&row.id, &row.statement, &row.source, &row.evidence].map(Cell::text).into());
    let columns = columns.map(str::to_owned).into();
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
