//! Calibrations that runs keep for later runs on the same device, so that all of them have the same
//! victims and native rates: `$XDG_STATE_HOME/gpubench/calibrations`, one file for each device.
//!
//! In virtual time nothing is kept: a calibration there follows from the machine file, and one seed
//! gives the same bytes whatever ran before. Nor is anything kept while MIG mode is on, where rates
//! are those of an instance, or of a user's program, which may change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpubench_record::{Calibration, CalibrationBasis, Plan, parser_message};

use super::calibration::mismatch;
use super::device_file::{device_file, write_private};
use super::{DeviceSession, expected};
use crate::device::identity;
use crate::error::ExpectedError;
use crate::error::input::{RECORD_BYTES_MAX, read_limited};
use crate::mechanism::HostFacts;
use crate::mechanism::host::JournalError;
use crate::score::MACHINE_HASH;

/// The file of one device.
pub struct KeptCalibrations {
    path: PathBuf,
}

impl KeptCalibrations {
    /// The file for a run of this plan; `None` where nothing is kept.
    ///
    /// # Errors
    /// When the folder for state cannot be named.
    pub fn of(
        session: &DeviceSession,
        plan: &Plan,
        facts: &HostFacts,
    ) -> Result<Option<Self>, ExpectedError> {
        let has_program = plan.user_victim.is_some();
        if session.clock().is_virtual() || has_program || facts.mig == Some(true) {
            return Ok(None);
        }
        let device = session.identity();
        // A virtual device has the identity of its machine's name, and files can share names.
        let machine = device.facts.get(MACHINE_HASH);
        let machine = machine.map_or_else(String::new, |hash| format!(".{hash}"));
        match device_file("calibrations", &device.uuid, &format!("{machine}.json")) {
            Ok(path) => Ok(path.map(|path| Self { path })),
            // Without a home nothing is kept.
            Err(JournalError::NoFolder) => Ok(None),
            Err(error) => Err(expected::from_journal(error)),
        }
    }

    /// The calibrations that belong to this device. One that does not, because its clocks or widths
    /// changed, or that was changed by hand, is left out and named.
    pub fn read(
        &self,
        session: &DeviceSession,
    ) -> Result<(Vec<Calibration>, Vec<String>), ExpectedError> {
        let here = identity::binding(session.identity(), session.nvml().peaks());
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for calibration in read(&self.path)? {
            let problem = if calibration.is_intact() {
                let bound = calibration.binding.as_ref();
                bound.map_or_else(
                    || Some("it names no device".to_owned()),
                    |bound| mismatch(bound, &here),
                )
            } else {
                Some("its hash is not that of its entries".to_owned())
            };
            match problem {
                None => kept.push(calibration),
                Some(problem) => left_out.push(format!(
                    "the kept calibration in {} is not used: {problem}",
                    self.path.display()
                )),
            }
        }
        Ok((kept, left_out))
    }

    /// Adds what a run measured. A calibration with the same basis gets the new entries, and its
    /// own where there are no new ones.
    pub fn add(&self, made: &Calibration) -> Result<(), ExpectedError> {
        let is_known = made.entries.keys().all(|name| made.kept.contains(name));
        if is_known || made.basis.is_none() || made.binding.is_none() {
            return Ok(());
        }
        let mut all = read(&self.path)?;
        let same = |one: &Calibration| {
            let bases = one.basis.as_ref().zip(made.basis.as_ref());
            bases.is_some_and(|(one, made)| one.has_target_of(made))
        };
        let before = all.iter().position(same).map(|at| all.swap_remove(at));
        all.push(merged(before, made));
        // Plain structs with string keys always serialise.
        let text = serde_json::to_string(&all).map_err(|error| ExpectedError::Internal {
            what: format!("calibrations to keep: {error}"),
        })?;
        write_private(&self.path, &text)
    }
}

/// The later calibration with the entries of the earlier one that it lacks.
fn merged(before: Option<Calibration>, made: &Calibration) -> Calibration {
    let Some(before) = before else {
        return made.clone();
    };
    let (Some(basis), Some(binding)) = (made.basis.clone(), made.binding.clone()) else {
        return made.clone();
    };
    // The binding may be new: rates of another clock or width are not kept beside new ones.
    if before.binding.as_ref().map(|of| &of.peaks) != Some(&binding.peaks) {
        return made.clone();
    }
    let victims = before.basis.into_iter().flat_map(|basis| basis.victims);
    let victims: BTreeSet<_> = victims.chain(basis.victims).collect();
    let basis = CalibrationBasis { victims: victims.into_iter().collect(), ..basis };
    let mut entries = before.entries;
    entries.extend(made.entries.clone());
    let mut all = Calibration::new(entries, basis, binding);
    all.peaks = before.peaks;
    all.peaks.extend(made.peaks.clone());
    all.observation_cost = made.observation_cost.clone().or(before.observation_cost);
    all
}

/// All calibrations of a file; none where there is no file.
fn read(path: &Path) -> Result<Vec<Calibration>, ExpectedError> {
    let what = "kept calibrations";
    let text = match read_limited(path, RECORD_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            let path = path.to_path_buf();
            return Err(ExpectedError::Unreadable { what, path, source });
        }
    };
    serde_json::from_str(&text).map_err(|error| ExpectedError::Usage {
        problem: format!("{what} {}: {}", path.display(), parser_message(&error.to_string())),
        remedy: Some("delete the file: the next run calibrates again".to_owned()),
    })
}
