//! What is kept of a device between runs: calibrations, so that all runs have the same, and the
//! spread of its figures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use gpubench_host::device::identity;
use gpubench_host::device::private_folder::own_file;
use gpubench_host::device::selector::is_uuid;
use gpubench_host::mechanism::HostFacts;
use gpubench_host::mechanism::host::{JournalError, state_dir};
use gpubench_judge::score::MACHINE_HASH;
use gpubench_record::{
    Calibration, CalibrationBasis, CalibrationBinding, DeviceIdentity, Plan, Spread, parser_message,
};
use serde::Deserialize;

use super::{DeviceSession, verdict};
use crate::error::output::write_whole;
use crate::error::{ExpectedError, RECORD_BYTES_MAX, read_text, unreadable};

// The calibration of an earlier run, reused by a later one on the same device.

/// The two kinds of file: a record, or a calibration.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Record { calibration: Calibration, device: DeviceIdentity },
    Calibration(Calibration),
}

/// Reads the calibration in a record's folder, a `record.json`, or a file of its own, and checks
/// that it belongs to this device and has everything that the plan needs. With it a note where the
/// driver reports other clocks or widths than when it was made: the work of its requests stays the
/// same, and so may a comparison of two drivers.
/// Fails when it cannot be read, was changed by hand, belongs to another device, or lacks a
/// workload.
pub fn read(
    path: &Path,
    plan: &Plan,
    session: &DeviceSession,
) -> Result<(Calibration, Option<String>), ExpectedError> {
    let file = if path.is_dir() { path.join("record.json") } else { path.to_path_buf() };
    let wrong = |problem: String| {
        ExpectedError::usage(
            format!("calibration {}: {problem}", file.display()),
            Some("pass a record of the same GPU, or leave --calibration out"),
        )
    };
    let text = read_text("calibration", &file, RECORD_BYTES_MAX)?;
    let found =
        serde_json::from_str(&text).map_err(|error| wrong(parser_message(&error.to_string())))?;
    let (calibration, device) = match found {
        File::Record { calibration, device } => (calibration, Some(device)),
        File::Calibration(calibration) => (calibration, None),
    };
    if let Some(problem) = damage(&calibration) {
        return Err(wrong(problem));
    }
    // A record of an older format names its device, though its calibration does not.
    let of_record = device.map(|device| identity::binding(&device, BTreeMap::new()));
    let here = identity::binding(session.identity(), session.peaks()?);
    let bound = calibration.binding.as_ref().or(of_record.as_ref());
    if let Some(problem) = bound.and_then(|bound| other_device(bound, &here)) {
        return Err(wrong(problem));
    }
    let note = bound
        .and_then(|bound| other_peak(bound, &here))
        .map(|differs| format!("calibration {}: {differs}; it is carried over", file.display()));
    let needed =
        plan.cells.iter().flat_map(|cell| &cell.tenants).filter_map(|t| t.workload.as_ref());
    for name in needed {
        if !calibration.entries.contains_key(name) {
            return Err(wrong(format!("it has no workload {name}, which the plan needs")));
        }
    }
    Ok((calibration, note))
}

/// What shows that a calibration was changed by hand: a hash, or a value that no device has.
fn damage(of: &Calibration) -> Option<String> {
    if !of.is_intact() {
        return Some("its hash is not that of its entries".to_owned());
    }
    let entries = of.entries.iter().flat_map(|(name, entry)| {
        [
            (name, "native_rate_per_s", entry.native_rate_per_s, RATE_MAX),
            (name, "service_ns", entry.service_ns as f64, SERVICE_NS_MAX),
            (name, "work_per_request", entry.work_per_request, WORK_MAX),
        ]
    });
    // Beside a workload that cannot run, both rates are 0.
    let peaks = of.peaks.iter().flat_map(|(name, peak)| {
        let rates = [
            (name, "alone_per_s", peak.alone_per_s, WORK_MAX),
            (name, "peak_per_s", peak.peak_per_s, WORK_MAX),
        ];
        rates.into_iter().filter(|(.., value, _)| *value != 0.0)
    });
    let mut all = entries.chain(peaks);
    let (name, key, value, max) =
        all.find(|(.., value, max)| !(f64::MIN_POSITIVE..=*max).contains(value))?;
    Some(format!("{name}: {key} is {value} (possible: above 0, at most {max:e})"))
}

/// Above what any GPU does: requests a second, an hour for one, and units of work.
const RATE_MAX: f64 = 1e10;
const SERVICE_NS_MAX: f64 = 3.6e12;
const WORK_MAX: f64 = 1e18;

/// Why a kept calibration of one device is not one of the other: another device, or the same with
/// other clocks or widths.
pub(super) fn mismatch(made_on: &CalibrationBinding, here: &CalibrationBinding) -> Option<String> {
    other_device(made_on, here).or_else(|| other_peak(made_on, here))
}

fn device_name(of: &CalibrationBinding) -> String {
    format!("{} ({}, {})", of.name, of.kind.as_str(), of.uuid)
}

fn other_device(made_on: &CalibrationBinding, here: &CalibrationBinding) -> Option<String> {
    let (made_on, here) = (device_name(made_on), device_name(here));
    (made_on != here).then(|| format!("it belongs to {made_on}, and this device is {here}"))
}

/// The first peak that is another one now, by the clocks and widths that the driver reports.
fn other_peak(made_on: &CalibrationBinding, here: &CalibrationBinding) -> Option<String> {
    let mut peaks = made_on.peaks.iter();
    let (name, was, is) = peaks.find_map(|(name, was)| {
        let is = here.peaks.get(name)?;
        (is != was).then_some((name, was, is))
    })?;
    let device = device_name(here);
    Some(format!("it belongs to {device} with {name} {was:e}, which now has {is:e}"))
}

// Calibrations that runs keep for later runs on the same device, so that all of them have the same
// victims and native rates: `$XDG_STATE_HOME/gpubench/calibrations`, one file for each device.
//
// In virtual time nothing is kept: a calibration there follows from the machine file, and one seed
// gives the same bytes whatever ran before. Nor is anything kept while MIG mode is on, where rates
// are those of an instance, or of a user's program, which may change.

pub struct KeptCalibrations {
    path: PathBuf,
}

impl KeptCalibrations {
    /// The file for a run of this plan; `None` where nothing is kept.
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
            Err(error) => Err(verdict::from_journal(error)),
        }
    }

    /// The calibrations that belong to this device. One that does not, because its clocks or widths
    /// changed, or that was changed by hand, is left out and named. A file that cannot be read is
    /// set aside and named.
    pub fn read(
        &self,
        session: &DeviceSession,
    ) -> Result<(Vec<Calibration>, Vec<String>), ExpectedError> {
        let here = identity::binding(session.identity(), session.peaks()?);
        let (all, damaged) = self.usable()?;
        let (mut kept, mut left_out) = (Vec::new(), Vec::from_iter(damaged));
        for calibration in all {
            let problem = damage(&calibration).or_else(|| {
                let bound = calibration.binding.as_ref();
                bound.map_or_else(
                    || Some("it names no device".to_owned()),
                    |bound| mismatch(bound, &here),
                )
            });
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

    /// What the file holds. One that cannot be read is set aside, and the second value says where.
    fn usable(&self) -> Result<(Vec<Calibration>, Option<String>), ExpectedError> {
        let error = match read_kept(&self.path) {
            Ok(all) => return Ok((all, None)),
            Err(error) => error,
        };
        let aside = self.path.with_extension("damaged");
        std::fs::rename(&self.path, &aside)
            .map_err(|error| ExpectedError::from_write(&aside, error))?;
        let note = format!("{error}; it is now {}, and made anew", aside.display());
        Ok((Vec::new(), Some(note)))
    }

    /// Adds what a run measured. A calibration with the same basis gets the new entries, and its
    /// own where there are no new ones.
    pub fn add(&self, made: &Calibration) -> Result<(), ExpectedError> {
        let is_known = made.entries.keys().all(|name| made.kept.contains(name));
        if is_known || made.basis.is_none() || made.binding.is_none() {
            return Ok(());
        }
        let (mut all, _) = self.usable()?;
        let same = |one: &Calibration| {
            let bases = one.basis.as_ref().zip(made.basis.as_ref());
            bases.is_some_and(|(one, made)| one.has_target_of(made))
        };
        let before = all.iter().position(same).map(|at| all.swap_remove(at));
        all.push(merged(before, made));
        // Plain structs with string keys always serialise.
        let text = serde_json::to_string(&all)
            .map_err(|error| ExpectedError::internal(format!("calibrations to keep: {error}")))?;
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
fn read_kept(path: &Path) -> Result<Vec<Calibration>, ExpectedError> {
    let what = "kept calibrations";
    let Some(text) = read_if_kept(what, path)? else {
        return Ok(Vec::new());
    };
    serde_json::from_str(&text).map_err(|error| {
        ExpectedError::usage(
            format!("{what} {}: {}", path.display(), parser_message(&error.to_string())),
            Some("delete the file: the next run calibrates again"),
        )
    })
}

/// The text of a kept file; `None` if there is none.
fn read_if_kept(what: &'static str, path: &Path) -> Result<Option<String>, ExpectedError> {
    let is_own = own_file(path).map_err(|source| unreadable(what, path, source));
    match is_own.and_then(|_| read_text(what, path, RECORD_BYTES_MAX)) {
        Err(ExpectedError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

// Files that are kept of a device between runs: `$XDG_STATE_HOME/gpubench/FOLDER/UUID...`.

/// The file of a device, with this end of its name. `None` for a text that is no UUID: the UUID of
/// a record is untrusted input and must not name another file.
pub(super) fn device_file(
    folder: &str,
    uuid: &str,
    ending: &str,
) -> Result<Option<PathBuf>, JournalError> {
    if !is_uuid(uuid) {
        return Ok(None);
    }
    let name = format!("{uuid}{ending}");
    Ok(Some(state_dir()?.join(folder).join(name)))
}

/// Writes such a file as a whole, in a folder that only this user can read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), ExpectedError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| ExpectedError::from_write(folder, error))?;
    write_whole(path, text.as_bytes())
}

// The spread of a device, kept between runs: `$XDG_STATE_HOME/gpubench/spread/UUID.json`, one
// file for each device, in the form of [`Spread`]. `doctor --calibrate` adds sessions, `plan` and
// `diff` read it.

/// The file of a device; `None` for a text that is no UUID.
fn path_of(uuid: &str) -> Result<Option<PathBuf>, JournalError> {
    device_file("spread", uuid, ".json")
}

/// The spread of a device; `None` where no session was measured, and for a text that is no UUID.
pub fn known(uuid: &str) -> Result<Option<Spread>, ExpectedError> {
    let path = match path_of(uuid) {
        Ok(Some(path)) => path,
        Ok(None) => return Ok(None),
        // Without a home nothing is kept.
        Err(JournalError::NoFolder) => return Ok(None),
        Err(error) => return Err(verdict::from_journal(error)),
    };
    match read_if_kept(SPREAD, &path)? {
        Some(text) => parsed(&path, &text).map(Some),
        None => Ok(None),
    }
}

/// What kind of file it is.
const SPREAD: &str = "spread of a device";

/// The spread of another device, as `doctor --calibrate --format json` printed it.
pub fn published(path: &Path) -> Result<Spread, ExpectedError> {
    parsed(path, &read_text(SPREAD, path, RECORD_BYTES_MAX)?)
}

fn parsed(path: &Path, text: &str) -> Result<Spread, ExpectedError> {
    serde_json::from_str(text).map_err(|error| {
        let source = std::io::Error::other(parser_message(&error.to_string()));
        ExpectedError::Unreadable { what: SPREAD, path: path.to_owned(), source }
    })
}

/// Makes the folder of kept spreads, before anything is measured.
pub fn make_spread_folder() -> Result<(), ExpectedError> {
    let folder = state_dir().map_err(verdict::from_journal)?.join("spread");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| ExpectedError::from_write(folder, error))
}

/// Keeps the spread of a device.
pub fn keep(spread: &Spread) -> Result<PathBuf, ExpectedError> {
    let uuid = &spread.device;
    let path = path_of(uuid).map_err(verdict::from_journal)?;
    let path = path.ok_or_else(|| {
        ExpectedError::usage(
            format!("the device reports \"{uuid}\", which is no UUID: its spread has no file"),
            None,
        )
    })?;
    let text = serde_json::to_string_pretty(spread).map_err(ExpectedError::internal)?;
    write_private(&path, &(text + "\n"))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use gpubench_record::DeviceKind;

    use super::*;

    #[test]
    fn a_calibration_of_another_device_is_refused_with_both_names() {
        let bound = |name: &str, kind, uuid: &str, peak: f64| CalibrationBinding {
            uuid: uuid.to_owned(),
            name: name.to_owned(),
            kind,
            peaks: [("memory_bytes_per_s".to_owned(), peak)].into(),
            entries_hash: String::new(),
        };
        use DeviceKind::{Real, Virtual};
        let here = bound("H100", Real, "GPU-a", 3.35e12);
        let text = |made_on| mismatch(&made_on, &here);
        assert_eq!(text(bound("H100", Real, "GPU-a", 3.35e12)), None);
        for (made_on, said) in [
            (
                bound("H100", Real, "GPU-b", 3.35e12),
                "it belongs to H100 (real, GPU-b), and this device is H100 (real, GPU-a)",
            ),
            (
                bound("H100", Virtual, "GPU-a", 3.35e12),
                "it belongs to H100 (virtual, GPU-a), and this device is H100 (real, GPU-a)",
            ),
            (
                bound("H100", Real, "GPU-a", 2e12),
                "it belongs to H100 (real, GPU-a) with memory_bytes_per_s 2e12, which now has \
                 3.35e12",
            ),
        ] {
            assert_eq!(text(made_on).as_deref(), Some(said));
        }
        // A record of format 1.0 names its device without peaks.
        let mut old = bound("H100", Real, "GPU-a", 0.0);
        old.peaks.clear();
        assert_eq!(text(old), None);
    }

    #[test]
    fn a_text_that_is_no_uuid_names_no_file() {
        for text in
            ["../../x", "GPU-../../x", "GPU-92af0b11/x", "/x", "GPU-", "x", "", "GPU-92af0b11\0"]
        {
            let found = device_file("spread", text, ".json");
            assert!(matches!(found, Ok(None)), "{text}: {found:?}");
        }
        // Without a folder for state there is no file, which is another matter.
        if let Ok(found) = device_file("spread", "GPU-92af0b11", ".json") {
            assert!(found.is_some_and(|path| path.ends_with("spread/GPU-92af0b11.json")));
        }
    }
}
