//! The rows of the matrix, without those of faults, whose trials are compared one by one.

use gpubench_record::{Axis, Estimate, MatrixRow, RunRecord};

use super::{Row, Verdict, bounds};

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
        Some((real.value, model.value))
    };
    let rate =
        |name: &str, of| both(of).map(|(real, model)| bounds::rate(name, real, model, agree));
    let survival = both(|row| &row.survival);
    let checks = [
        rate("retention", |row| &row.retention),
        both(|row| &row.jitter).map(|(real, model)| bounds::jitter(real, model)),
        survival.map(|(real, model)| bounds::proportion("survival", real, model)),
        Some(level),
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
