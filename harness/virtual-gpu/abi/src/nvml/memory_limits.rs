//! How much of the device's memory the processes of a control group may have together, as
//! `nvidia-smi memory-limits` sets it (nvml.h 13.4 and later).

use std::ffi::c_char;

use super::lookup::text;
use super::mig::privileged;
use super::returns::{self, Return};
use super::target::device;
use super::types::{GetMemoryLimits, SetMemoryLimits};
use super::{DeviceHandle, check_not_null, put, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::cgroup;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::folder_key;
use gpubench_virtual_gpu_model::state::Context;

/// `NVML_DEVICE_MEMORY_LIMIT_MAX`: no hard limit.
const UNLIMITED: u64 = u64::MAX;

entries! {
    fn nvmlDeviceGetMemoryLimits_v1(handle: DeviceHandle, limits: *mut GetMemoryLimits) {
        let device = limiting(handle)?;
        let request = read(limits)?;
        let key = group(&device, request.namespace)?;
        device.reap_dead_processes()?;
        let (set, used) = device.transact(|state, _| {
            cgroup::forget_gone(state, device.dir());
            let member = Context { memory_group: key, ..Context::default() };
            (cgroup::limits(state, key), memory::group_bytes(state, &member))
        })?;
        let set = set.ok_or(returns::NOT_FOUND)?;
        let found = GetMemoryLimits {
            soft_bytes: set.soft_bytes,
            hard_bytes: if set.hard_bytes == 0 { UNLIMITED } else { set.hard_bytes },
            used_bytes: used,
            ..request
        };
        put(limits, found)
    }

    fn nvmlDeviceSetMemoryLimits_v1(handle: DeviceHandle, limits: *mut SetMemoryLimits) {
        let device = limiting(handle)?;
        let request = read(limits)?;
        check_not_null(request.namespace)?;
        privileged(&device)?;
        let total = device.machine().memory.total_mib << 20;
        let (soft, hard) = (request.soft_bytes, request.hard_bytes);
        // The model stores "no limit" as 0, so a hard limit of 0 bytes is refused.
        if soft > hard.min(total) || hard == 0 || (hard > total && hard != UNLIMITED) {
            return Err(returns::INVALID_ARGUMENT);
        }
        let hard = if hard == UNLIMITED { 0 } else { hard };
        let key = group(&device, request.namespace)?;
        let has_room = device.transact(|state, _| {
            cgroup::forget_gone(state, device.dir());
            cgroup::limit(state, device.machine(), key, (soft, hard))
        })?;
        if has_room { Ok(()) } else { Err(returns::UNKNOWN) }
    }
}

/// The device, if its driver limits groups: it must be whole, of a release that can, and undivided.
fn limiting(handle: DeviceHandle) -> Result<std::sync::Arc<Device>, Return> {
    let device = device(handle)?;
    let mps = device.machine().mps.as_ref();
    let is_divided = device.shared().read(|state| state.mig.current)?;
    if mps.is_none_or(|mps| mps.protocol < cgroup::PROTOCOL_MIN) || is_divided {
        return Err(returns::NOT_SUPPORTED);
    }
    Ok(device)
}

/// The group that a caller names by its folder.
unsafe fn group(device: &Device, named: *const c_char) -> Result<u64, Return> {
    let named = text(named)?;
    let folder = cgroup::folder(device.dir(), &named).ok_or(returns::OPERATING_SYSTEM)?;
    Ok(folder_key(&folder))
}
