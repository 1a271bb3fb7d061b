//! Figures of probes, and the work of a tenant that is alone on the device.

use gpubench_record::fault::in_words;
use gpubench_record::{CalibrationEntry, Estimate, RunRecord};

use super::{Check, Row, bounds};

/// The figures of probes, joined by their names.
pub(super) fn probes(real: &RunRecord, model: &RunRecord) -> Vec<Row> {
    let compare = |one: &gpubench_record::ProbeFigure| {
        let key = (&one.variant, one.title());
        let mut others = model.probe_figures.iter();
        let name = format!("probe/{}", one.title());
        let Some(other) = others.find(|other| (&other.variant, other.title()) == key) else {
            return Row::missing(&one.variant, name, &text(&one.estimate), "no such figure");
        };
        let (from, to) = (&one.estimate, &other.estimate);
        row(
            &one.variant,
            name,
            Check {
                figure: "value".to_owned(),
                real: text(from),
                model: text(to),
                error: bounds::error(from.value, to.value),
                verdict: bounds::probe(from.value, to.value),
            },
        )
    };
    real.probe_figures.iter().map(compare).collect()
}

fn text(figure: &Estimate) -> String {
    if figure.unit == "ns" {
        in_words(figure.value.max(0.0).round() as u64)
    } else {
        format!("{:.3}", figure.value)
    }
}

/// Work a second of each calibrated workload, alone on the device.
pub(super) fn native_work(real: &RunRecord, model: &RunRecord) -> Vec<Row> {
    let entries = real.calibration.entries.iter();
    let rows = entries.filter_map(|(workload, entry)| {
        let other = model.calibration.entries.get(workload)?;
        let (from, to) = (per_second(entry), per_second(other));
        let name = format!("work/{workload}");
        Some(row(
            &real.plan.reference,
            name,
            Check {
                figure: format!("{}/s", entry.unit),
                real: format!("{from:.3e}"),
                model: format!("{to:.3e}"),
                error: bounds::error(from, to),
                verdict: bounds::work(from, to),
            },
        ))
    });
    rows.collect()
}

/// Work a second.
pub(super) fn per_second(entry: &CalibrationEntry) -> f64 {
    entry.native_rate_per_s * entry.work_per_request
}

fn row(variant: &str, name: String, check: Check) -> Row {
    Row { variant: variant.to_owned(), name, checks: vec![check], reason: None }
}
