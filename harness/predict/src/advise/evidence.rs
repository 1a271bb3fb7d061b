//! Evidence from a record: its answers to two questions of the tree.

use super::tree::Answers;
use crate::error::PredictError;
use crate::mig;
use gpubench_record::Estimate;
use gpubench_record::exit_code::OutcomeKind;
use gpubench_record::run::RunRecord;

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

/// Answers what the record measured and the answers leave open.
pub fn answer(answers: &mut Answers, record: &RunRecord) -> Result<(), PredictError> {
    for (number, flag, found) in
        [(2, "mig", mig_capable(record)), (6, "sm-bound", sm_bound(record))]
    {
        if let Some(found) = found.filter(|_| answers.value(number).is_none()) {
            answers.answer(flag, found.value)?;
        }
    }
    Ok(())
}

fn figure(found: &Estimate) -> String {
    let Estimate { value, lo, hi, n, unit, .. } = found;
    format!("{value:.3} [{lo:.3}, {hi:.3}] {unit}, n={n}")
}
