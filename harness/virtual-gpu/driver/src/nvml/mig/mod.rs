//! MIG: the mode, profiles, instances, and MIG devices.
//!
//! A GPU instance has memory of its own, a compute instance has SMs of its own within one, and a
//! MIG device is a compute instance as programs see it.

pub mod compute;
pub mod device;
pub mod gpu;
pub mod handles;
pub mod mode;
pub mod profile;
pub mod slice;

pub use handles::{Instance, Kind, instance};
pub(super) use mode::{check_undivided, is_divided};

/// Where an instance lies in the device or in the GPU instance.
#[derive(Debug, Clone, Copy)]
pub struct Placement {
    pub start: u32,
    pub size: u32,
}
