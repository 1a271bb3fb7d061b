//! What must be equal for a run to go on: build, device, driver, and what the host can run.

use std::path::Path;

use gpubench_record::{Calibration, DeviceIdentity, Plan, Provenance, RunSettings};

use super::super::{DeviceSession, calibration, ptx_hash};
use crate::device::identity;
use crate::error::ExpectedError;
use crate::score::{self, MACHINE_HASH};

/// Compares the build that began the run with this one.
pub(super) fn build(
    dir: &Path,
    began: &Provenance,
    settings: &RunSettings,
) -> Result<(), ExpectedError> {
    let ptx_hash = ptx_hash();
    equal(
        dir,
        &[
            ("gpubench", &began.gpubench, env!("CARGO_PKG_VERSION")),
            ("scoring rules", &settings.scoring, score::VERSION),
            ("kernels (hash of their PTX)", &settings.ptx_hash, &ptx_hash),
        ],
    )
}

/// Compares the device of the run, and its clock, with those of this start.
pub(super) fn device(
    dir: &Path,
    (before, clock_before): (&DeviceIdentity, &str),
    (now, clock_now): (&DeviceIdentity, &str),
) -> Result<(), ExpectedError> {
    let machine = |device: &'_ DeviceIdentity| -> String {
        device.facts.get(MACHINE_HASH).cloned().unwrap_or_default()
    };
    equal(
        dir,
        &[
            ("device", &before.uuid, &now.uuid),
            ("driver", &before.driver, &now.driver),
            ("CUDA", &before.cuda, &now.cuda),
            ("machine file (hash)", &machine(before), &machine(now)),
            ("clock", clock_before, clock_now),
        ],
    )
}

/// Compares the first plan of the run with what this host would plan now. What comes after the
/// cells does not count: the plan of the folder decides it.
pub(super) fn plans(dir: &Path, before: &Plan, now: &Plan) -> Result<(), ExpectedError> {
    for planned in &before.mechanisms {
        if now.mechanisms.iter().any(|one| one.variant == planned.variant) {
            continue;
        }
        let mut skips = now.skips.iter();
        let skip = skips.find(|skip| skip.name == planned.name && skip.axis.is_none());
        let reason = skip.map_or("it has another variant", |skip| skip.reason.as_str());
        let variant = &planned.variant;
        return refuse(dir, format!("{variant} could run before and cannot now: {reason}"));
    }
    if before.cells != now.cells || before.required_proofs != now.required_proofs {
        let differs = "this host plans other cells than those of the record".to_owned();
        return refuse(dir, differs);
    }
    Ok(())
}

/// Checks that the calibration of the run fits this device.
pub(super) fn calibration(
    dir: &Path,
    made: Option<&Calibration>,
    session: &DeviceSession,
) -> Result<(), ExpectedError> {
    let here = identity::binding(session.identity(), session.nvml().peaks());
    let bound = made.and_then(|made| made.binding.as_ref());
    match bound.and_then(|bound| calibration::mismatch(bound, &here)) {
        None => Ok(()),
        Some(problem) => refuse(dir, format!("calibration: {problem}")),
    }
}

/// Refuses with every value that differs.
fn equal(dir: &Path, values: &[(&str, &str, &str)]) -> Result<(), ExpectedError> {
    let differs = values.iter().filter(|(_, before, now)| before != now);
    let differs: Vec<String> = differs
        .map(|(what, before, now)| format!("{what}: {before:?} before, {now:?} now"))
        .collect();
    if differs.is_empty() {
        return Ok(());
    }
    refuse(dir, differs.join("; "))
}

fn refuse(dir: &Path, differs: String) -> Result<(), ExpectedError> {
    Err(ExpectedError::CannotResume { path: dir.to_owned(), differs })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::equal;

    #[test]
    fn every_value_that_differs_is_named_with_both_values() {
        assert!(equal(Path::new("out"), &[("driver", "580", "580")]).is_ok());
        let values =
            [("device", "GPU-a", "GPU-a"), ("driver", "580", "590"), ("clock", "wall", "virtual")];
        let error = equal(Path::new("out"), &values).expect_err("accepted");
        assert_eq!(error.exit_code().code(), 20);
        assert_eq!(
            error.to_string(),
            "cannot resume the run in out: driver: \"580\" before, \"590\" now; clock: \"wall\" \
             before, \"virtual\" now"
        );
    }
}
