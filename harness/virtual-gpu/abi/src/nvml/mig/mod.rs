//! MIG: the mode, profiles, instances, and MIG devices.
//!
//! A GPU instance has memory of its own, a compute instance has SMs of its own within one, and a
//! MIG device is a compute instance as programs see it. A handle carries the row in the shared
//! state and the instance's generation, so every process refuses the handle of a destroyed
//! instance.

mod compute;
mod device;
mod gpu;
mod instances;
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

pub(super) use device::{ids, index, name as device_name};

pub use instances::InstanceHandle;
pub(super) use instances::{Kind, handle, privileged, row_of};
use instances::{enabled, instance, supported, take_time};
