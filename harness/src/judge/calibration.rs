//! The calibration of an earlier run, reused by a later one on the same device.

use std::collections::BTreeMap;
use std::path::Path;

use gpubench_record::{Calibration, CalibrationBinding, DeviceIdentity, Plan, parser_message};
use serde::Deserialize;

use super::DeviceSession;
use crate::device::identity;
use crate::error::ExpectedError;
use crate::error::input::{RECORD_BYTES_MAX, read_text};

/// The two kinds of file: a record, or a calibration.
#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Record { calibration: Calibration, device: DeviceIdentity },
    Calibration(Calibration),
}

/// Reads the calibration in a record's folder, a `record.json`, or a file of its own, and checks
/// that it belongs to this device and has everything that the plan needs.
///
/// # Errors
/// When it cannot be read, was changed by hand, belongs to another device, or lacks a workload.
pub fn read(
    path: &Path,
    plan: &Plan,
    session: &DeviceSession,
) -> Result<Calibration, ExpectedError> {
    let file = if path.is_dir() { path.join("record.json") } else { path.to_path_buf() };
    let wrong = |problem: String| ExpectedError::Usage {
        problem: format!("calibration {}: {problem}", file.display()),
        remedy: Some("pass a record of the same GPU, or leave --calibration out".to_owned()),
    };
    let text = read_text("calibration", &file, RECORD_BYTES_MAX)?;
    let found =
        serde_json::from_str(&text).map_err(|error| wrong(parser_message(&error.to_string())))?;
    let (calibration, device) = match found {
        File::Record { calibration, device } => (calibration, Some(device)),
        File::Calibration(calibration) => (calibration, None),
    };
    if !calibration.is_intact() {
        return Err(wrong("its hash is not that of its entries".to_owned()));
    }
    // A record of an older format names its device, though its calibration does not.
    let of_record = device.map(|device| identity::binding(&device, BTreeMap::new()));
    let here = identity::binding(session.identity(), session.nvml().peaks());
    let bound = calibration.binding.as_ref().or(of_record.as_ref());
    if let Some(problem) = bound.and_then(|bound| mismatch(bound, &here)) {
        return Err(wrong(problem));
    }
    let needed =
        plan.cells.iter().flat_map(|cell| &cell.tenants).filter_map(|t| t.workload.as_ref());
    for name in needed {
        if !calibration.entries.contains_key(name) {
            return Err(wrong(format!("it has no workload {name}, which the plan needs")));
        }
    }
    Ok(calibration)
}

/// Why a calibration of one device is not one of the other: another device, or the same with other
/// clocks or widths.
pub(super) fn mismatch(made_on: &CalibrationBinding, here: &CalibrationBinding) -> Option<String> {
    let device =
        |of: &CalibrationBinding| format!("{} ({}, {})", of.name, of.kind.as_str(), of.uuid);
    if device(made_on) != device(here) {
        let (made_on, here) = (device(made_on), device(here));
        return Some(format!("it belongs to {made_on}, and this device is {here}"));
    }
    let mut peaks = made_on.peaks.iter();
    let (name, was, is) = peaks.find_map(|(name, was)| {
        let is = here.peaks.get(name)?;
        (is != was).then_some((name, was, is))
    })?;
    let device = device(here);
    Some(format!("it belongs to {device} with {name} {was:e}, which now has {is:e}"))
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
}
