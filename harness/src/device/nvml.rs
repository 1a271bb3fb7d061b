//! What the coordinator asks NVML: which device, who is on it, and the counters.
//!
//! A counter that the device does not have is absent; it is never zero.

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

/// NVML, with the device under test chosen.
#[derive(Debug)]
pub struct Nvml {
    library: Library,
    uuid: String,
}

/// Which device is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// By index.
    Index(u32),
    /// By UUID.
    Uuid(String),
}

/// NVML cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The library is not there or does not start.
    #[error("NVML cannot be loaded: {0}")]
    Load(NvmlError),
    /// The device is not there.
    #[error("no device {which}: {source}")]
    Device {
        /// What was asked for.
        which: String,
        /// What NVML said.
        source: NvmlError,
    },
    /// The driver is there and has no device to offer.
    #[error("the driver lists no device")]
    NoneListed,
    /// A question without which nothing can be told of the device.
    #[error("NVML does not tell the {what}: {source}")]
    Fact {
        /// What was asked.
        what: &'static str,
        /// What NVML said.
        source: NvmlError,
    },
}

/// The devices that the driver of this host lists, at least one, in the order of their index: by
/// UUID, or by what keeps NVML from telling it.
///
/// # Errors
/// When there is no driver, or it has no device.
pub fn devices() -> Result<Vec<String>, AskError> {
    let library = Library::init().map_err(AskError::Load)?;
    let count = library.device_count().map_err(|source| AskError::Fact {
        what: "number of devices",
        source,
    })?;
    if count == 0 {
        return Err(AskError::NoneListed);
    }
    // One device that is lost must not keep the others from being used.
    let name = |index| match library.device_by_index(index).and_then(|d| d.uuid()) {
        Ok(uuid) => uuid,
        Err(error) => format!("{index} ({error})"),
    };
    Ok((0..count).map(name).collect())
}

impl Nvml {
    /// Loads NVML, from `library_dir` if given, and finds the device.
    ///
    /// # Errors
    /// When either is not there.
    pub fn open(library_dir: Option<&Path>, which: &Which) -> Result<Self, AskError> {
        let path = library_dir.map(|dir| dir.join("libnvidia-ml.so.1"));
        let mut builder = Library::builder();
        if let Some(path) = &path {
            builder.lib_path(OsStr::new(path));
        }
        let library = builder.init().map_err(AskError::Load)?;
        let uuid = {
            let device = match which {
                Which::Index(index) => library.device_by_index(*index),
                Which::Uuid(uuid) => library.device_by_uuid(uuid.as_str()),
            };
            let device = device.map_err(|source| AskError::Device {
                which: match which {
                    Which::Index(index) => index.to_string(),
                    Which::Uuid(uuid) => uuid.clone(),
                },
                source,
            })?;
            device.uuid().map_err(|source| AskError::Fact {
                what: "UUID",
                source,
            })?
        };
        Ok(Self { library, uuid })
    }

    /// UUID of the device.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The library, for identity and proofs.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The device.
    ///
    /// # Errors
    /// When it is gone.
    pub fn device(&self) -> Result<nvml_wrapper::Device<'_>, NvmlError> {
        self.library.device_by_uuid(self.uuid.as_str())
    }

    /// Free memory of the whole device, which a tenant may not be shown.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        Some(self.device().ok()?.memory_info().ok()?.free)
    }

    /// Processes with a compute context on the device.
    ///
    /// # Errors
    /// When NVML does not tell, as inside some sandboxes.
    pub fn compute_pids(&self) -> Result<Vec<u32>, NvmlError> {
        let places = self.compute_places()?;
        Ok(places.into_iter().map(|(pid, _)| pid).collect())
    }

    /// The same processes, each with the GPU instance that it is in, where the device is cut up.
    ///
    /// # Errors
    /// When NVML does not tell.
    pub fn compute_places(&self) -> Result<Vec<(u32, Option<u32>)>, NvmlError> {
        let processes = self.device()?.running_compute_processes()?;
        let place = |process: ProcessInfo| (process.pid, process.gpu_instance_id);
        Ok(processes.into_iter().map(place).collect())
    }

    /// Reasons for reduced clocks, as NVML's bit mask.
    ///
    /// # Errors
    /// When NVML does not tell.
    pub fn throttle_reasons(&self) -> Result<u64, NvmlError> {
        Ok(self.device()?.current_throttle_reasons()?.bits())
    }

    /// The most that the memory's pins can move: two transfers a clock on every line of the bus, as
    /// on every memory since GDDR3 (the formula of NVIDIA's `deviceQuery` sample).
    ///
    /// # Errors
    /// When NVML does not tell clock or width.
    pub fn memory_peak_bytes_per_s(&self) -> Result<f64, NvmlError> {
        let device = self.device()?;
        let clock_mhz = f64::from(device.max_clock_info(Clock::Memory)?);
        let bus_bits = f64::from(device.memory_bus_width()?);
        Ok(2.0 * clock_mhz * 1e6 * bus_bits / 8.0)
    }

    /// The most single-precision operations: a multiply and an add on every core, every clock.
    ///
    /// # Errors
    /// When NVML does not tell clock or cores.
    pub fn fp32_peak_flops_per_s(&self) -> Result<f64, NvmlError> {
        let device = self.device()?;
        let clock_mhz = f64::from(device.max_clock_info(Clock::SM)?);
        Ok(2.0 * clock_mhz * 1e6 * f64::from(device.num_cores()?))
    }

    /// Domain, bus and device number of its place on PCI; absent where NVML does not tell.
    #[must_use]
    pub fn pci_address(&self) -> Option<(u32, u32, u32)> {
        let pci = self.device().ok()?.pci_info().ok()?;
        Some((pci.domain, pci.bus, pci.device))
    }

    /// What must be done to the GPU before it can be relied upon again; 0 is nothing. Absent where
    /// NVML does not say, as before driver 570.
    #[must_use]
    pub fn recovery_action(&self) -> Option<u32> {
        let action = self.field(NVML_FI_DEV_GET_GPU_RECOVERY_ACTION)?;
        u32::try_from(action).ok()
    }

    /// What error correction has counted. A device that has none, or a driver that does not tell,
    /// has no count; no zero stands in for it.
    #[must_use]
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

    /// A count by its number in nvml.h; none where the device does not have it.
    fn field(&self, number: u32) -> Option<u64> {
        let device = self.device().ok()?;
        let sample = device.field_values_for(&[FieldId(number)]).ok()?;
        match sample.into_iter().next()?.ok()?.value.ok()? {
            SampleValue::U32(value) => Some(u64::from(value)),
            SampleValue::I64(value) => u64::try_from(value).ok(),
            SampleValue::U64(value) => Some(value),
            SampleValue::F64(_) => None,
        }
    }
}
