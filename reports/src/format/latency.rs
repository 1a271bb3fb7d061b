//! The table of latency percentiles.

use super::parts::{Cell, Table};
use crate::latency::{LatencyChart, PERCENTILES, Percentile};

/// One row per victim and condition, all blocks together.
pub(super) fn percentiles(charts: &[LatencyChart]) -> Table {
    let mut columns = ["victim", "condition", "requests", "unanswered"].map(str::to_owned).to_vec();
    columns.extend(PERCENTILES.map(|(_, name)| name.to_owned()));
    let rows = charts.iter().flat_map(|chart| {
        chart.curves.iter().map(|curve| {
            let mut cells = vec![
                Cell::text(&chart.victim),
                Cell::text(curve.of.label()),
                Cell::text(curve.requests.to_string()),
                Cell::text(curve.unanswered.map_or_else(String::new, |n| n.to_string())),
            ];
            let percentiles = curve.percentiles_ns.iter();
            cells.extend(percentiles.map(|found| Cell::lines(found.iter().flat_map(lines))));
            cells
        })
    });
    let are_figures =
        charts.iter().flat_map(|chart| &chart.curves).any(|curve| curve.unanswered.is_none());
    let heading = if are_figures {
        "Latency percentiles: the record keeps no latencies; means over blocks of the percentiles \
         of each block, with 95 % intervals"
    } else {
        "Latency percentiles: open loop, from the scheduled instant, with 95 % intervals"
    };
    Table::new("latency", heading, columns, rows)
}

/// A percentile, and its interval.
fn lines(found: &Percentile) -> Vec<String> {
    let interval = found.interval_ns.map(|(lo, hi)| {
        let hi = hi.map_or_else(|| "?".to_owned(), time);
        format!("[{}, {hi}]", time(lo))
    });
    std::iter::once(time(found.ns)).chain(interval).collect()
}

/// A time in ns to three digits, in its usual unit.
pub(super) fn time(ns: u64) -> String {
    let (unit_ns, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / unit_ns;
    let decimals = match value {
        ..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_have_three_digits_and_their_usual_unit() {
        let times = [0, 999, 1_000, 12_345, 999_400, 1_004_000, 123_456_789, 2_500_000_000];
        assert_eq!(
            times.map(time),
            ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.00 ms", "123 ms", "2.50 s"]
        );
    }
}
