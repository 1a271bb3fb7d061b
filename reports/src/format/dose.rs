//! The table of dose curves, and their lines in CSV.

use gpubench_record::{DoseCurve, DosePoint, DoseRise, Estimate, OutcomeKind, RunRecord};

use super::figures::{one_line, value};
use super::parts::{Cell, Notes, Table};
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
        columns.map(str::to_owned).into(),
        rows,
    )
}

fn row(curve: &DoseCurve, point: &DosePoint, is_last: bool, notes: &mut Notes) -> Vec<Cell> {
    let figure =
        |estimate: &Option<Estimate>| Cell::Figure { estimate: estimate.clone(), unit: None };
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
        figure(&point.achieved),
        figure(&point.retention),
        figure(&curve.area.clone().filter(|_| is_last)),
        Cell::Outcome { kind, notes: reasons.iter().map(|text| notes.number(text)).collect() },
    ]
}

/// A rise as a sentence.
fn in_words(rise: &DoseRise) -> String {
    format!(
        "not monotone: retention rises from dose {} to dose {}, by the factor {}, n = {}",
        rise.from,
        rise.to,
        one_line(&rise.ratio, None),
        rise.ratio.n
    )
}

/// The figures of a curve by name, for formats with one line for each.
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
