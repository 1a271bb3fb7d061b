//! The devices of a run of several: from the values of `--device` to one target for each.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::Path;

use gpubench_virtual_gpu::machine;

use super::expected;
use crate::device::{Allotment, DeviceChoice, DeviceSelector, HostGpu, nvml};
use crate::error::ExpectedError;

/// Characters of a UUID that name a folder: `GPU-` and the first group.
const SHORT_UUID: usize = 12;

/// One device of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Index of a real GPU in the order of the driver.
    pub index: Option<u32>,
    /// Product name of a real GPU, or the value of `--device`.
    pub name: String,
    /// The value of `--device` that names this device alone, whatever the order of indices.
    pub device: String,
    /// Folder of its record, in that of all records.
    pub folder: String,
    /// Why it cannot be measured.
    pub problem: Option<String>,
}

/// The devices that the command line names, at least one, each once.
///
/// # Errors
/// When it names one twice, an unknown one, a MIG instance, or real and virtual ones together; or
/// when this host has none.
pub fn targets(wanted: &[DeviceChoice]) -> Result<Vec<Target>, ExpectedError> {
    if wanted.len() > 1 && wanted.contains(&DeviceChoice::All) {
        return Err(refused("--device: all includes every GPU of this host", ""));
    }
    let (machines, real) = parted(wanted)?;
    if !machines.is_empty() {
        return of_machines(&machines);
    }
    let allotment = Allotment::read().map_err(expected::from_visible)?;
    let gpus = nvml::host_gpus().map_err(expected::no_devices)?;
    of_host(&real, &gpus, allotment.as_ref().map(Allotment::devices))
}

/// The virtual machines of a list, or its real devices; no real device means all.
fn parted(wanted: &[DeviceChoice]) -> Result<(Vec<&str>, Vec<&DeviceSelector>), ExpectedError> {
    let (mut machines, mut real) = (Vec::new(), Vec::new());
    for choice in wanted {
        match choice {
            DeviceChoice::All => {}
            DeviceChoice::One(DeviceSelector::Virtual(name)) => {
                machines.push(name.as_deref().unwrap_or(machine::DEFAULT));
            }
            DeviceChoice::One(DeviceSelector::Mig(uuid)) => {
                return Err(refused(
                    &format!("--device: a list cannot have the MIG instance {uuid}"),
                    "instances of one GPU share it: measure each in a run of its own",
                ));
            }
            DeviceChoice::One(one) => real.push(one),
        }
    }
    match (machines.first(), real.first()) {
        (Some(machine), Some(real)) => Err(refused(
            &format!("--device: virtual:{machine} and {real} are no list"),
            "accepted: real GPUs, or virtual ones",
        )),
        _ => Ok((machines, real)),
    }
}

fn of_machines(machines: &[&str]) -> Result<Vec<Target>, ExpectedError> {
    let mut known = BTreeSet::new();
    let mut targets: Vec<Target> = Vec::new();
    for name in machines {
        if !known.insert(name) {
            return Err(twice(&format!("virtual:{name}")));
        }
        let stem = Path::new(name).file_stem();
        let stem = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let is_used = |folder: &String| targets.iter().any(|one| one.folder == *folder);
        let mut folder = format!("virtual-{stem}");
        // Files of two folders can have one name.
        if is_used(&folder) {
            folder = format!("{folder}-{}", targets.len());
        }
        let device = format!("virtual:{name}");
        targets.push(Target { index: None, name: device.clone(), device, folder, problem: None });
    }
    Ok(targets)
}

/// The wanted GPUs, or all that the allotment has, in the order in which they are named.
fn of_host(
    wanted: &[&DeviceSelector],
    gpus: &[HostGpu],
    allotted: Option<&[String]>,
) -> Result<Vec<Target>, ExpectedError> {
    let chosen: Vec<&HostGpu> = match (wanted, allotted) {
        ([], None) => gpus.iter().collect(),
        ([], Some(allotted)) => {
            let found = allotted.iter().map(|uuid| by_uuid(gpus, uuid));
            found.collect::<Result<_, _>>()?
        }
        (wanted, _) => {
            let found = wanted.iter().map(|selector| named(selector, gpus));
            found.collect::<Result<_, _>>()?
        }
    };
    let mut known = BTreeSet::new();
    let mut targets: Vec<Target> = Vec::new();
    for gpu in chosen {
        let index = gpu.index;
        if !known.insert(index) {
            let uuid = gpu.uuid.clone().unwrap_or_default();
            return Err(twice(format!("GPU {index} {uuid}").trim_end()));
        }
        let outside = |uuid: &String| allotted.is_some_and(|list| !list.contains(uuid));
        if let Some(uuid) = gpu.uuid.as_ref().ok().filter(|uuid| outside(uuid)) {
            return Err(refused(
                &format!("--device {uuid} is not in CUDA_VISIBLE_DEVICES"),
                "name one of its devices, or unset the variable",
            ));
        }
        targets.push(of_gpu(gpu, gpus));
    }
    Ok(targets)
}

fn of_gpu(gpu: &HostGpu, gpus: &[HostGpu]) -> Target {
    let short = |gpu: &HostGpu| {
        let uuid = gpu.uuid.as_deref().unwrap_or_default();
        uuid.chars().take(SHORT_UUID).collect::<String>()
    };
    let alike = gpus.iter().filter(|other| short(other) == short(gpu));
    let (device, folder, problem) = match &gpu.uuid {
        Ok(uuid) if alike.count() > 1 => (uuid.clone(), uuid.clone(), None),
        Ok(uuid) => (uuid.clone(), short(gpu), None),
        Err(error) => (gpu.index.to_string(), format!("index-{}", gpu.index), Some(error.clone())),
    };
    Target { index: Some(gpu.index), name: gpu.name.clone(), device, folder, problem }
}

fn named<'a>(selector: &DeviceSelector, gpus: &'a [HostGpu]) -> Result<&'a HostGpu, ExpectedError> {
    match selector {
        DeviceSelector::Index(index) => {
            let found = gpus.iter().find(|gpu| gpu.index == *index);
            found.ok_or_else(|| unknown(&index.to_string(), gpus))
        }
        other => by_uuid(gpus, &other.to_string()),
    }
}

fn by_uuid<'a>(gpus: &'a [HostGpu], uuid: &str) -> Result<&'a HostGpu, ExpectedError> {
    let found = gpus.iter().find(|gpu| gpu.uuid.as_deref() == Ok(uuid));
    found.ok_or_else(|| unknown(uuid, gpus))
}

/// A list with a device that does not exist is a mistake, also where the others exist: measured
/// without it, it would look complete.
fn unknown(wanted: &str, gpus: &[HostGpu]) -> ExpectedError {
    let of = |gpu: &HostGpu| match &gpu.uuid {
        Ok(uuid) => format!("{} {uuid}", gpu.index),
        Err(error) => format!("{} ({error})", gpu.index),
    };
    let found: Vec<String> = gpus.iter().map(of).collect();
    refused(
        &format!("--device: no GPU \"{wanted}\" (found: {})", found.join(", ")),
        "accepted in a list: the index or the UUID of a whole GPU",
    )
}

fn twice(device: &str) -> ExpectedError {
    refused(&format!("--device names {device} twice"), "")
}

fn refused(problem: &str, remedy: &str) -> ExpectedError {
    ExpectedError::Usage {
        problem: problem.to_owned(),
        remedy: (!remedy.is_empty()).then(|| remedy.to_owned()),
    }
}
