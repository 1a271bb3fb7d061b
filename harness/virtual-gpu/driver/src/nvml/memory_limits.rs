//! How much of the device's memory the processes of a control group may have together, as
//! `nvidia-smi memory-limits` sets it (nvml.h 13.4 and later).

use std::sync::Arc;

use super::Error;
use super::library::privileged;
use super::mig::check_undivided;
use super::target;
use crate::device::Device;
use crate::handles::Handle;
use gpubench_virtual_gpu_model::cgroup;
use gpubench_virtual_gpu_model::memory;
use gpubench_virtual_gpu_model::mps::folder_key;
use gpubench_virtual_gpu_model::state::Context;

/// `NVML_DEVICE_MEMORY_LIMIT_MAX`: no hard limit.
const UNLIMITED: u64 = u64::MAX;

/// The limits of a group, and what its processes have.
pub struct Limits {
    pub soft_bytes: u64,
    pub hard_bytes: u64,
    pub used_bytes: u64,
}

/// The device, if its driver limits groups: it must be whole, of a release that can, and undivided.
pub fn device(handle: Handle) -> Result<Arc<Device>, Error> {
    let device = target::device(handle)?;
    let mps = device.machine().mps.as_ref();
    if mps.is_none_or(|mps| mps.protocol < cgroup::PROTOCOL_MIN) {
        return Err(Error::NotSupported);
    }
    check_undivided(&device)?;
    Ok(device)
}

/// The limits of the group that a folder names.
pub fn limits(device: &Device, folder: &str) -> Result<Limits, Error> {
    let key = group(device, folder)?;
    device.reap_dead_processes()?;
    let (set, used_bytes) = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        let member = Context {
            memory_group: key,
            ..Context::default()
        };
        (
            cgroup::limits(state, key),
            memory::group_bytes(state, &member),
        )
    })?;
    let set = set.ok_or(Error::NotFound)?;
    Ok(Limits {
        soft_bytes: set.soft_bytes,
        hard_bytes: if set.hard_bytes == 0 {
            UNLIMITED
        } else {
            set.hard_bytes
        },
        used_bytes,
    })
}

/// Sets the soft and the hard limit of the group that a folder names.
pub fn set(device: &Device, folder: &str, (soft, hard): (u64, u64)) -> Result<(), Error> {
    privileged(device)?;
    let total = device.machine().memory.total_mib << 20;
    // The model stores "no limit" as 0, so a hard limit of 0 bytes is refused.
    if soft > hard.min(total) || hard == 0 || (hard > total && hard != UNLIMITED) {
        return Err(Error::InvalidArgument);
    }
    let hard = if hard == UNLIMITED { 0 } else { hard };
    let key = group(device, folder)?;
    let has_room = device.transact(|state, _| {
        cgroup::forget_gone(state, device.dir());
        cgroup::limit(state, device.machine(), key, (soft, hard))
    })?;
    if has_room {
        Ok(())
    } else {
        Err(Error::Unknown)
    }
}

/// The group that a caller names by its folder.
fn group(device: &Device, folder: &str) -> Result<u64, Error> {
    let folder = cgroup::folder(device.dir(), folder).ok_or(Error::OperatingSystem)?;
    Ok(folder_key(&folder))
}
