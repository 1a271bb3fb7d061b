//! One device as the driver describes it: identity, attributes, and the properties that size loads.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

use super::api::{Api, Handle};
use super::context::Context;
use super::error::DriverError;
use super::{Driver, error};

/// A device of this process; copying it costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct Device {
    pub(super) driver: &'static Driver,
    pub(super) handle: c_int,
}

/// Attributes in use, with their numbers in cuda.h (`CUdevice_attribute`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names are those of cuda.h")]
pub enum Attribute {
    MaxThreadsPerBlock = 1,
    MaxSharedMemoryPerBlock = 8,
    WarpSize = 10,
    ClockRateKhz = 13,
    MultiprocessorCount = 16,
    KernelExecTimeout = 17,
    Integrated = 18,
    ComputeMode = 20,
    EccEnabled = 32,
    MemoryClockRateKhz = 36,
    GlobalMemoryBusWidthBits = 37,
    L2CacheBytes = 38,
    MaxThreadsPerMultiprocessor = 39,
    AsyncEngineCount = 40,
    ComputeCapabilityMajor = 75,
    ComputeCapabilityMinor = 76,
    MaxSharedMemoryPerMultiprocessor = 81,
    ManagedMemory = 83,
    SingleToDoubleRatio = 87,
    ComputePreemption = 90,
    CooperativeLaunch = 95,
    MaxSharedMemoryPerBlockOptin = 97,
    VirtualMemoryManagement = 102,
    MaxBlocksPerMultiprocessor = 106,
    MemoryPools = 115,
    MpsEnabled = 133,
}

/// A device identity; on a MIG slice that of the slice where the driver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// Lowercase hexadecimal in groups of 8-4-4-4-12, as `nvidia-smi -L` prints it after `GPU-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The properties that size every load, all read from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceProps {
    /// Streaming multiprocessors that this process may use.
    pub sm_count: u32,
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub total_bytes: u64,
    /// Whether that is the memory of the host.
    pub integrated: bool,
    pub threads_per_sm: u32,
    pub blocks_per_sm: u32,
    pub threads_per_block: u32,
    pub warp_threads: u32,
    /// Bytes of shared memory of one SM.
    pub shared_per_sm_bytes: u32,
    /// Bytes of shared memory that one block may use.
    pub shared_per_block_bytes: u32,
    pub compute_capability: (u32, u32),
    pub copy_engines: u32,
    /// Highest clock of the SMs; 0 where the driver does not report it.
    pub sm_clock_khz: u32,
    /// Highest clock of the memory; 0 where the driver does not report it.
    pub memory_clock_khz: u32,
    /// Lines of the memory bus of the whole device; 0 where the driver does not report it.
    pub memory_bus_bits: u32,
}

impl Device {
    pub(super) fn new(driver: &'static Driver, ordinal: i32) -> Result<Self, DriverError> {
        let mut handle = 0;
        // SAFETY: writes one int.
        unsafe { driver.api.device_get(&raw mut handle, ordinal) }?;
        Ok(Self { driver, handle })
    }

    pub fn name(&self) -> Result<String, DriverError> {
        let mut text = [0 as c_char; 256];
        // SAFETY: writes at most 256 bytes, NUL included.
        unsafe { self.driver.api.device_get_name(text.as_mut_ptr(), 256, self.handle) }?;
        Ok(text_of(text))
    }

    /// The PCI address, `domain:bus:device.function`.
    pub fn pci_bus_id(&self) -> Result<String, DriverError> {
        let mut text = [0 as c_char; 256];
        // SAFETY: writes at most 256 bytes, NUL included.
        unsafe { self.driver.api.device_get_pci_bus_id(text.as_mut_ptr(), 256, self.handle) }?;
        Ok(text_of(text))
    }

    /// The identity: that of the slice under MIG where the driver has the newer call.
    pub fn uuid(&self) -> Result<Uuid, DriverError> {
        let mut bytes = [0_u8; 16];
        // SAFETY: writes 16 bytes.
        match unsafe { self.driver.api.device_get_uuid_v2(&raw mut bytes, self.handle) } {
            Err(DriverError::MissingSymbol { .. }) => {
                // SAFETY: writes 16 bytes.
                unsafe { self.driver.api.device_get_uuid(&raw mut bytes, self.handle) }?;
            }
            answer => answer?,
        }
        Ok(Uuid(bytes))
    }

    /// Bytes of device memory.
    pub fn total_bytes(&self) -> Result<u64, DriverError> {
        let mut bytes = 0_usize;
        // SAFETY: writes one size.
        unsafe { self.driver.api.device_total_mem(&raw mut bytes, self.handle) }?;
        Ok(bytes as u64)
    }

    pub fn attribute(&self, attribute: Attribute) -> Result<i32, DriverError> {
        let mut value = 0;
        // SAFETY: writes one int; the driver refuses an unknown attribute.
        unsafe {
            self.driver.api.device_get_attribute(&raw mut value, attribute as c_int, self.handle)
        }?;
        Ok(value)
    }

    /// The properties that size loads.
    pub fn props(&self) -> Result<DeviceProps, DriverError> {
        let read = |attribute| self.attribute(attribute).map(i32::unsigned_abs);
        let major = read(Attribute::ComputeCapabilityMajor)?;
        Ok(DeviceProps {
            sm_count: read(Attribute::MultiprocessorCount)?,
            l2_bytes: u64::from(read(Attribute::L2CacheBytes)?),
            total_bytes: self.total_bytes()?,
            integrated: read(Attribute::Integrated)? != 0,
            threads_per_sm: read(Attribute::MaxThreadsPerMultiprocessor)?,
            blocks_per_sm: read(Attribute::MaxBlocksPerMultiprocessor)?,
            threads_per_block: read(Attribute::MaxThreadsPerBlock)?,
            warp_threads: read(Attribute::WarpSize)?,
            shared_per_sm_bytes: read(Attribute::MaxSharedMemoryPerMultiprocessor)?,
            shared_per_block_bytes: read(Attribute::MaxSharedMemoryPerBlockOptin)?,
            compute_capability: (major, read(Attribute::ComputeCapabilityMinor)?),
            copy_engines: read(Attribute::AsyncEngineCount)?,
            sm_clock_khz: read(Attribute::ClockRateKhz)?,
            memory_clock_khz: read(Attribute::MemoryClockRateKhz)?,
            memory_bus_bits: read(Attribute::GlobalMemoryBusWidthBits)?,
        })
    }
}

/// The text up to its NUL; the last byte is forced to NUL.
fn text_of(mut text: [c_char; 256]) -> String {
    text[255] = 0;
    // SAFETY: the array outlives the call and its last byte is NUL.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

// Modules from PTX text.

/// Bytes for each log of the JIT compiler.
const LOG_BYTES: usize = 8 * 1024;

/// Options of `cuModuleLoadDataEx` (`CUjit_option` of cuda.h).
const INFO_LOG: c_int = 3;
const INFO_LOG_BYTES: c_int = 4;
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

#[derive(Debug)]
pub(super) struct Inner {
    context: Context,
    pub(super) handle: Handle,
    pub(super) name: String,
    pub(super) ptx: String,
    jit_log: String,
}

// SAFETY: any thread may use module and function handles (CUDA driver API, "Thread safety"); the
// rest is plain data.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A module loaded into a context; clones share it.
#[derive(Debug, Clone)]
pub struct Module(pub(super) Arc<Inner>);

impl Module {
    /// Compiles and loads PTX text; `name` appears in errors only.
    pub fn load(context: &Context, name: &str, ptx: &str) -> Result<Self, DriverError> {
        let text = CString::new(ptx).map_err(|_| DriverError::NulByte { what: "the PTX" })?;
        let mut info = vec![0_u8; LOG_BYTES];
        let mut errors = vec![0_u8; LOG_BYTES];
        let mut options = [INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES];
        // One byte is reserved, so that a NUL always ends the log.
        let size = std::ptr::without_provenance_mut::<c_void>(LOG_BYTES - 1);
        let mut values = [info.as_mut_ptr().cast(), size, errors.as_mut_ptr().cast(), size];
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: four options with four values of the kinds that cuda.h names; the text ends in
        // NUL; the logs outlive the call.
        let outcome = unsafe {
            context.api().module_load_data_ex(
                &raw mut handle,
                text.as_ptr().cast(),
                4,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match outcome {
            Ok(()) => Ok(Self(Arc::new(Inner {
                context: context.clone(),
                handle,
                name: name.to_owned(),
                ptx: ptx.to_owned(),
                jit_log: log_text(&info),
            }))),
            Err(DriverError::Call { code, .. }) => Err(DriverError::Module {
                module: name.to_owned(),
                code,
                name: error::name(code),
                log: Some(log_text(&errors)).filter(|l| !l.is_empty()).unwrap_or("no log".into()),
            }),
            Err(other) => Err(other),
        }
    }

    /// The log of the JIT compiler on one line; often empty.
    pub fn jit_log(&self) -> &str {
        &self.0.jit_log
    }

    pub(super) fn api(&self) -> &'static Api {
        self.0.context.api()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: loaded by this object, released once; functions hold the module alive.
        self.context.release(|api| unsafe { api.module_unload(self.handle) });
    }
}

/// The text of a log up to its NUL, lines joined.
fn log_text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_prints_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|at| u8::try_from(at * 17).unwrap_or(0));
        assert_eq!(Uuid(bytes).to_string(), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn a_name_without_nul_is_cut_and_not_overrun() {
        assert_eq!(text_of([b'x' as c_char; 256]).len(), 255);
        assert_eq!(text_of([0; 256]), "");
    }

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(log_text(b"ptxas error\n  line 2\n\n\0junk"), "ptxas error; line 2");
        assert_eq!(log_text(b"\0"), "");
        assert_eq!(log_text(b"no end"), "");
    }
}
