//! The value of `--device`. Whether the device exists is checked later.

use std::fmt;
use std::str::FromStr;

use super::nvml::{DeviceKey, QueryError, host_gpus};
use super::{Driver, Nvml};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSelector {
    /// The virtual GPU with a machine name or the path of a machine file; `None` is the default.
    Virtual(Option<String>),
    Index(u32),
    /// A UUID, or the beginning of one.
    Gpu(String),
    /// As `lspci` and `nvidia-smi` print it.
    PciAddress(String),
    Mig(String),
}

/// One entry of a `--device` that takes several devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    All,
    One(DeviceSelector),
}

/// The value of [`DeviceChoice::All`].
const ALL: &str = "all";

/// A value that `--device` does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSelector {
    /// It names no device.
    #[error(
        "\"{0}\" is not a device (accepted: virtual, virtual:MACHINE, an index, GPU-UUID or its \
         beginning, MIG-UUID, or a PCI address)"
    )]
    Unknown(String),
    #[error("\"{0}\" names several devices (accepted: one; only matrix takes all, or a list)")]
    Several(String),
}

impl FromStr for DeviceChoice {
    type Err = NoSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            ALL => Ok(Self::All),
            one => one.parse().map(Self::One),
        }
    }
}

impl DeviceSelector {
    /// Whether it selects the virtual GPU.
    pub const fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }
}

impl FromStr for DeviceSelector {
    type Err = NoSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || NoSelector::Unknown(text.to_owned());
        // A path may have a comma, so what follows it decides.
        let mut rest = text.split(',').skip(1);
        if text == ALL || rest.any(|one| one.parse::<DeviceChoice>().is_ok()) {
            return Err(NoSelector::Several(text.to_owned()));
        }
        if text == "virtual" {
            return Ok(Self::Virtual(None));
        }
        if let Some(machine) = text.strip_prefix("virtual:") {
            let named = !machine.is_empty();
            return named.then(|| Self::Virtual(Some(machine.to_owned()))).ok_or_else(refused);
        }
        if begins_uuid_of("GPU-", text, 1) {
            return Ok(Self::Gpu(text.to_owned()));
        }
        // Older drivers name instances MIG-GPU-<uuid>/<gpu instance>/<compute instance>.
        if is_uuid_of("MIG-", text) || text.starts_with("MIG-GPU-") {
            return Ok(Self::Mig(text.to_owned()));
        }
        if is_pci_address(text) {
            return Ok(Self::PciAddress(text.to_owned()));
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let index = if digits { text.parse().ok() } else { None };
        index.map(Self::Index).ok_or_else(refused)
    }
}

/// Whether the text has the form of NVML's UUIDs, and so is the name of a file and no path.
pub fn is_uuid(text: &str) -> bool {
    is_uuid_of("GPU-", text) || is_uuid_of("MIG-", text)
}

/// Whether hexadecimal digits and hyphens follow the prefix.
fn is_uuid_of(prefix: &str, text: &str) -> bool {
    begins_uuid_of(prefix, text, 8)
}

fn begins_uuid_of(prefix: &str, text: &str, least: usize) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        rest.len() >= least && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    })
}

/// Whether it is `bus:device.function`, with a domain of 4 or 8 digits before it or without.
fn is_pci_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '.']).collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    text.ends_with(".0")
        && matches!(lengths[..], [2, 2, 1] | [4 | 8, 2, 2, 1])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for DeviceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtual(None) => f.write_str("virtual"),
            Self::Virtual(Some(machine)) => write!(f, "virtual:{machine}"),
            Self::Index(index) => write!(f, "{index}"),
            Self::Gpu(text) | Self::Mig(text) | Self::PciAddress(text) => f.write_str(text),
        }
    }
}

// The devices that `CUDA_VISIBLE_DEVICES` of the user leaves: an allotment, as schedulers and
// containers make it. gpubench chooses from these alone.
//
// The list is read as the CUDA driver reads it (CUDA Programming Guide, "CUDA Environment
// Variables"): indices in the order of `CUDA_DEVICE_ORDER`, UUIDs of GPUs or unambiguous
// beginnings of them, UUIDs of MIG instances; it ends before the first entry that names nothing.

/// The list.
const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";
/// Order of the indices in it.
const ORDER: &str = "CUDA_DEVICE_ORDER";
/// The order of NVML's indices. The driver's own order begins with the fastest GPU.
const BY_PCI: &str = "PCI_BUS_ID";

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
    /// Fails when no device is left, or it is not certain which.
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
        // An entry of a lost GPU names nothing, as for the driver.
        let gpus = host_gpus()?.into_iter().map(|gpu| Some((gpu.uuid.ok()?, gpu.name)));
        let gpus: Vec<Gpu> = gpus.collect();
        // An instance that does not exist is an entry that names nothing.
        let instance = |name: &str| {
            let found = Nvml::open(None, &DeviceKey::Uuid(name.to_owned())).ok()?;
            Some(found.uuid().to_owned())
        };
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
    pub fn first(&self) -> &str {
        self.devices.first().map_or("", String::as_str)
    }

    /// UUIDs of its GPUs and MIG instances, at least one.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Why a device is not in the allotment; `None` if it or the GPU of the instance is.
    pub fn refusal(&self, nvml: &Nvml) -> Option<String> {
        let uuid = nvml.uuid();
        // A GPU has no parent.
        let parent = || {
            let doing = "reading the parent of the MIG instance from NVML";
            let parent = |driver: &Driver| driver.whole().and_then(|whole| whole.uuid());
            nvml.ask(doing, parent).ok()?.ok()
        };
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
    use super::DeviceChoice::{All, One};
    use super::DeviceSelector::{Gpu, Index, Mig, PciAddress, Virtual};
    use super::{DeviceChoice, DeviceSelector};

    #[test]
    fn an_accepted_value_is_printed_as_it_was_given() {
        let gpu = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
        let mig = "MIG-7d1e9a58-5d5c-5b3a-9f0e-0a8d3e3a0b11";
        for (text, expected) in [
            ("virtual", Virtual(None)),
            ("virtual:turing", Virtual(Some("turing".to_owned()))),
            ("virtual:./my.toml", Virtual(Some("./my.toml".to_owned()))),
            ("0", Index(0)),
            ("12", Index(12)),
            (gpu, Gpu(gpu.to_owned())),
            (mig, Mig(mig.to_owned())),
            ("GPU-89", Gpu("GPU-89".to_owned())),
            ("0000:65:00.0", PciAddress("0000:65:00.0".to_owned())),
            ("65:00.0", PciAddress("65:00.0".to_owned())),
            ("MIG-GPU-8932f937/1/0", Mig("MIG-GPU-8932f937/1/0".to_owned())),
        ] {
            assert_eq!(text.parse::<DeviceSelector>().as_ref(), Ok(&expected));
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn a_refusal_names_the_accepted_forms() {
        for text in
            ["", "virtual:", "-1", "+1", "gpu0", "GPU-", "GPU-xyz12345", "65:00", "99999999999"]
        {
            let refused = text.parse::<DeviceSelector>().map_err(|error| error.to_string());
            assert!(refused.is_err_and(|line| line.contains("virtual:MACHINE")), "{text}");
        }
    }

    #[test]
    fn several_devices_are_named_as_such_where_one_is_accepted() {
        assert_eq!("all".parse(), Ok(All));
        assert_eq!("3".parse(), Ok(One(Index(3))));
        assert!("".parse::<DeviceChoice>().is_err());
        for text in ["all", "0,2", "virtual:turing,virtual", "0,all"] {
            let refused = text.parse::<DeviceSelector>();
            let refused = refused.map_err(|error| error.to_string());
            assert!(refused.is_err_and(|line| line.contains("names several devices")), "{text}");
        }
        let path = Virtual(Some("./a,b.toml".to_owned()));
        assert_eq!("virtual:./a,b.toml".parse(), Ok(path));
    }
}

#[cfg(test)]
mod visible_tests {
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
