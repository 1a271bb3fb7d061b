//! The coordinator's queries to NVML: the device, its processes and its counters.
//!
//! A counter that the device does not have is absent and never 0.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpubench_record::EccCounts;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::{Device, Nvml as Library};
use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_FAILURE,
    NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC,
};
use procfs::{Current, Meminfo};

use super::blocking::{NoAnswer, limited, within};
pub use super::nvml_words::{named, words};

/// NVML and the device under test, as the coordinator has them: every call is made by
/// [`Nvml::ask`], which gives it a limit. The first call that does not return is the last that is
/// made.
#[derive(Debug)]
pub struct Nvml {
    driver: Arc<Driver>,
    hang: Mutex<Option<NoAnswer>>,
}

/// Longest wait for a query, and for a call that changes the device, of which some reset it.
pub const QUERY: Duration = Duration::from_secs(5);
pub const CHANGE: Duration = Duration::from_secs(60);

/// NVML and the device on the thread of one call.
#[derive(Debug)]
pub struct Driver {
    /// Never shut down: calls that hang go on using it, and `nvmlShutdown` would hang too.
    library: &'static Library,
    uuid: String,
    /// What a call with several parts is at.
    at: Mutex<&'static str>,
}

/// What identifies a device to NVML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceKey {
    Index(u32),
    /// A UUID, or its beginning that no other has.
    Uuid(String),
    PciAddress(String),
}

/// Why NVML cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error("NVML cannot be loaded: {0}")]
    Load(NvmlError),
    /// The library is there, and does not start.
    #[error("the NVIDIA driver is installed and does not start: {}", words(.0))]
    Refused(NvmlError),
    /// There is no such device.
    #[error("no device {which}: {}", words(source))]
    Device {
        /// The requested device.
        which: String,
        source: NvmlError,
    },
    /// The driver has no device.
    #[error(
        "the driver lists no device: its module could not start one (RmInitAdapter in dmesg), or \
         this container has none"
    )]
    NoneListed,
    /// Under MIG a container can have an instance without its GPU.
    #[error(
        "MIG mode is on, and this user or container may use an instance of the GPU, not the GPU: \
         name the instance by --device (nvidia-smi -L lists their UUIDs)"
    )]
    OnlyInstances,
    /// NVML does not report a fact that is required.
    #[error("NVML does not report the {what}: {}", words(source))]
    Fact { what: &'static str, source: NvmlError },
    #[error(transparent)]
    NoAnswer(NoAnswer),
}

/// Why a container has no library of the driver, where its variable says so.
pub fn hidden() -> &'static str {
    match std::env::var("NVIDIA_VISIBLE_DEVICES").as_deref() {
        Ok("void" | "none" | "") => {
            "; NVIDIA_VISIBLE_DEVICES asks the container runtime for no GPU"
        }
        _ => "",
    }
}

impl QueryError {
    /// Whether the driver answers and has no such device.
    pub const fn is_of_name(&self) -> bool {
        matches!(self, Self::Device { source: NvmlError::NotFound | NvmlError::InvalidArg, .. })
    }

    /// Why NVML did not start.
    pub(super) fn of_start(error: NvmlError) -> Self {
        match error {
            NvmlError::LibloadingError(_)
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::LibraryNotFound => Self::Load(error),
            answer => Self::Refused(answer),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGpu {
    pub index: u32,
    /// Its UUID, or why it does not answer.
    pub uuid: Result<String, String>,
    /// Product name; empty where NVML does not report it.
    pub name: String,
}

/// The GPUs of this host, at least one, in the order of their index. The others can be used while
/// one is lost.
pub fn host_gpus() -> Result<Vec<HostGpu>, QueryError> {
    let listed = || gpus_of(&Library::init().map_err(QueryError::of_start)?);
    limited("starting NVML (nvmlInit_v2) and listing the GPUs", listed)
        .map_err(QueryError::NoAnswer)?
}

fn gpus_of(library: &Library) -> Result<Vec<HostGpu>, QueryError> {
    let count = library
        .device_count()
        .map_err(|source| QueryError::Fact { what: "number of devices", source })?;
    if count == 0 {
        return Err(QueryError::NoneListed);
    }
    let gpu = |index| {
        let device = library.device_by_index(index);
        let uuid = device.as_ref().map_err(named);
        HostGpu {
            index,
            uuid: uuid.and_then(|one| one.uuid().map_err(|error| named(&error))),
            name: device.and_then(|one| one.name()).unwrap_or_default(),
        }
    };
    Ok((0..count).map(gpu).collect())
}

/// The UUIDs of [`host_gpus`]; of one that does not answer, its index with the error.
pub fn devices() -> Result<Vec<String>, QueryError> {
    let name = |gpu: HostGpu| match gpu.uuid {
        Ok(uuid) => uuid,
        Err(error) => format!("{} ({error})", gpu.index),
    };
    Ok(host_gpus()?.into_iter().map(name).collect())
}

/// The UUID that begins with this text, where it is the only one; else the text.
fn begun_by(library: &Library, begin: &str) -> String {
    let gpus = gpus_of(library).unwrap_or_default().into_iter();
    let mut found = gpus.filter_map(|gpu| gpu.uuid.ok()).filter(|uuid| uuid.starts_with(begin));
    match (found.next(), found.next()) {
        (Some(only), None) => only,
        _ => begin.to_owned(),
    }
}

/// The device of this UUID. Some drivers, as those of Jetson, find a device by its index alone.
fn device_of<'a>(library: &'a Library, uuid: &str) -> Result<Device<'a>, NvmlError> {
    let by_index = || {
        let mut devices = (0..library.device_count().ok()?).map(|at| library.device_by_index(at));
        devices.find_map(|one| one.ok().filter(|one| one.uuid().is_ok_and(|own| own == uuid)))
    };
    match library.device_by_uuid(uuid) {
        Err(error @ (NvmlError::NotFound | NvmlError::NotSupported)) => by_index().ok_or(error),
        found => found,
    }
}

impl Nvml {
    /// Loads NVML, from `library_dir` if given, and finds the device.
    pub fn open(library_dir: Option<&Path>, key: &DeviceKey) -> Result<Self, QueryError> {
        let (library_dir, key) = (library_dir.map(Path::to_owned), key.clone());
        let opened = move || Self::open_now(library_dir.as_deref(), &key);
        limited("starting NVML (nvmlInit_v2) and finding the device", opened)
            .map_err(QueryError::NoAnswer)?
    }

    fn open_now(library_dir: Option<&Path>, key: &DeviceKey) -> Result<Self, QueryError> {
        let path = library_dir.map(|dir| dir.join("libnvidia-ml.so.1"));
        let mut builder = Library::builder();
        if let Some(path) = &path {
            builder.lib_path(OsStr::new(path));
        }
        let library = builder.init().map_err(QueryError::of_start)?;
        let uuid = {
            let device = match key {
                DeviceKey::Index(index) => library.device_by_index(*index),
                DeviceKey::Uuid(uuid) => device_of(&library, &begun_by(&library, uuid)),
                DeviceKey::PciAddress(address) => library.device_by_pci_bus_id(address.as_str()),
            };
            let device = device.map_err(|source| match (library.device_count(), key) {
                (Ok(0), _) => QueryError::NoneListed,
                (_, DeviceKey::Index(index)) => {
                    QueryError::Device { which: index.to_string(), source }
                }
                (_, DeviceKey::Uuid(text) | DeviceKey::PciAddress(text)) => {
                    QueryError::Device { which: text.clone(), source }
                }
            })?;
            device.uuid().map_err(|source| QueryError::Fact { what: "UUID", source })?
        };
        let driver = Driver { library: Box::leak(Box::new(library)), uuid, at: Mutex::new("") };
        Ok(Self { driver: Arc::new(driver), hang: Mutex::new(None) })
    }

    /// The same for a fact that nothing depends on: a call that does not return ends no others.
    pub fn aside(&self) -> Self {
        Self { driver: Arc::clone(&self.driver), hang: Mutex::new(None) }
    }

    pub fn uuid(&self) -> &str {
        &self.driver.uuid
    }

    /// Asks the driver, with the limit of a query.
    pub fn ask<T: Send + 'static>(
        &self,
        doing: &str,
        call: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        self.ask_within(QUERY, doing, call)
    }

    /// Calls the driver. Once a call has not returned, none is made.
    pub fn ask_within<T: Send + 'static>(
        &self,
        limit: Duration,
        doing: &str,
        call: impl FnOnce(&Driver) -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let hang = || self.hang.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hang) = &*hang() {
            return Err(hang.clone());
        }
        let driver = Arc::clone(&self.driver);
        within(limit, doing, move || call(&driver)).map_err(|mut error| {
            let at = self.driver.at();
            if !at.is_empty() {
                error.doing = format!("{} ({at})", error.doing);
            }
            hang().get_or_insert(error).clone()
        })
    }
}

impl Driver {
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The library, for identity and proofs.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Names the part that a call is at, for the case that it never returns.
    pub(super) fn is_at(&self, part: &'static str) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = part;
    }

    fn at(&self) -> &'static str {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn device(&self) -> Result<Device<'static>, NvmlError> {
        device_of(self.library, &self.uuid)
    }

    /// The GPU: the parent of a MIG instance, which has its clocks, links, modes and health.
    pub fn whole(&self) -> Result<Device<'static>, NvmlError> {
        let device = self.device()?;
        if self.uuid.starts_with("MIG-") { device.mig_parent_device() } else { Ok(device) }
    }

    /// The size of its memory. A device that has the memory of its host reports none: then it is
    /// that of the host, and `true`.
    pub fn memory_bytes(&self) -> Result<(u64, bool), NvmlError> {
        let own = self.device()?.memory_info().map(|own| own.total);
        match own {
            Ok(0) | Err(NvmlError::NotSupported) => {
                let host = Meminfo::current().map_err(|_| NvmlError::NotSupported)?;
                Ok((host.mem_total, true))
            }
            own => Ok((own?, false)),
        }
    }

    /// Free memory of the whole device. A tenant may see less.
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.device().ok()?.memory_info().ok()?.free)
    }

    /// Processes with a compute context on the device.
    /// Fails when NVML does not list them, as inside some sandboxes.
    pub fn compute_pids(&self) -> Result<Vec<u32>, NvmlError> {
        let processes = self.compute_processes()?;
        Ok(processes.into_iter().map(|(pid, _)| pid).collect())
    }

    /// The same processes, each with its GPU instance where MIG divides the device.
    pub fn compute_processes(&self) -> Result<Vec<(u32, Option<u32>)>, NvmlError> {
        let processes = self.device()?.running_compute_processes()?;
        let with_instance = |process: ProcessInfo| (process.pid, process.gpu_instance_id);
        Ok(processes.into_iter().map(with_instance).collect())
    }

    /// Reasons for reduced clocks, as NVML's bit mask.
    pub fn throttle_reasons(&self) -> Result<u64, NvmlError> {
        Ok(self.whole()?.current_throttle_reasons()?.bits())
    }

    /// Peak bandwidth of the memory: two transfers a clock on every line of the bus, as in every
    /// memory since GDDR3 (the formula of NVIDIA's `deviceQuery` sample).
    pub fn memory_peak_bytes_per_s(&self) -> Result<f64, NvmlError> {
        let device = self.device()?;
        let clock_mhz = f64::from(device.max_clock_info(Clock::Memory)?);
        let bus_bits = f64::from(device.memory_bus_width()?);
        Ok(2.0 * clock_mhz * 1e6 * bus_bits / 8.0)
    }

    /// Peak single-precision rate: a multiply and an add on every core in every clock.
    pub fn fp32_peak_flops_per_s(&self) -> Result<f64, NvmlError> {
        let device = self.device()?;
        let clock_mhz = f64::from(device.max_clock_info(Clock::SM)?);
        Ok(2.0 * clock_mhz * 1e6 * f64::from(device.num_cores()?))
    }

    /// The peaks that NVML's maximal clocks and widths give, by name with unit.
    pub fn peaks(&self) -> BTreeMap<String, f64> {
        let peaks = [
            ("memory_bytes_per_s", self.memory_peak_bytes_per_s()),
            ("fp32_flops_per_s", self.fp32_peak_flops_per_s()),
        ];
        let known = peaks.into_iter().filter_map(|(name, peak)| Some((name, peak.ok()?)));
        known.map(|(name, peak)| (name.to_owned(), peak)).collect()
    }

    /// Generation and width of its link to the host now; `None` if NVML does not report them.
    pub fn pcie_link(&self) -> Option<[u32; 2]> {
        let device = self.whole().ok()?;
        Some([device.current_pcie_link_gen().ok()?, device.current_pcie_link_width().ok()?])
    }

    /// Domain, bus and device number of its PCI address; `None` if NVML does not report it.
    pub fn pci_address(&self) -> Option<(u32, u32, u32)> {
        let pci = self.whole().ok()?.pci_info().ok()?;
        Some((pci.domain, pci.bus, pci.device))
    }

    /// The recovery action that the GPU needs, by its number in nvml.h; 0 is none. `None` if NVML
    /// does not report it, as before driver 570; tallies count trials without it.
    pub fn recovery_action(&self) -> Option<u32> {
        let action = self.field(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)?;
        u32::try_from(action).ok()
    }

    /// The counts of error correction. A count that the device or the driver does not report is
    /// `None`; tallies count trials without one.
    pub fn ecc(&self) -> EccCounts {
        let errors = |kind, counter| {
            let device = self.device().ok()?;
            device.total_ecc_errors(kind, counter).ok()
        };
        EccCounts {
            corrected_volatile: errors(MemoryError::Corrected, EccCounter::Volatile),
            corrected_aggregate: errors(MemoryError::Corrected, EccCounter::Aggregate),
            uncorrected_volatile: errors(MemoryError::Uncorrected, EccCounter::Volatile),
            uncorrected_aggregate: errors(MemoryError::Uncorrected, EccCounter::Aggregate),
            rows_remapped_corrected: self.field(NVML_FI_DEV_REMAPPED_COR),
            rows_remapped_uncorrected: self.field(NVML_FI_DEV_REMAPPED_UNC),
            remap_pending: self.field(NVML_FI_DEV_REMAPPED_PENDING),
            remap_failed: self.field(NVML_FI_DEV_REMAPPED_FAILURE),
        }
    }

    /// The counts of memory errors since the driver was loaded. A count is absent where the device
    /// has no error correction.
    /// Fails when NVML fails for another reason.
    pub fn memory_errors(&self) -> Result<EccCounts, NvmlError> {
        let device = self.device()?;
        let count = |kind| match device.total_ecc_errors(kind, EccCounter::Volatile) {
            Err(NvmlError::NotSupported) => Ok(None),
            counted => counted.map(Some),
        };
        Ok(EccCounts {
            corrected_volatile: count(MemoryError::Corrected)?,
            uncorrected_volatile: count(MemoryError::Uncorrected)?,
            ..EccCounts::default()
        })
    }

    /// A count by its number in nvml.h; `None` if the device does not have it.
    fn field(&self, number: u32) -> Option<u64> {
        let device = self.whole().ok()?;
        let sample = device.field_values_for(&[FieldId(number)]).ok()?;
        match sample.into_iter().next()?.ok()?.value.ok()? {
            SampleValue::U32(value) => Some(u64::from(value)),
            SampleValue::I64(value) => u64::try_from(value).ok(),
            SampleValue::U64(value) => Some(value),
            SampleValue::F64(_) => None,
        }
    }
}
