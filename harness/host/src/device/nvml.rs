//! The coordinator's queries to NVML: the device, its processes and its counters.
//!
//! A counter that the device does not have is absent and never 0.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use gpubench_record::EccCounts;
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_FAILURE,
    NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC,
};
use procfs::{Current, Meminfo};

use super::blocking::{NoAnswer, limited};

/// NVML, and the device under test.
#[derive(Debug)]
pub struct Nvml {
    library: Library,
    uuid: String,
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
    /// NVML does not report a fact that is required.
    #[error("NVML does not report the {what}: {}", words(source))]
    Fact { what: &'static str, source: NvmlError },
    #[error(transparent)]
    NoAnswer(NoAnswer),
}

/// An error of the driver by its name in nvml.h, with its usual causes and the command that shows
/// which it is.
fn words(error: &NvmlError) -> String {
    let (name, causes) = match error {
        NvmlError::LibRmVersionMismatch => (
            "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            "library and kernel module have different versions, as after an update or in a \
             container with another library; cat /proc/driver/nvidia/version, then reboot",
        ),
        NvmlError::Unknown => (
            "NVML_ERROR_UNKNOWN",
            "a container that lost its devices (systemctl daemon-reload on the host; start it \
             again), or a GPU that failed (dmesg | grep -i -e nvrm -e xid)",
        ),
        NvmlError::NoPermission => (
            "NVML_ERROR_NO_PERMISSION",
            "this user or container may not open the devices; ls -l /dev/nvidia*",
        ),
        NvmlError::DriverNotLoaded => (
            "NVML_ERROR_DRIVER_NOT_LOADED",
            "the kernel module is not loaded; lsmod | grep nvidia, modprobe nvidia, dmesg",
        ),
        NvmlError::GpuLost => {
            ("NVML_ERROR_GPU_IS_LOST", "the GPU fell off the bus; dmesg | grep -i xid, then reboot")
        }
        NvmlError::ResetRequired => (
            "NVML_ERROR_RESET_REQUIRED",
            "the GPU needs a reset; nvidia-smi --gpu-reset, else reboot",
        ),
        NvmlError::OperatingSystem => (
            "NVML_ERROR_OPERATING_SYSTEM",
            "the system or a control group refuses the device; start the container with its GPU, \
             and under WSL nvidia-smi must work first",
        ),
        NvmlError::NotFound => {
            ("NVML_ERROR_NOT_FOUND", "NVML has nothing of this name; nvidia-smi -L")
        }
        other => return other.to_string(),
    };
    format!("{error} ({name}): {causes}")
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
        let uuid = device.as_ref().map_err(ToString::to_string);
        HostGpu {
            index,
            uuid: uuid.and_then(|one| one.uuid().map_err(|error| error.to_string())),
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
                DeviceKey::Uuid(uuid) => library.device_by_uuid(begun_by(&library, uuid)),
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
        Ok(Self { library, uuid })
    }

    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The library, for identity and proofs.
    pub fn library(&self) -> &Library {
        &self.library
    }

    pub fn device(&self) -> Result<nvml_wrapper::Device<'_>, NvmlError> {
        self.library.device_by_uuid(self.uuid.as_str())
    }

    /// The GPU: the parent of a MIG instance, which has its clocks, links, modes and health.
    pub fn whole(&self) -> Result<nvml_wrapper::Device<'_>, NvmlError> {
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
