//! The profiles of GPU instances and their placements.

use super::Placement;
use super::mode::supported;
use crate::code::refuse;
use crate::device::Device;
use crate::nvml::Error;
use crate::nvml::library::privileged;
use gpubench_virtual_gpu_model::machine::{Machine, Mig, Profile};

/// One more than the largest profile number (`NVML_GPU_INSTANCE_PROFILE_COUNT`) of nvml.h 13.4 and
/// of 13.0, whose driver has no further ones.
const PROFILES: u32 = 0x12;
const PROFILES_BEFORE: u32 = 0x11;

/// What an instance of a profile has.
pub struct Description {
    pub id: u32,
    pub name: String,
    pub slices: u32,
    pub instances: u32,
    pub sms: u32,
    pub copy_engines: u32,
    pub decoders: u32,
    pub jpeg: u32,
    pub ofa: u32,
    pub memory_mib: u64,
}

/// The profile of that number, as nvml.h numbers kinds of profiles.
pub fn of_number(machine: &Machine, number: u32) -> Result<Description, Error> {
    let mig = machine.mig.as_ref().ok_or(Error::NotSupported)?;
    let known = if machine.is_after_cuda_13_0() { PROFILES } else { PROFILES_BEFORE };
    refuse(number >= known, Error::InvalidArgument)?;
    let found = mig.profile.iter().find(|profile| profile.nvml == number);
    Ok(described(machine, mig, found.ok_or(Error::NotSupported)?))
}

/// All placements of a profile, in use or not, also while MIG mode is off.
pub fn placements(device: &Device, profile_id: u32) -> Result<Vec<Placement>, Error> {
    let (_, profile) = by_id(supported(device)?, profile_id)?;
    privileged(device)?;
    let size = profile.memory_slots;
    let places = profile.starts.iter();
    Ok(places.map(|&start| Placement { start, size }).collect())
}

/// The profile that instances are made from by this id, and its index.
pub(super) fn by_id(mig: &Mig, profile_id: u32) -> Result<(u32, &Profile), Error> {
    let mut profiles = mig.profile.iter().enumerate();
    let found = profiles.find(|(_, profile)| profile.id == profile_id);
    let (index, profile) = found.ok_or(Error::NotSupported)?;
    Ok((index as u32, profile))
}

/// A profile in figures. Where no source states a count: a copy engine for each slice, as in those
/// that are stated, and no other engines.
pub(super) fn described(machine: &Machine, mig: &Mig, profile: &Profile) -> Description {
    Description {
        id: profile.id,
        name: profile.name.clone(),
        slices: profile.slices,
        instances: profile.max,
        sms: machine.profile_sms(mig, profile),
        copy_engines: profile.copy_engines.unwrap_or(profile.slices),
        decoders: profile.decoders.unwrap_or(0),
        jpeg: profile.jpeg.unwrap_or(0),
        ofa: profile.ofa.unwrap_or(0),
        memory_mib: machine.profile_memory_mib(mig, profile),
    }
}
