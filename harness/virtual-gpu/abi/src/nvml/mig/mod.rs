//! MIG: the mode, the sizes that instances can have, the instances, and the devices that they are
//! to programs.
//!
//! A GPU instance is memory of its own, a compute instance is SMs of its own within one, and a MIG
//! device is a compute instance as programs see it. Handles carry the row of the shared state and
//! the instance's generation, so that one that is destroyed is noticed by every process.

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
