//! The interface of the virtual clock, which a tenant's `clock` looks up in the loaded libcuda.

use std::sync::Arc;

use gpubench_virtual_gpu_driver::device::{Device, DeviceError};
use gpubench_virtual_gpu_driver::diagnostics::say;
use gpubench_virtual_gpu_driver::process::device;

const VERSION: i32 = 1;

fn with(body: impl FnOnce(&Device) -> Result<(), DeviceError>) -> i32 {
    let run = || -> i32 {
        let device: Arc<Device> = match device() {
            Ok(device) => device,
            Err(_) => return -libc::ENODEV,
        };
        match body(&device) {
            Ok(()) => 0,
            Err(error) => {
                say(&error.to_string());
                match error {
                    DeviceError::Stalled(_) => -libc::ETIMEDOUT,
                    DeviceError::NotJoined(_) | DeviceError::NotExpected(_) => -libc::EPERM,
                    _ => -libc::EIO,
                }
            }
        }
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(-libc::EIO)
}

/// Version of the interface, or 0 when this device runs on the wall clock.
#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_version() -> i32 {
    match device() {
        Ok(device) if device.is_virtual_time() => VERSION,
        _ => 0,
    }
}

/// Makes the calling thread participant `id`, which its creator has announced.
#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_join(id: u32) -> i32 {
    with(|device| device.join(id))
}

#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_leave() -> i32 {
    with(Device::leave)
}

/// The time, in nanoseconds since the device was started.
#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_now() -> u64 {
    device().map_or(0, |device| device.now_ns())
}

#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_sleep_until(t_ns: u64) -> i32 {
    with(|device| device.sleep_until(t_ns))
}

/// Waits for an unpark; returns at once if one came before.
#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_park() -> i32 {
    with(Device::park)
}

/// Ends the park of participant `id`.
#[unsafe(no_mangle)]
pub extern "C" fn gpubench_vt_unpark(id: u32) -> i32 {
    with(|device| device.unpark(id))
}
