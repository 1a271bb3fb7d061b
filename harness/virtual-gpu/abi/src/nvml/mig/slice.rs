//! The profiles of compute instances within a GPU instance, and their placements.

use std::ffi::c_uint;

use super::profile::{described, put_all};
use super::types::{
    ComputeInstanceProfileInfo, ComputeInstanceProfileInfoV2, ComputeInstanceProfileInfoV3,
    NAME_BYTES, Placement,
};
use super::{InstanceHandle, Kind, instance, privileged, supported};
use crate::nvml::entry::filled;
use crate::nvml::returns::{self, Return};
use crate::nvml::types::version_of;
use crate::nvml::{check_not_null, put, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::machine::Profile;
use gpubench_virtual_gpu_model::mig;

/// Slices of the compute instance profile of each number (`NVML_COMPUTE_INSTANCE_PROFILE_...`).
/// The last two, special forms of other sizes, are on no machine here.
const SLICES: [Option<u32>; 9] = [
    Some(1),
    Some(2),
    Some(3),
    Some(4),
    Some(7),
    Some(8),
    Some(6),
    None,
    None,
];
/// `NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED`, the only one.
const SHARED: u32 = 0;

entries! {
    fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
        gpu: InstanceHandle, number: c_uint, engines: c_uint, info: *mut ComputeInstanceProfileInfo,
    ) {
        check_not_null(info)?;
        let (found, _) = describe(gpu, number, engines)?;
        put(info, found)
    }

    fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        gpu: InstanceHandle, number: c_uint, engines: c_uint, to: *mut ComputeInstanceProfileInfoV2,
    ) {
        check_not_null(to)?;
        let (info, name) = describe(gpu, number, engines)?;
        let name = filled::<NAME_BYTES>(&format!("MIG {name}"));
        let version = read(to.cast::<u32>())?;
        if version == version_of::<ComputeInstanceProfileInfoV2>(2) {
            put(to, ComputeInstanceProfileInfoV2 { version, info, name })
        } else if version == version_of::<ComputeInstanceProfileInfoV3>(3) {
            let capabilities = 0;
            let third = ComputeInstanceProfileInfoV3 { version, info, name, capabilities };
            put(to.cast(), third)
        } else {
            Err(returns::INVALID_ARGUMENT)
        }
    }

    fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
        gpu: InstanceHandle, profile_id: c_uint, count: *mut c_uint,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_not_null(count)?;
        privileged(&device)?;
        let (slices, all) = sizes(&device, row, profile_id)?;
        let left = device
            .shared()
            .read(|state| mig::engine_capacity(state, row, slices, all))?;
        put(count, left)
    }

    fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
        gpu: InstanceHandle, profile_id: c_uint, to: *mut Placement, count: *mut c_uint,
    ) {
        let (device, row) = instance(gpu, Kind::GpuInstance)?;
        check_not_null(count)?;
        privileged(&device)?;
        let (size, all) = sizes(&device, row, profile_id)?;
        let places: Vec<_> = (0..=all - size).map(|start| Placement { start, size }).collect();
        put_all(&places, to, count)
    }
}

/// The profile of a GPU instance.
pub(super) fn profile_of(device: &Device, row: u32) -> Result<&Profile, Return> {
    let index = device
        .shared()
        .read(|state| state.instances.rows[row as usize].profile)?;
    let profile = supported(device)?.profile.get(index as usize);
    profile.ok_or(returns::INVALID_ARGUMENT)
}

/// Slices of the compute profile with that id, and of its GPU instance. The ids are the numbers.
pub(super) fn sizes(device: &Device, row: u32, profile_id: u32) -> Result<(u32, u32), Return> {
    let all = profile_of(device, row)?.slices;
    let known = SLICES.get(profile_id as usize).copied().flatten();
    let slices = known.filter(|slices| *slices <= all);
    Ok((slices.ok_or(returns::NOT_SUPPORTED)?, all))
}

/// The id of the compute profile of that many slices.
pub(super) fn id_of(slices: u32) -> u32 {
    let known = SLICES.iter().position(|known| *known == Some(slices));
    known.map_or(u32::MAX, |id| id as u32)
}

/// The name of a compute profile: that of the GPU instance, with its own slices before it unless
/// it has all of them.
pub(super) fn name_of(profile: &Profile, slices: u32) -> String {
    if slices == profile.slices {
        profile.name.clone()
    } else {
        format!("{slices}c.{}", profile.name)
    }
}

fn describe(
    gpu: InstanceHandle,
    number: u32,
    engines: u32,
) -> Result<(ComputeInstanceProfileInfo, String), Return> {
    let (device, row) = instance(gpu, Kind::GpuInstance)?;
    if number as usize >= SLICES.len() || engines != SHARED {
        return Err(returns::INVALID_ARGUMENT);
    }
    let (slices, all) = sizes(&device, row, number)?;
    let profile = profile_of(&device, row)?;
    let whole = described(device.machine(), supported(&device)?, profile);
    let info = ComputeInstanceProfileInfo {
        id: number,
        slice_count: slices,
        instance_count: all / slices,
        multiprocessor_count: mig::engine_sms(whole.multiprocessor_count, slices, all),
        shared_copy_engine_count: whole.copy_engine_count,
        shared_decoder_count: whole.decoder_count,
        shared_encoder_count: whole.encoder_count,
        shared_jpeg_count: whole.jpeg_count,
        shared_ofa_count: whole.ofa_count,
    };
    Ok((info, name_of(profile, slices)))
}
