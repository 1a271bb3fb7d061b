//! The target of a device handle: the device, or a MIG device of it.

use std::sync::Arc;

use super::Error;
use super::library::only_device;
use super::mig::handles::{Kind, row_of};
use crate::device::Device;
use crate::handles::Handle;

/// The handle of the only device: no address that a program could have by accident.
const DEVICE: usize = 0x6e76_6d6c_0010;

/// The target of a device handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The device.
    Whole,
    /// The compute instance in this row of the engines: a MIG device.
    Engine(u32),
}

/// The handle of the only device.
pub fn device_handle() -> Handle {
    DEVICE as Handle
}

/// The device and the target of a handle.
pub fn target(handle: Handle) -> Result<(Arc<Device>, Target), Error> {
    let device = only_device()?;
    if handle as usize == DEVICE {
        return Ok((device, Target::Whole));
    }
    let row = device.shared().read(|state| row_of(state, Kind::Device, handle))?;
    Ok((device, Target::Engine(row.ok_or(Error::InvalidArgument)?)))
}

/// The device behind a handle that must stand for the whole of it. A MIG device has no clock, no
/// power meter, no link and no utilisation of its own.
pub fn device(handle: Handle) -> Result<Arc<Device>, Error> {
    match target(handle)? {
        (device, Target::Whole) => Ok(device),
        (_, Target::Engine(_)) => Err(Error::NotSupported),
    }
}
