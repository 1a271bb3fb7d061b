//! The table of dose curves, and their lines in CSV.

use gpubench_record::{DoseCurve, DosePoint, DoseRise, Estimate, OutcomeKind, RunRecord};
use gpubench_show::{Cell, Column, Notes, Table};
use gpubench_store::latency::{LatencyChart, PERCENTILES, Percentile};

use super::figures::{figure, one_line, outcome, value};
use super::tables::mechanism;

/// One line for each dose; the last line of a curve has its area.
pub(super) fn curves(record: &RunRecord, notes: &mut Notes) -> Table {
    let columns = [
        "mechanism",
        "victim",
        "dose offered",
        "dose achieved (ratio)",
        "retention (ratio)",
        "dose area (ratio)",
        "outcome",
    ];
    let mut rows = Vec::new();
    for curve in &record.dose_curves {
        for (index, point) in curve.points.iter().enumerate() {
            let is_last = index + 1 == curve.points.len();
            rows.push(row(curve, point, is_last, notes));
        }
    }
    Table::new(
        "doses",
        "Doses: retention as the aggressor offers more of its native peak",
        columns,
        rows,
    )
    .numbers(&columns[2..6])
}

fn row(curve: &DoseCurve, point: &DosePoint, is_last: bool, notes: &mut Notes) -> Vec<Cell> {
    let or_missing = |estimate: &Option<Estimate>| figure(estimate.as_ref(), None);
    let (kind, reasons) = if is_last {
        let reason = curve.outcome.reason.clone();
        let rises = curve.rises.iter().map(in_words);
        (curve.outcome.outcome, reason.into_iter().chain(rises).collect())
    } else if point.retention.is_some() {
        (OutcomeKind::Measured, Vec::new())
    } else {
        let reason = point.left_out.clone();
        (OutcomeKind::Inconclusive, Vec::from_iter(reason))
    };
    vec![
        mechanism(&curve.mechanism, &curve.variant),
        Cell::lines([&curve.victim, &format!("beside {}", curve.aggressor)]),
        Cell::text(value(point.offered)),
        or_missing(&point.achieved),
        or_missing(&point.retention),
        figure(curve.area.as_ref().filter(|_| is_last), None),
        outcome(kind, reasons.iter().map(|text| notes.number(text)).collect()),
    ]
}

fn in_words(rise: &DoseRise) -> String {
    format!(
        "not monotone: retention rises from dose {} to dose {}, by the factor {}, n = {}",
        rise.from,
        rise.to,
        one_line(&rise.ratio, None),
        rise.ratio.n
    )
}

pub(super) fn figures(curve: &DoseCurve) -> Vec<(String, &Estimate)> {
    let mut figures = Vec::new();
    for point in &curve.points {
        let names = [("retention", &point.retention), ("achieved dose", &point.achieved)];
        for (name, estimate) in names {
            let named = |estimate| (format!("{name} at dose {}", point.offered), estimate);
            figures.extend(estimate.as_ref().map(named));
        }
    }
    figures.extend(curve.area.as_ref().map(|area| ("dose area".to_owned(), area)));
    for rise in &curve.rises {
        let name = format!("not monotone: dose {} over dose {}", rise.to, rise.from);
        figures.push((name, &rise.ratio));
    }
    figures
}

/// One row per victim and condition, all blocks together.
pub(super) fn percentiles(charts: &[LatencyChart]) -> Table {
    let mut columns = ["victim", "condition"].map(Column::text).to_vec();
    columns.extend(["requests", "unanswered"].map(Column::number));
    columns.extend(PERCENTILES.map(|(_, name)| Column::number(name)));
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
    Table::new("latency", heading, columns, rows).grouped()
}

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
