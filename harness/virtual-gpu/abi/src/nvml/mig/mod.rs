//! MIG: the mode, profiles, instances, and MIG devices.

mod compute;
mod device;
mod gpu;
mod mode;
mod profile;
mod slice;
pub mod types;

/// Every entry point by its exported name.
pub mod calls {
    pub use super::compute::*;
    pub use super::device::*;
    pub use super::gpu::*;
    pub use super::mode::*;
    pub use super::profile::*;
    pub use super::slice::*;
}

pub use types::InstanceHandle;
