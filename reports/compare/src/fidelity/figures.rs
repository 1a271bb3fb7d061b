//! Figures of probes, and the work of a tenant that is alone on the device.

use gpubench_record::fault::in_words;
use gpubench_record::{Axis, CalibrationEntry, Ends, Estimate, MatrixRow, RunRecord};

use super::{Check, Row, Verdict, bounds};

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

pub(super) fn per_second(entry: &CalibrationEntry) -> f64 {
    entry.native_rate_per_s * entry.work_per_request
}

fn row(variant: &str, name: String, check: Check) -> Row {
    Row { variant: variant.to_owned(), name, checks: vec![check], reason: None }
}

// The rows of the matrix, without those of faults, whose trials are compared one by one.

/// The word of rows of the reference, which have no neighbour.
const REFERENCE: &str = "reference";

pub(super) fn rows(real: &RunRecord, model: &RunRecord) -> Vec<Row> {
    let compared = real.matrix.iter().filter(|row| {
        row.axis != Axis::Fault.as_str()
            && row.word.as_deref() != Some(REFERENCE)
            && (row.level.is_some() || row.figures().iter().any(Option::is_some))
    });
    compared.map(|row| compare(row, name(row, real), model)).collect()
}

/// The axis with its sub-axis, and the workloads where a variant has several pairs of them.
fn name(row: &MatrixRow, real: &RunRecord) -> String {
    let name = match &row.sub_axis {
        Some(sub_axis) => format!("{}/{sub_axis}", row.axis),
        None => row.axis.clone(),
    };
    let of = |one: &&MatrixRow| {
        (&one.variant, &one.axis, &one.sub_axis) == (&row.variant, &row.axis, &row.sub_axis)
    };
    match (&row.victim, &row.aggressor) {
        (Some(victim), Some(aggressor)) if real.matrix.iter().filter(of).count() > 1 => {
            format!("{name} {victim}+{aggressor}")
        }
        _ => name,
    }
}

fn compare(real: &MatrixRow, name: String, model: &RunRecord) -> Row {
    let Some(other) = model.matrix.iter().find(|row| key(row) == key(real)) else {
        let skips = model.plan.skips.iter();
        let mut reasons = skips.filter(|skip| skip.variant == real.variant);
        let reason = reasons.next().map_or("not run", |skip| &skip.reason);
        return Row::missing(&real.variant, name, "measured", reason);
    };
    let level = bounds::level(real.level.as_deref(), other.level.as_deref());
    let agree = matches!(level.verdict, Verdict::Within);
    let both = |of: fn(&MatrixRow) -> &Option<Estimate>| {
        let (real, model) = (of(real).as_ref()?, of(other).as_ref()?);
        // Of a bound only the upper end is known.
        let value = |of: &Estimate| if of.ends == Ends::AtMost { of.hi } else { of.value };
        Some((value(real), value(model)))
    };
    let rate =
        |name: &str, of| both(of).map(|(real, model)| bounds::rate(name, real, model, agree));
    let survival = both(|row| &row.survival);
    let checks = [
        rate("retention", |row| &row.retention),
        both(|row| &row.jitter).map(|(real, model)| bounds::jitter("jitter", real, model)),
        both(|row| &row.tail_at_load)
            .map(|(real, model)| bounds::jitter("tail at load", real, model)),
        survival.map(|(real, model)| bounds::proportion("survival", real, model)),
        // A record of older scoring has no level of jitter.
        real.level.is_some().then_some(level),
        rate("guarantee", |row| &row.guarantee),
    ];
    Row {
        variant: real.variant.clone(),
        name,
        checks: checks.into_iter().flatten().collect(),
        reason: None,
    }
}

type Key<'a> = (&'a str, &'a str, [Option<&'a str>; 3]);

fn key(row: &MatrixRow) -> Key<'_> {
    let parts = [&row.sub_axis, &row.victim, &row.aggressor];
    (&row.variant, &row.axis, parts.map(Option::as_deref))
}
