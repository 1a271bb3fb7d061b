//! The target of a device handle: the device, or a MIG device of it.

use std::sync::Arc;

use super::DeviceHandle;
use super::library::{DEVICE, only_device};
use super::mig::{Kind, row_of};
use super::returns::{self, Return};
use gpubench_virtual_gpu_driver::device::Device;

/// The target of a device handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The device.
    Whole,
    /// The compute instance in this row of the engines: a MIG device.
    Engine(u32),
}

/// The device and the target of a handle.
pub(super) fn target(handle: DeviceHandle) -> Result<(Arc<Device>, Target), Return> {
    let device = only_device()?;
    if handle as usize == DEVICE {
        return Ok((device, Target::Whole));
    }
    let row = device
        .shared()
        .read(|state| row_of(state, Kind::Device, handle))?;
    Ok((
        device,
        Target::Engine(row.ok_or(returns::INVALID_ARGUMENT)?),
    ))
}

/// The device behind a handle that must stand for the whole of it. A MIG device has no clock, no
/// power meter, no link and no utilisation of its own.
pub(super) fn device(handle: DeviceHandle) -> Result<Arc<Device>, Return> {
    match target(handle)? {
        (device, Target::Whole) => Ok(device),
        (_, Target::Engine(_)) => Err(returns::NOT_SUPPORTED),
    }
}
