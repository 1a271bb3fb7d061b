//! Green contexts: an equal partition of the SMs for the streams of one thread of this process.
#![expect(unsafe_code, reason = "calls libcuda")]

use std::ffi::c_uint;

use super::api::Handle;
use super::context::{Context, Kind, WaitMode};
use super::device::Device;
use super::error::DriverError;
use super::layout::DevResource;

/// `CU_DEV_RESOURCE_TYPE_SM` and `CU_GREEN_CTX_DEFAULT_STREAM` of cuda.h.
const TYPE_SM: c_uint = 1;
const DEFAULT_STREAM: c_uint = 1;

impl Context {
    /// The green context number `index` of `count` equal partitions of the SMs. All partitions
    /// share the primary context, with its address space and flags; a remainder of SMs stays
    /// unused.
    pub fn green(
        device: &Device,
        wait: WaitMode,
        index: u32,
        count: u32,
    ) -> Result<Self, DriverError> {
        let api = &device.driver.api;
        // SAFETY: plain numbers.
        unsafe { api.primary_ctx_set_flags(device.handle, wait as c_uint) }?;
        let mut whole = DevResource::EMPTY;
        // SAFETY: writes one resource.
        unsafe { api.device_get_dev_resource(device.handle, &raw mut whole, TYPE_SM) }?;
        let min_sms = whole.sm_count / count.max(1);
        let mut partitions = vec![DevResource::EMPTY; count.max(1) as usize];
        // The hardware splits in steps, so fewer partitions of the equal size may fit.
        let made = split(device, &whole, &mut partitions, min_sms)?;
        if made < count {
            // One step smaller: a step is 8 SMs at most (CUDA driver API, "Green Contexts").
            split(device, &whole, &mut partitions, min_sms.saturating_sub(7).max(1))?;
        }
        let Some(partition) = partitions.get_mut(index as usize) else {
            return Err(DriverError::from_code("cuDevSmResourceSplitByCount", 1));
        };
        let mut descriptor: Handle = std::ptr::null_mut();
        let mut green: Handle = std::ptr::null_mut();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: reads one resource that the driver wrote, writes one handle each.
        unsafe {
            api.dev_resource_generate_desc(&raw mut descriptor, partition, 1)?;
            api.green_ctx_create(&raw mut green, descriptor, device.handle, DEFAULT_STREAM)?;
            api.ctx_from_green_ctx(&raw mut handle, green)?;
        }
        Self::adopt(device, handle, Kind::Green(green))
    }
}

/// Splits SMs into partitions of at least `min_sms` SMs; returns their number.
fn split(
    device: &Device,
    whole: &DevResource,
    partitions: &mut [DevResource],
    min_sms: u32,
) -> Result<u32, DriverError> {
    let mut made = c_uint::try_from(partitions.len()).unwrap_or(c_uint::MAX);
    let mut rest = DevResource::EMPTY;
    // SAFETY: the array has room for the requested number of resources.
    unsafe {
        device.driver.api.dev_sm_resource_split(
            partitions.as_mut_ptr(),
            &raw mut made,
            whole,
            &raw mut rest,
            0,
            min_sms,
        )
    }?;
    Ok(made)
}
