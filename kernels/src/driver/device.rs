//! One device as the driver describes it: identity, attributes, and the properties that size loads.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::{CStr, c_char, c_int};
use std::fmt;

use super::Driver;
use super::error::DriverError;

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
    /// Bytes of L2.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub total_bytes: u64,
    /// Resident threads of one SM.
    pub threads_per_sm: u32,
    /// Resident blocks of one SM.
    pub blocks_per_sm: u32,
    /// Threads of the largest block.
    pub threads_per_block: u32,
    pub warp_threads: u32,
    /// Bytes of shared memory of one SM.
    pub shared_per_sm_bytes: u32,
    /// Bytes of shared memory that one block may use.
    pub shared_per_block_bytes: u32,
    /// Compute capability, major and minor.
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

    /// The marketing name.
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
}
