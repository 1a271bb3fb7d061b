//! Green contexts: an equal partition of the SMs for the streams of one thread of this process.
//!
//! Sizes of partitions (CUDA driver API, "Green Contexts", `cuDevSmResourceSplitByCount`): at least
//! 1 SM on compute capability 6; 2 on 7 and 4 on 8, in multiples of 2; 8 in multiples of 8 from 9.0
//! on. From CUDA 13 on the resource has them as `minSmPartitionSize` and `smCoscheduledAlignment`
//! (8 and 8 on an H200), and only such sizes are asked for. Before, the call rounds up what it is
//! asked for. It returns the number of groups that it makes: the largest size is searched of which
//! the driver makes enough.

use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, PoisonError};

use super::api::Handle;
use super::context::{Context, Kind, WaitMode};
use super::device::Device;
use super::error::DriverError;
use super::layout::DevResource;

/// `CU_DEV_RESOURCE_TYPE_SM` and `CU_GREEN_CTX_DEFAULT_STREAM` of cuda.h.
const TYPE_SM: c_uint = 1;
const DEFAULT_STREAM: c_uint = 1;

/// The call that divides the SMs.
const SPLIT: &str = "cuDevSmResourceSplitByCount";
/// `CUDA_ERROR_INVALID_VALUE` and `CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION` of cuda.h.
const INVALID_VALUE: i32 = 1;
const INVALID_CONFIGURATION: i32 = 915;

impl Device {
    /// The least SMs of a partition, and the multiple that partitions have; zeros before CUDA 13.
    pub fn partition_steps(&self) -> Result<[u32; 2], DriverError> {
        let mut whole = DevResource::EMPTY;
        // SAFETY: writes one resource.
        unsafe { self.driver.api.device_get_dev_resource(self.handle, &raw mut whole, TYPE_SM) }?;
        Ok([whole.min_partition, whole.alignment])
    }
}

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
        // It exists before and after its green contexts, so that none of them makes or ends it.
        let primary = Self::primary(device, wait)?;
        let mut partition = partition(device, index, count.max(1))?;
        let mut descriptor: Handle = std::ptr::null_mut();
        let mut green: Handle = std::ptr::null_mut();
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: reads one resource that the driver wrote, writes one handle each.
        unsafe {
            api.dev_resource_generate_desc(&raw mut descriptor, &raw mut partition, 1)?;
            api.green_ctx_create(&raw mut green, descriptor, device.handle, DEFAULT_STREAM)?;
            api.ctx_from_green_ctx(&raw mut handle, green)?;
        }
        Self::adopt(device, handle, Kind::Green { green, primary })
    }
}

/// The splits of this process, by device.
static SPLITS: Mutex<Vec<(c_int, Vec<DevResource>)>> = Mutex::new(Vec::new());

/// One of `count` equal partitions, all of one split, which the first caller makes. That a second
/// split would choose the same SMs for each partition is documented nowhere.
fn partition(device: &Device, index: u32, count: u32) -> Result<DevResource, DriverError> {
    // Consistent between statements, so a panic elsewhere spoils nothing.
    let mut splits = SPLITS.lock().unwrap_or_else(PoisonError::into_inner);
    let own =
        |(of, parts): &&(c_int, Vec<_>)| *of == device.handle && parts.len() == count as usize;
    let partitions = match splits.iter().find(own) {
        Some((_, partitions)) => partitions.clone(),
        None => {
            let partitions = equal_partitions(device, count)?;
            splits.push((device.handle, partitions.clone()));
            partitions
        }
    };
    let found = partitions.get(index as usize).copied();
    found.ok_or_else(|| DriverError::from_code(SPLIT, INVALID_VALUE))
}

/// Divides the SMs into partitions of one size, the largest of which there are `count`.
fn equal_partitions(device: &Device, count: u32) -> Result<Vec<DevResource>, DriverError> {
    let mut whole = DevResource::EMPTY;
    // SAFETY: writes one resource.
    unsafe { device.driver.api.device_get_dev_resource(device.handle, &raw mut whole, TYPE_SM) }?;
    let steps = [whole.min_partition, whole.alignment].map(|one| one.max(1));
    let sms =
        largest_equal(whole.sm_count, count, steps, |sms| split(device, &whole, &mut [], sms))?;
    let mut partitions = vec![DevResource::EMPTY; count as usize];
    match split(device, &whole, &mut partitions, sms)? {
        made if made == count => Ok(partitions),
        made => Err(DriverError::Groups { made, wanted: count }),
    }
}

/// The most SMs that each of `count` groups of one size can have, of sizes from the first of the
/// steps on that are multiples of the second, or all SMs; `groups` returns how many groups of at
/// least so many SMs there are.
pub fn largest_equal(
    sms: u32,
    count: u32,
    [least, multiple]: [u32; 2],
    mut groups: impl FnMut(u32) -> Result<u32, DriverError>,
) -> Result<u32, DriverError> {
    let mut most = 0;
    let is_step = |size: &u32| size.is_multiple_of(multiple.max(1)) || *size == sms;
    for size in (least..=sms / count.max(1)).rev().filter(is_step) {
        let made = match groups(size) {
            Err(error) if error.code() == Some(INVALID_CONFIGURATION) => 0,
            made => made?,
        };
        if made >= count {
            return Ok(size);
        }
        most = most.max(made);
    }
    Err(DriverError::Groups { made: most, wanted: count })
}

/// Splits SMs into partitions of at least `min_sms` SMs; returns their number. Without room for
/// partitions it is the number that there could be.
fn split(
    device: &Device,
    whole: &DevResource,
    partitions: &mut [DevResource],
    min_sms: u32,
) -> Result<u32, DriverError> {
    let mut made = c_uint::try_from(partitions.len()).unwrap_or(c_uint::MAX);
    let first = partitions.first_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    let mut rest = DevResource::EMPTY;
    // SAFETY: the array has room for the requested number of resources, or is null.
    unsafe {
        device.driver.api.dev_sm_resource_split(
            first,
            &raw mut made,
            whole,
            &raw mut rest,
            0,
            min_sms,
        )
    }?;
    Ok(made)
}
