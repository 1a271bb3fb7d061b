//! Evidence from a record: answers to two questions, figures, and contradictions to the tree.

use super::tree::Leaf;
use super::tree::{Answers, Source, Walk};
use crate::error::PredictError;
use crate::mig;
use gpubench_record::exit_code::OutcomeKind;
use gpubench_record::provenance::DeviceKind;
use gpubench_record::run::RunRecord;
use gpubench_record::{Estimate, MatrixRow, Outcome, OverallRow};

/// An answer from measurements, with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// `yes` or `no`.
    pub value: &'static str,
    /// The figures.
    pub because: String,
}

/// Whether the device of a record supports MIG (question 2).
pub fn mig_capable(record: &RunRecord) -> Option<Measured> {
    let measured = |value, because: String| Some(Measured { value, because });
    let rows = record.mechanisms.iter().filter(|row| row.name == "mig");
    if rows.clone().any(|row| row.outcome.is_measured()) {
        return measured("yes", "the run measured it".to_owned());
    }
    if mig::table(&record.device.name).is_ok() {
        return measured("yes", format!("{} has MIG profiles", record.device.name));
    }
    // GPUs before the Ampere architecture do not support MIG (MIG User Guide, "Supported GPUs").
    let capability = &record.device.compute_capability;
    let major = capability.split('.').next().and_then(|major| major.parse().ok());
    if major.is_some_and(|major: u32| major < 8) {
        return measured(
            "no",
            format!("MIG needs compute capability 8.0, the device has {capability}"),
        );
    }
    let reason = rows.filter_map(|row| row.outcome.reason.clone()).next()?;
    let lower = reason.to_lowercase();
    let is_incapable = ["not support", "no mig", "cannot do mig", "not capable", "without mig"];
    if is_incapable.iter().any(|words| lower.contains(words)) {
        return measured("no", reason);
    }
    None
}

/// Whether small kernels leave SMs idle (question 6). If kernels of both tenants fit side by side,
/// a victim beside a busy neighbour keeps more of its rate under MPS than under time-slicing.
pub fn sm_bound(record: &RunRecord) -> Option<Measured> {
    let retention = |mechanism: &str| {
        let mut rows = record.matrix.iter().filter(|row| {
            row.mechanism == mechanism
                && row.axis == "compute"
                && row.sub_axis.as_deref() == Some("sm")
                && row.outcome.outcome == OutcomeKind::Measured
        });
        rows.find_map(|row| row.retention.clone())
    };
    let (mps, slicing) = (retention("mps")?, retention("time-slicing")?);
    let because = format!(
        "beside a busy neighbour a victim keeps {} under mps and {} under time-slicing",
        figure(&mps),
        figure(&slicing)
    );
    if mps.lo > slicing.hi {
        return Some(Measured { value: "yes", because });
    }
    // Overlapping intervals give no answer.
    (mps.hi <= slicing.lo).then_some(Measured { value: "no", because })
}

pub fn answer(answers: &mut Answers, record: &RunRecord) -> Result<(), PredictError> {
    for (number, flag, found) in
        [(2, "mig", mig_capable(record)), (6, "sm-bound", sm_bound(record))]
    {
        if let Some(found) = found.filter(|_| answers.get(number).is_none()) {
            answers.answer(flag, found.value, Source::Record)?;
        }
    }
    Ok(())
}

/// Figures for a question, one line each; empty without measurements.
pub fn beside(number: u8, record: &RunRecord) -> Vec<String> {
    let rows = |axis: &str, mechanisms: &[&str]| -> Vec<(bool, String)> {
        let fits =
            |row: &&MatrixRow| row.axis == axis && mechanisms.contains(&row.mechanism.as_str());
        record.matrix.iter().filter(fits).map(line).collect()
    };
    let found = match number {
        1 => record.overall.iter().map(|row| overall(row, record)).collect(),
        2 => mig_capable(record).map(|found| (true, found.because)).into_iter().collect(),
        3 => rows("jitter", &["time-slicing", "mps", "hami", "mig"]),
        4 => rows("memory", &["time-slicing", "mps", "hami", "mig"]),
        6 => sm_bound(record).map(|found| (true, found.because)).into_iter().collect(),
        7 => rows("compute", &["hami"]),
        8 => rows("fault", &["mps"]),
        _ => Vec::new(),
    };
    let kind = match record.device.kind {
        DeviceKind::Real => "measured",
        DeviceKind::Virtual => "virtual",
    };
    let kind = |is_measured| if is_measured { kind } else { "not measured" };
    found.into_iter().map(|(is_measured, line)| format!("{}: {line}", kind(is_measured))).collect()
}

/// The overall level of a mechanism, else why it has none, and whether it was measured.
fn overall(row: &OverallRow, record: &RunRecord) -> (bool, String) {
    let Some(level) = &row.level else {
        let mut mechanisms = record.mechanisms.iter();
        let outcome = mechanisms.find(|one| one.variant == row.variant).map(|one| &one.outcome);
        return match outcome.filter(|outcome| !outcome.is_measured()) {
            Some(outcome) => (false, format!("{}: {}", row.variant, unmeasured(outcome))),
            None => (true, format!("{} overall: inconclusive, no level", row.variant)),
        };
    };
    let weakest = row.weakest_axis.as_deref().unwrap_or("none");
    (true, format!("{} overall: {level}, weakest axis {weakest}", row.variant))
}

fn unmeasured(outcome: &Outcome) -> String {
    let reason = outcome.reason.as_deref().unwrap_or("no reason given");
    format!("{}, {reason}", outcome.outcome.as_str())
}

fn line(row: &MatrixRow) -> (bool, String) {
    let sub = row.sub_axis.as_ref().map(|sub| format!("/{sub}")).unwrap_or_default();
    let beside = row.aggressor.as_ref().map(|name| format!(" beside {name}")).unwrap_or_default();
    let name = format!("{} {}{sub}{beside}", row.variant, row.axis);
    if row.outcome.outcome != OutcomeKind::Measured {
        let tried = row.outcome.outcome == OutcomeKind::Inconclusive;
        return (tried, format!("{name}: {}", unmeasured(&row.outcome)));
    }
    let level = row.level.as_deref().unwrap_or("no level");
    let figures =
        [("retention", &row.retention), ("survival", &row.survival), ("jitter", &row.jitter)];
    let figures = figures.into_iter().filter_map(|(name, found)| {
        found.as_ref().map(|found| format!(", {name} {}", figure(found)))
    });
    (true, format!("{name}: {level}{}", figures.collect::<String>()))
}

fn figure(found: &Estimate) -> String {
    let Estimate { value, lo, hi, n, unit, .. } = found;
    format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n={n}")
}

/// Lowest levels for the words of the overview S1: 3 for hardware or hard, 1 for partial or soft.
const PROMISED: [(&str, &str, u8); 7] = [
    ("mig", "memory", 3),
    ("mig", "compute", 3),
    ("mig", "bandwidth", 3),
    ("mig", "fault", 3),
    ("hami", "memory", 3),
    ("hami", "compute", 1),
    ("mps", "memory", 1),
];

/// Mechanisms and axes that an answer rules out. If the record has the highest level for the
/// mechanism on this axis, it contradicts the answer.
const RULED_OUT: [(u8, &str, &str, &str); 4] = [
    (4, "yes", "time-slicing", "memory"),
    (4, "yes", "mps", "memory"),
    (7, "no", "hami", "compute"),
    (8, "no", "mps", "fault"),
];

pub fn contradictions(walk: &Walk, leaf: Leaf, record: &RunRecord) -> Vec<String> {
    let mut found = Vec::new();
    for (number, measured) in [(2, mig_capable(record)), (6, sm_bound(record))] {
        let step = walk.path.iter().find(|step| step.node.number == number);
        if let Some((step, measured)) = step.zip(measured)
            && step.choice.value != measured.value
        {
            found.push(format!(
                "question {number} is answered {}, but the record says {}: {}",
                step.choice.value, measured.value, measured.because
            ));
        }
    }
    for (mechanism, axis, promised) in PROMISED {
        let rows = rows_of(record, mechanism, axis).filter(|_| leaf.mechanism() == Some(mechanism));
        let below = rows.filter(|row| highest(row).is_some_and(|level| level < promised));
        found.extend(below.map(|row| {
            format!("the tree assumes L{promised} for {mechanism} {axis}, but {}", line(row).1)
        }));
    }
    for (number, value, mechanism, axis) in RULED_OUT {
        let is_on_path =
            walk.path.iter().any(|step| step.node.number == number && step.choice.value == value);
        let rows: Vec<&MatrixRow> =
            rows_of(record, mechanism, axis).filter(|row| lowest(row).is_some()).collect();
        let is_refuted = !rows.is_empty() && rows.iter().all(|row| lowest(row) == Some(3));
        if is_on_path && is_refuted {
            found.push(format!(
                "question {number} rules out {mechanism} for its {axis} isolation, but {}",
                line(rows[0]).1
            ));
        }
    }
    found
}

fn rows_of<'a>(
    record: &'a RunRecord,
    mechanism: &'a str,
    axis: &'a str,
) -> impl Iterator<Item = &'a MatrixRow> {
    record.matrix.iter().filter(move |row| {
        row.mechanism == mechanism
            && row.axis == axis
            && row.outcome.outcome == OutcomeKind::Measured
    })
}

/// Digits of a level: `L2`, or `L1-L2` if the interval crosses a boundary.
fn digits(row: &MatrixRow) -> impl Iterator<Item = u8> {
    let digit = |c: char| c.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    row.level.as_deref().unwrap_or_default().chars().filter_map(digit)
}

fn highest(row: &MatrixRow) -> Option<u8> {
    digits(row).max()
}

fn lowest(row: &MatrixRow) -> Option<u8> {
    digits(row).min()
}
