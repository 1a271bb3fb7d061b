//! Green contexts: an even part of the SMs for the streams of one thread of this process.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::c_uint;

use super::api::Handle;
use super::context::{Context, Kind};
use super::device::Device;
use super::error::DriverError;
use super::layout::DevResource;

/// `CU_DEV_RESOURCE_TYPE_SM` and `CU_GREEN_CTX_DEFAULT_STREAM` of cuda.h.
const TYPE_SM: c_uint = 1;
const DEFAULT_STREAM: c_uint = 1;

impl Context {
    /// The green context in one of `places` even parts of the SMs. All parts live in the primary
    /// context's address space; SMs that cannot be divided evenly stay unused.
    pub fn green(device: &Device, place: u32, places: u32) -> Result<Self, DriverError> {
        let api = &device.driver.api;
        let mut whole = DevResource::EMPTY;
        // SAFETY: writes one resource.
        unsafe { api.device_get_dev_resource(device.handle, &raw mut whole, TYPE_SM) }?;
        let least = whole.sm_count / places.max(1);
        let mut parts = vec![DevResource::EMPTY; places.max(1) as usize];
        // The chip divides in steps, so that as many parts of the even size may not fit.
        let made = split(device, &whole, &mut parts, least)?;
        if made < places {
            // One step less: the steps are 8 SMs at most (CUDA driver API, "Green Contexts").
            split(device, &whole, &mut parts, least.saturating_sub(7).max(1))?;
        }
        let Some(part) = parts.get_mut(place as usize) else {
            return Err(DriverError::from_code("cuDevSmResourceSplitByCount", 1));
        };
        let mut descriptor: Handle = std::ptr::null_mut();
        let mut green: Handle = std::ptr::null_mut();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: reads one resource that the driver wrote, writes one handle each.
        unsafe {
            api.dev_resource_generate_desc(&raw mut descriptor, part, 1)?;
            api.green_ctx_create(&raw mut green, descriptor, device.handle, DEFAULT_STREAM)?;
            api.ctx_from_green_ctx(&raw mut handle, green)?;
        }
        Self::adopt(device, handle, Kind::Green(green))
    }
}

/// Divides SMs into parts of at least so many; says how many there are.
fn split(
    device: &Device,
    whole: &DevResource,
    parts: &mut [DevResource],
    least: u32,
) -> Result<u32, DriverError> {
    let mut made = c_uint::try_from(parts.len()).unwrap_or(c_uint::MAX);
    let mut rest = DevResource::EMPTY;
    // SAFETY: the array has room for as many resources as are asked for.
    unsafe {
        device.driver.api.dev_sm_resource_split(
            parts.as_mut_ptr(),
            &raw mut made,
            whole,
            &raw mut rest,
            0,
            least,
        )
    }?;
    Ok(made)
}
