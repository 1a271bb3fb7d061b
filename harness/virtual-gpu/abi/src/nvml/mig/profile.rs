//! The profiles of GPU instances and their placements.

use std::ffi::c_uint;

use super::types::{
    GpuInstanceProfileInfo, GpuInstanceProfileInfoV2, GpuInstanceProfileInfoV3, NAME_BYTES,
    Placement,
};
use super::{enabled, privileged, supported};
use crate::nvml::entry::filled;
use crate::nvml::returns::{self, Return};
use crate::nvml::target::device;
use crate::nvml::types::version_of;
use crate::nvml::{DeviceHandle, check_not_null, put, put_each, read};
use gpubench_virtual_gpu_model::machine::{Machine, Mig, Profile};
use gpubench_virtual_gpu_model::mig;

/// One more than the largest profile number (`NVML_GPU_INSTANCE_PROFILE_COUNT`) of nvml.h 13.4 and
/// of 13.0, whose driver has no further ones.
const PROFILES: u32 = 0x12;
const PROFILES_BEFORE: u32 = 0x11;

entries! {
    fn nvmlDeviceGetGpuInstanceProfileInfo(
        handle: DeviceHandle, number: c_uint, info: *mut GpuInstanceProfileInfo,
    ) {
        let device = device(handle)?;
        check_not_null(info)?;
        let (mig, profile) = numbered(device.machine(), number)?;
        put(info, described(device.machine(), mig, profile))
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoV(
        handle: DeviceHandle, number: c_uint, info: *mut GpuInstanceProfileInfoV2,
    ) {
        let device = device(handle)?;
        check_not_null(info)?;
        let (mig, profile) = numbered(device.machine(), number)?;
        put_versioned(device.machine(), mig, profile, info)
    }

    fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
        handle: DeviceHandle, profile_id: c_uint, info: *mut GpuInstanceProfileInfoV2,
    ) {
        let device = device(handle)?;
        check_not_null(info)?;
        let mig = enabled(&device)?;
        let (_, profile) = by_id(mig, profile_id)?;
        put_versioned(device.machine(), mig, profile, info)
    }

    fn nvmlDeviceGetGpuInstancePossiblePlacements, nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        handle: DeviceHandle, profile_id: c_uint, placements: *mut Placement, count: *mut c_uint,
    ) {
        put_placements(handle, profile_id, placements, count)
    }

    fn nvmlDeviceGetGpuInstanceRemainingCapacity(
        handle: DeviceHandle, profile_id: c_uint, count: *mut c_uint,
    ) {
        let device = device(handle)?;
        check_not_null(count)?;
        let mig = enabled(&device)?;
        privileged(&device)?;
        let (_, profile) = by_id(mig, profile_id)?;
        let left = device.transact(|state, _| mig::capacity(state, mig, profile))?;
        put(count, left)
    }
}

/// The profile of that number, as nvml.h numbers kinds of profiles.
fn numbered(machine: &Machine, number: u32) -> Result<(&Mig, &Profile), Return> {
    let mig = machine.mig.as_ref().ok_or(returns::NOT_SUPPORTED)?;
    let known = if machine.is_after_cuda_13_0() {
        PROFILES
    } else {
        PROFILES_BEFORE
    };
    if number >= known {
        return Err(returns::INVALID_ARGUMENT);
    }
    let found = mig.profile.iter().find(|profile| profile.nvml == number);
    Ok((mig, found.ok_or(returns::NOT_SUPPORTED)?))
}

/// The profile that instances are made from by this id, and its index.
pub(super) fn by_id(mig: &Mig, profile_id: u32) -> Result<(u32, &Profile), Return> {
    let mut profiles = mig.profile.iter().enumerate();
    let found = profiles.find(|(_, profile)| profile.id == profile_id);
    let (index, profile) = found.ok_or(returns::NOT_SUPPORTED)?;
    Ok((index as u32, profile))
}

/// A profile in figures. Where no source states a count: a copy engine for each slice, as in those
/// that are stated, and no other engines.
pub(super) fn described(machine: &Machine, mig: &Mig, profile: &Profile) -> GpuInstanceProfileInfo {
    GpuInstanceProfileInfo {
        id: profile.id,
        is_p2p_supported: 0,
        slice_count: profile.slices,
        instance_count: profile.max,
        multiprocessor_count: machine.profile_sms(mig, profile),
        copy_engine_count: profile.copy_engines.unwrap_or(profile.slices),
        decoder_count: profile.decoders.unwrap_or(0),
        encoder_count: 0,
        jpeg_count: profile.jpeg.unwrap_or(0),
        ofa_count: profile.ofa.unwrap_or(0),
        memory_size_mib: machine.profile_memory_mib(mig, profile),
    }
}

/// Fills the structure of the version that the caller has set.
unsafe fn put_versioned(
    machine: &Machine,
    mig: &Mig,
    profile: &Profile,
    to: *mut GpuInstanceProfileInfoV2,
) -> Result<(), Return> {
    let version = read(to.cast::<u32>())?;
    let found = described(machine, mig, profile);
    let name = filled::<NAME_BYTES>(&format!("MIG {}", profile.name));
    if version == version_of::<GpuInstanceProfileInfoV2>(2) {
        put(to, second(version, &found, name))
    } else if version == version_of::<GpuInstanceProfileInfoV3>(3) {
        put(to.cast(), third(version, &found, name))
    } else {
        Err(returns::INVALID_ARGUMENT)
    }
}

type Name = [std::ffi::c_char; NAME_BYTES];

fn second(version: u32, info: &GpuInstanceProfileInfo, name: Name) -> GpuInstanceProfileInfoV2 {
    GpuInstanceProfileInfoV2 {
        version,
        id: info.id,
        is_p2p_supported: info.is_p2p_supported,
        slice_count: info.slice_count,
        instance_count: info.instance_count,
        multiprocessor_count: info.multiprocessor_count,
        copy_engine_count: info.copy_engine_count,
        decoder_count: info.decoder_count,
        encoder_count: info.encoder_count,
        jpeg_count: info.jpeg_count,
        ofa_count: info.ofa_count,
        memory_size_mib: info.memory_size_mib,
        name,
    }
}

fn third(version: u32, info: &GpuInstanceProfileInfo, name: Name) -> GpuInstanceProfileInfoV3 {
    GpuInstanceProfileInfoV3 {
        version,
        id: info.id,
        slice_count: info.slice_count,
        instance_count: info.instance_count,
        multiprocessor_count: info.multiprocessor_count,
        copy_engine_count: info.copy_engine_count,
        decoder_count: info.decoder_count,
        encoder_count: info.encoder_count,
        jpeg_count: info.jpeg_count,
        ofa_count: info.ofa_count,
        memory_size_mib: info.memory_size_mib,
        name,
        capabilities: 0,
    }
}

/// All placements of a profile, in use or not, also while MIG mode is off.
unsafe fn put_placements(
    handle: DeviceHandle,
    profile_id: u32,
    to: *mut Placement,
    count: *mut c_uint,
) -> Result<(), Return> {
    let device = device(handle)?;
    check_not_null(count)?;
    let (_, profile) = by_id(supported(&device)?, profile_id)?;
    privileged(&device)?;
    let places: Vec<Placement> = profile
        .starts
        .iter()
        .map(|&start| Placement {
            start,
            size: profile.memory_slots,
        })
        .collect();
    put_all(&places, to, count)
}

/// Stores the length of a list, and the list itself in an array that nvml.h demands to be large
/// enough, unless it is null.
pub(super) unsafe fn put_all<T: Copy>(
    found: &[T],
    to: *mut T,
    count: *mut c_uint,
) -> Result<(), Return> {
    put(count, found.len() as c_uint)?;
    if to.is_null() {
        return Ok(());
    }
    put_each(found, to)
}
