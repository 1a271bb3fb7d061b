//! nvidia-smi on one device.

use std::ffi::OsStr;

use super::command::{command, on_path, run};
use super::control::ControlError;
use super::slice::slice_of;
use crate::device::Nvml;

/// Lists the policies of a device.
pub(super) const LIST_POLICIES: [&str; 1] = ["-l"];

/// The time slice of a device, by the vendor's name in lower case; `None` where nvidia-smi does not
/// say.
#[must_use]
pub fn found_time_slice(nvml: &Nvml) -> Option<String> {
    let policies = smi(nvml, &policy(&LIST_POLICIES), "reading the time slice").ok()?;
    slice_of(&policies).map(str::to_owned)
}

/// Arguments that read or set a policy.
pub(super) fn policy<'a>(arguments: &[&'a str]) -> Vec<&'a OsStr> {
    let all = ["compute-policy"].into_iter();
    let all = all.chain(arguments.iter().copied());
    all.map(OsStr::new).collect()
}

/// Runs nvidia-smi on a device. It recognises a subcommand only as its first argument.
pub(super) fn smi(nvml: &Nvml, arguments: &[&OsStr], doing: &str) -> Result<String, ControlError> {
    let program = on_path("nvidia-smi")
        .ok_or_else(|| ControlError::new(doing, "nvidia-smi is not on PATH"))?;
    let mut smi = command(&program);
    smi.args(arguments).args(["-i", nvml.uuid()]);
    run(smi, "", doing)
}
