//! The devices that `CUDA_VISIBLE_DEVICES` of the user leaves: an allotment, as schedulers and
//! containers make it. gpubench chooses from these alone.
//!
//! The list is read as the CUDA driver reads it (CUDA Programming Guide, "CUDA Environment
//! Variables"): indices in the order of `CUDA_DEVICE_ORDER`, UUIDs of GPUs or unambiguous
//! beginnings of them, UUIDs of MIG instances; it ends before the first entry that names nothing.

use nvml_wrapper::Nvml as Library;

use super::Nvml;
use super::nvml::QueryError;

/// The list.
const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
/// Order of the indices in it.
const ORDER: &str = "CUDA_DEVICE_ORDER";
/// The order of NVML's indices. The driver's own order begins with the fastest GPU.
const BY_PCI: &str = "PCI_BUS_ID";

/// The devices of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allotment {
    value: String,
    /// UUIDs of GPUs and of MIG instances, at least one.
    devices: Vec<String>,
    assumes_order: bool,
}

/// Why the list allows no choice.
#[derive(Debug, thiserror::Error)]
pub enum VisibleError {
    /// No entry names a device.
    #[error("{VARIABLE}=\"{0}\" leaves none")]
    Hidden(String),
    /// NVML does not report the driver's order of different GPUs.
    #[error(
        "{VARIABLE}=\"{0}\" has an index, and the GPUs are of different models, which CUDA orders \
         by speed"
    )]
    Order(String),
    /// NVML gives no access to the devices.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// A GPU in NVML's order, which is that of PCI addresses; `None` for one that does not answer.
type Gpu = Option<(String, String)>;

impl Allotment {
    /// The allotment in the environment of this process; `None` without one.
    ///
    /// # Errors
    /// When no device is left, or it is not certain which.
    pub fn read() -> Result<Option<Self>, VisibleError> {
        let Some(value) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let value = value.to_string_lossy().into_owned();
        if matches!(first(&value), "" | "-1") {
            // Also without a driver: the variable alone decides.
            return Err(VisibleError::Hidden(value));
        }
        let by_pci = std::env::var_os(ORDER).is_some_and(|order| order == BY_PCI);
        let library = Library::init().map_err(QueryError::Load)?;
        let count = library
            .device_count()
            .map_err(|source| QueryError::Fact { what: "number of devices", source })?;
        let gpu = |index| -> Gpu {
            // An entry of a lost GPU names nothing, as for the driver.
            let device = library.device_by_index(index).ok()?;
            Some((device.uuid().ok()?, device.name().ok()?))
        };
        let gpus: Vec<Gpu> = (0..count).map(gpu).collect();
        // An instance that does not exist is an entry that names nothing.
        let instance = |name: &str| library.device_by_uuid(name).ok()?.uuid().ok();
        Self::of(value, by_pci, &gpus, &instance).map(Some)
    }

    fn of(
        value: String,
        by_pci: bool,
        gpus: &[Gpu],
        instance: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, VisibleError> {
        let is_index = |entry: &str| entry.parse::<usize>().is_ok();
        let entries = || value.split(',').map(str::trim);
        let assumes_order = !by_pci && gpus.len() > 1 && entries().any(is_index);
        let mut models = gpus.iter().map(|gpu| gpu.as_ref().map(|(_, model)| model));
        let model = models.next();
        if assumes_order && !models.all(|other| Some(other) == model) {
            return Err(VisibleError::Order(value));
        }
        let named = |entry: &str| match entry.parse::<usize>() {
            Ok(index) => Some(gpus.get(index)?.as_ref()?.0.clone()),
            Err(_) if entry.starts_with("MIG-") => instance(entry),
            Err(_) => unambiguous(entry, gpus),
        };
        let devices: Vec<String> = entries().map_while(named).collect();
        if devices.is_empty() {
            return Err(VisibleError::Hidden(value));
        }
        Ok(Self { value, devices, assumes_order })
    }

    /// UUID of the first device, the default.
    #[must_use]
    pub fn first(&self) -> &str {
        self.devices.first().map_or("", String::as_str)
    }

    /// UUIDs of its GPUs and MIG instances, at least one.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Why a device is not in the allotment; `None` if it or the GPU of the instance is.
    #[must_use]
    pub fn refusal(&self, nvml: &Nvml) -> Option<String> {
        let uuid = nvml.uuid();
        // A GPU has no parent.
        let parent = || nvml.device().ok()?.mig_parent_device().ok()?.uuid().ok();
        let has = |uuid: &str| self.devices.iter().any(|device| device == uuid);
        let is_in = has(uuid) || uuid.starts_with("MIG-") && parent().is_some_and(|gpu| has(&gpu));
        (!is_in).then(|| {
            let accepted = self.devices.join(", ");
            format!(
                "--device {uuid} is not in {VARIABLE}=\"{}\" (accepted: {accepted})",
                self.value
            )
        })
    }

    /// The list and how it was read, in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let assumed = if self.assumes_order {
            "; indices in PCI order, assumed because all GPUs are of one model"
        } else {
            ""
        };
        let devices = self.devices.join(", ");
        format!("{VARIABLE}=\"{}\": {devices}{assumed}", self.value)
    }
}

fn first(list: &str) -> &str {
    list.split_once(',').map_or(list, |(first, _)| first).trim()
}

/// The UUID of the one GPU that it begins.
fn unambiguous(entry: &str, gpus: &[Gpu]) -> Option<String> {
    let begun = |gpu: &&(String, String)| entry.len() > "GPU-".len() && gpu.0.starts_with(entry);
    let mut found = gpus.iter().flatten().filter(begun);
    let (uuid, _) = found.next()?;
    found.next().is_none().then(|| uuid.clone())
}

#[cfg(test)]
mod tests {
    use super::{Allotment, Gpu, VisibleError};

    fn gpus(models: &[&str]) -> Vec<Gpu> {
        let uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33"];
        let gpu = |(uuid, model): (&str, &&str)| Some((uuid.to_owned(), (*model).to_owned()));
        uuids.into_iter().zip(models).map(gpu).collect()
    }

    fn read(value: &str, by_pci: bool, gpus: &[Gpu]) -> Result<Vec<String>, String> {
        let instance = |name: &str| (name == "MIG-c1").then(|| name.to_owned());
        let read = Allotment::of(value.to_owned(), by_pci, gpus, &instance);
        read.map(|one| one.devices).map_err(|error| error.to_string())
    }

    #[test]
    fn entries_name_devices_until_one_names_nothing() {
        let gpus = gpus(&["H100", "H100", "H100"]);
        for (value, found) in [
            ("0", vec!["GPU-aa11"]),
            ("2, 0", vec!["GPU-bb33", "GPU-aa11"]),
            ("GPU-bb33", vec!["GPU-bb33"]),
            ("GPU-bb", vec!["GPU-bb33"]),
            ("GPU-bb,GPU-aa", vec!["GPU-bb33"]),
            ("MIG-c1,MIG-c2,0", vec!["MIG-c1"]),
            ("1,-1,0", vec!["GPU-aa22"]),
            ("1,9,0", vec!["GPU-aa22"]),
        ] {
            let found = found.into_iter().map(str::to_owned).collect();
            assert_eq!(read(value, true, &gpus), Ok(found), "{value:?}");
        }
        for value in ["9", "GPU-", "GPU-aa", "MIG-c2", "x"] {
            let hidden = format!("CUDA_VISIBLE_DEVICES=\"{value}\" leaves none");
            assert_eq!(read(value, true, &gpus), Err(hidden), "{value:?}");
        }
    }

    #[test]
    fn an_index_needs_a_known_order() {
        let mixed = gpus(&["H100", "T4"]);
        assert_eq!(read("1", true, &mixed), Ok(vec!["GPU-aa22".to_owned()]));
        let unknown = Allotment::of("1".to_owned(), false, &mixed, &|_| None);
        assert!(matches!(unknown, Err(VisibleError::Order(_))));
        assert!(read("GPU-aa22", false, &mixed).is_ok());
        let equal = gpus(&["H100", "H100"]);
        for (by_pci, assumes) in [(false, true), (true, false)] {
            let found = Allotment::of("1".to_owned(), by_pci, &equal, &|_| None);
            let text = found.map(|one| one.describe()).unwrap_or_default();
            assert_eq!(text.contains("assumed"), assumes, "{text}");
        }
        let lost = [None, mixed[0].clone()];
        assert!(matches!(
            Allotment::of("1".to_owned(), false, &lost, &|_| None),
            Err(VisibleError::Order(_))
        ));
    }
}
