//! The devices of a run of several: from the values of `--device` to one target for each.

use std::collections::BTreeSet;
use std::path::Path;

use gpubench_host::device::virtual_gpu::DEFAULT;
use gpubench_host::device::{Allotment, DeviceChoice, DeviceSelector, HostGpu, nvml};

use super::verdict;
use crate::error::ExpectedError;

/// Characters of a UUID that name a folder: `GPU-` and the first group.
const SHORT_UUID: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Index of a real GPU in the order of the driver.
    pub index: Option<u32>,
    /// Product name of a real GPU, or the value of `--device`.
    pub name: String,
    /// The value of `--device` that names this device alone, whatever the order of indices.
    pub device: String,
    pub folder: String,
    pub problem: Option<String>,
}

/// The devices that the command line names, at least one, each once.
/// Fails when it names one twice, an unknown one, a MIG instance, or real and virtual ones
/// together; or when this host has none.
pub fn targets(wanted: &[DeviceChoice]) -> Result<Vec<Target>, ExpectedError> {
    if wanted.len() > 1 && wanted.contains(&DeviceChoice::All) {
        return Err(refused("--device: all includes every GPU of this host", ""));
    }
    let (machines, real) = parted(wanted)?;
    if !machines.is_empty() {
        return of_machines(&machines);
    }
    let allotment = Allotment::read().map_err(verdict::from_visible)?;
    let gpus = nvml::host_gpus().map_err(verdict::no_devices)?;
    of_host(&real, &gpus, allotment.as_ref().map(Allotment::devices))
}

/// The virtual machines of a list, or its real devices; no real device means all.
fn parted(wanted: &[DeviceChoice]) -> Result<(Vec<&str>, Vec<&DeviceSelector>), ExpectedError> {
    let (mut machines, mut real) = (Vec::new(), Vec::new());
    for choice in wanted {
        match choice {
            DeviceChoice::All => {}
            DeviceChoice::One(DeviceSelector::Virtual(name)) => {
                machines.push(name.as_deref().unwrap_or(DEFAULT));
            }
            DeviceChoice::One(DeviceSelector::Mig(uuid)) => {
                return Err(refused(
                    &format!("--device: a list cannot have the MIG instance {uuid}"),
                    "instances of one GPU share it: measure each in a run of its own",
                ));
            }
            DeviceChoice::One(DeviceSelector::PciAddress(address)) => {
                let accepted = "accepted in a list: the index or the UUID of a whole GPU";
                return Err(refused(
                    &format!("--device: no PCI address in a list: {address}"),
                    accepted,
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
    let begun = |gpu: &&HostGpu| gpu.uuid.as_ref().is_ok_and(|own| own.starts_with(uuid));
    let mut found = gpus.iter().filter(begun);
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(unknown(uuid, gpus)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "GPU-aaaaaaaa-1111";
    const B: &str = "GPU-bbbbbbbb-2222";
    /// It begins as B does.
    const C: &str = "GPU-bbbbbbbb-3333";

    fn host() -> Vec<HostGpu> {
        let uuids = [Ok(A), Ok(B), Err("GPU is lost"), Ok(C)];
        let gpu = |(index, uuid): (u32, Result<&str, &str>)| HostGpu {
            index,
            uuid: uuid.map(str::to_owned).map_err(str::to_owned),
            name: "H100".to_owned(),
        };
        (0..).zip(uuids).map(gpu).collect()
    }

    fn choices(list: &str) -> Vec<DeviceChoice> {
        list.split(',').filter_map(|one| one.parse().ok()).collect()
    }

    /// `device in folder` of each target, as this host has it.
    fn found(list: &str, allotted: Option<&[String]>) -> Result<Vec<String>, String> {
        let wanted = choices(list);
        let (machines, real) = parted(&wanted).map_err(|error| error.to_string())?;
        let targets = match machines.as_slice() {
            [] => of_host(&real, &host(), allotted),
            machines => of_machines(machines),
        };
        let targets = targets.map_err(|error| {
            assert_eq!(error.exit_code().code(), 2);
            error.to_string()
        })?;
        let text = |one: Target| {
            let problem = one.problem.map_or_else(String::new, |why| format!(": {why}"));
            format!("{} in {}{problem}", one.device, one.folder)
        };
        Ok(targets.into_iter().map(text).collect())
    }

    fn of(texts: &[&str]) -> Result<Vec<String>, String> {
        Ok(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn a_list_keeps_its_order_and_all_has_every_gpu() {
        let (a, b) = (format!("{A} in GPU-aaaaaaaa"), format!("{B} in {B}"));
        let lost = "2 in index-2: GPU is lost";
        assert_eq!(found(&format!("1,{A}"), None), of(&[&b, &a]));
        assert_eq!(found("2,0", None), of(&[lost, &a]));
        let c = format!("{C} in {C}");
        assert_eq!(found("all", None), of(&[&a, &b, lost, &c]));
        let allotted = [C.to_owned(), A.to_owned()];
        assert_eq!(found("all", Some(&allotted)), of(&[&c, &a]));
        assert_eq!(
            found("virtual,virtual:x/turing.toml,virtual:turing", None),
            of(&[
                "virtual:h100-80 in virtual-h100-80",
                "virtual:x/turing.toml in virtual-turing",
                "virtual:turing in virtual-turing-2",
            ])
        );
    }

    #[test]
    fn what_is_no_list_is_refused_in_one_line() {
        for (list, problem) in [
            ("0,0", "--device names GPU 0 GPU-aaaaaaaa-1111 twice"),
            ("0,GPU-aaaaaaaa-1111", "--device names GPU 0 GPU-aaaaaaaa-1111 twice"),
            ("2,2", "--device names GPU 2 twice"),
            ("virtual,virtual:h100-80", "--device names virtual:h100-80 twice"),
            ("virtual,0", "--device: virtual:h100-80 and 0 are no list"),
            (
                "0,MIG-7d1e9a58-5d5c",
                "--device: a list cannot have the MIG instance MIG-7d1e9a58-5d5c",
            ),
            (
                "0,9",
                "--device: no GPU \"9\" (found: 0 GPU-aaaaaaaa-1111, 1 GPU-bbbbbbbb-2222, \
             2 (GPU is lost), 3 GPU-bbbbbbbb-3333)",
            ),
        ] {
            assert_eq!(found(list, None), Err(problem.to_owned()), "{list}");
        }
        let both = targets(&choices("all,0")).map_err(|error| error.to_string());
        let problem = "--device: all includes every GPU of this host";
        assert_eq!(both, Err(problem.to_owned()));
        let allotted = [A.to_owned()];
        assert_eq!(
            found("0,1", Some(&allotted)),
            Err(format!("--device {B} is not in CUDA_VISIBLE_DEVICES"))
        );
        let instance = ["MIG-7d1e9a58-5d5c".to_owned()];
        assert!(found("all", Some(&instance)).is_err_and(|line| line.contains("no GPU")));
    }
}
