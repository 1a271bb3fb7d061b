//! The thin layer over libcuda: numbers stay numbers, nothing panics, every release is counted.
//!
//! cudarc finds and loads the library. Calls use our own table, because cudarc's result type is a
//! Rust enum and a driver may return other numbers. Missing on purpose: retries, caching, pools,
//! hidden synchronisation (except before pinned memory is released), and any interpretation of
//! errors.
#![expect(unsafe_code, reason = "loads libcuda and calls it")]

mod api;
mod context;
mod device;
pub mod error;
mod function;
mod green;
mod layout;
mod lookup;
mod memory;
mod other_memory;
mod stream;

use std::ffi::c_void;
use std::sync::OnceLock;

use cudarc::driver::sys;

use api::Api;
pub use context::{Context, Limit, MemInfo, WaitMode};
pub use device::Module;
pub use device::{Attribute, Device, DeviceProps, Uuid};
pub use error::is_sticky;
pub use error::{DriverError, DropErrors, drop_errors};
pub use function::{Args, Grid};
pub use function::{FuncAttribute, Function};
pub use green::largest_equal;
pub use layout::IpcHandle;
pub use lookup::{LOOKUP_ENV, Lookup};
pub use memory::PinnedBuffer;
pub use memory::RegisteredBuffer;
pub use memory::{DeviceBuffer, DevicePtr, Pod};
pub use other_memory::IpcMapping;
pub use other_memory::{AllocKind, OtherMemory};
pub use stream::Graph;
pub use stream::Stream;
pub use stream::{Event, EventKind};

/// The oldest CUDA version of a driver whose JIT compiler takes the kernels, which are PTX 7.8:
/// 11.8 (PTX ISA, "Release History"), of drivers from 520 on (CUDA release notes).
const CUDA_MIN: i32 = 11_080;

#[derive(Debug)]
pub struct Driver {
    api: Api,
}

impl Driver {
    /// Loads libcuda and initialises it.
    ///
    /// The library is loaded once. `cuInit` is called every time (it is free after a success), so
    /// that a caller can try again while an MPS server starts.
    pub fn load() -> Result<&'static Self, DriverError> {
        static DRIVER: OnceLock<Result<Driver, DriverError>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Self::open).as_ref().map_err(Clone::clone)?;
        // SAFETY: no pointers; zero is the only flag there is.
        unsafe { driver.api.init(0) }?;
        match driver.cuda_version()? {
            found if found < CUDA_MIN => Err(DriverError::TooOld { found }),
            _ => Ok(driver),
        }
    }

    fn open() -> Result<Self, DriverError> {
        // SAFETY: opens libcuda by name, which runs its initialisers. This comes first because
        // `culib` panics without a library.
        if !unsafe { sys::is_culib_present() } {
            return Err(DriverError::NoLibrary);
        }
        if let Some(lookup) = Lookup::requested()? {
            let find = lookup.finder()?;
            return Ok(Self { api: Api::fill(|symbol| find.address(symbol))? });
        }
        // SAFETY: as above, and the library was just found.
        let library = unsafe { sys::culib() };
        let api = Api::fill(|symbol| {
            let name = format!("{symbol}\0");
            // SAFETY: the symbol is used as a plain address; `Api` gives it its type.
            match unsafe { library.get::<*const c_void>(name.as_bytes()) } {
                Ok(address) => *address,
                Err(_) => std::ptr::null(),
            }
        })?;
        Ok(Self { api })
    }

    /// The CUDA version of the driver, as cuda.h writes it (12090 is 12.9).
    pub fn cuda_version(&self) -> Result<i32, DriverError> {
        let mut version = 0;
        // SAFETY: writes one int.
        unsafe { self.api.driver_get_version(&raw mut version) }?;
        Ok(version)
    }

    /// Number of devices visible to this process.
    pub fn device_count(&self) -> Result<i32, DriverError> {
        let mut count = 0;
        // SAFETY: writes one int.
        unsafe { self.api.device_get_count(&raw mut count) }?;
        Ok(count)
    }

    /// The device with that number among those visible to this process.
    pub fn device(&'static self, ordinal: i32) -> Result<Device, DriverError> {
        Device::new(self, ordinal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loading_never_panics_and_agrees_with_the_loader() {
        // SAFETY: opens libcuda by name.
        let present = unsafe { sys::is_culib_present() };
        match Driver::load() {
            Err(DriverError::NoLibrary) => assert!(!present),
            Err(DriverError::MissingSymbol { .. } | DriverError::Call { .. }) => assert!(present),
            Err(other) => panic!("not an answer of loading: {other}"),
            Ok(driver) => {
                assert!(present);
                assert!(driver.cuda_version().is_ok());
            }
        }
    }
}
