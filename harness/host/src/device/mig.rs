//! MIG through NVML: the instance profiles that the device offers and their placements, the
//! existing instances, and their creation and destruction.
//!
//! The wrapper has none of these calls, so they are made on its library directly. The sequence is
//! that of nvml.h: instances are made from the profile's id (not from the number with which the
//! profile is queried), compute instances are destroyed before their GPU instance, and the UUID is
//! that of the compute instance's own device.
#![expect(unsafe_code, reason = "NVML's calls about MIG instances have no safe form")]

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper_sys::bindings as sys;
use serde::{Deserialize, Serialize};

use super::nvml::Driver;

/// Maximum number of compute instances of one profile in one GPU instance.
const COMPUTE_INSTANCES_MAX: usize = 8;
/// Longest UUID, the terminating zero included (nvml.h, `NVML_DEVICE_UUID_V2_BUFFER_SIZE`).
const UUID_BYTES: usize = 96;

/// Calls a function of NVML. A driver without it is an error.
macro_rules! call {
    ($nvml:expr, $name:ident ( $( $argument:expr ),* )) => {{
        let function = $nvml.library().lib().$name.as_ref();
        let function = function.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
        // SAFETY: the signature is that of nvml.h for this name; every pointer is to a live
        // variable of the caller, of the size that is passed.
        nvml_try(unsafe { function($( $argument ),*) })
    }};
}

impl Driver {
    /// Whether confidential computing is on.
    pub fn confidential(&self) -> Result<bool, NvmlError> {
        let mut state =
            sys::nvmlConfComputeSystemState_t { environment: 0, ccFeature: 0, devToolsMode: 0 };
        call!(self, nvmlSystemGetConfComputeState(&raw mut state))?;
        // NVML_CC_SYSTEM_FEATURE_ENABLED (nvml.h).
        Ok(state.ccFeature == 1)
    }

    fn raw_device(&self) -> Result<sys::nvmlDevice_t, NvmlError> {
        // SAFETY: handles live as long as the library, which `self` holds.
        Ok(unsafe { self.device()?.handle() })
    }

    /// MIG mode; `None` if the device has no MIG.
    pub fn mig_mode(&self) -> Result<Option<MigMode>, NvmlError> {
        match self.device()?.mig_mode() {
            Ok(mode) => Ok(Some(MigMode {
                current: mode.current == sys::NVML_DEVICE_MIG_ENABLE,
                pending: mode.pending == sys::NVML_DEVICE_MIG_ENABLE,
            })),
            Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Switches MIG mode. A driver can return success and report that the switch is pending; that
    /// is an error too.
    pub fn set_mig(&self, on: bool) -> Result<(), NvmlError> {
        let status = self.device()?.set_mig_mode(on)?;
        nvml_try(status)
    }

    pub fn mig_profiles(&self) -> Result<Vec<InstanceProfile>, NvmlError> {
        let device = self.raw_device()?;
        let mut found = Vec::new();
        for number in 0..sys::NVML_GPU_INSTANCE_PROFILE_COUNT {
            // SAFETY: a plain C structure, for which all zeroes is a value.
            let mut info: sys::nvmlGpuInstanceProfileInfo_v2_t = unsafe { std::mem::zeroed() };
            info.version = version_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>(2);
            let info_result =
                call!(self, nvmlDeviceGetGpuInstanceProfileInfoV(device, number, &raw mut info));
            match info_result {
                Ok(()) => found.push(InstanceProfile {
                    id: info.id,
                    name: profile_name(&info.name),
                    slices: info.sliceCount,
                    max: info.instanceCount,
                    sm_count: info.multiprocessorCount,
                    memory_mib: info.memorySizeMB,
                    placements: self.mig_placements(device, info.id)?,
                }),
                // This device does not have the profile.
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn mig_placements(
        &self,
        device: sys::nvmlDevice_t,
        profile_id: u32,
    ) -> Result<Vec<Placement>, NvmlError> {
        let mut count: c_uint = 0;
        let none = std::ptr::null_mut();
        let sized = call!(
            self,
            nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile_id, none, &raw mut count)
        );
        match sized {
            Ok(()) | Err(NvmlError::InsufficientSize(_)) => {}
            Err(error) => return Err(error),
        }
        let empty = sys::nvmlGpuInstancePlacement_t { start: 0, size: 0 };
        let mut placements = vec![empty; count as usize];
        if !placements.is_empty() {
            let first = placements.as_mut_ptr();
            call!(
                self,
                nvmlDeviceGetGpuInstancePossiblePlacements_v2(
                    device,
                    profile_id,
                    first,
                    &raw mut count
                )
            )?;
        }
        placements.truncate(count as usize);
        Ok(placements.into_iter().map(Placement::from).collect())
    }

    /// The existing instances, in the order of their ids.
    pub fn mig_instances(&self) -> Result<Vec<Instance>, NvmlError> {
        let device = self.raw_device()?;
        let mut found = Vec::new();
        for profile in self.mig_profiles()? {
            let mut handles = vec![std::ptr::null_mut(); profile.max.max(1) as usize];
            let mut count = profile.max.max(1);
            let first = handles.as_mut_ptr();
            call!(self, nvmlDeviceGetGpuInstances(device, profile.id, first, &raw mut count))?;
            for &handle in handles.iter().take(count as usize) {
                found.push(self.describe(handle)?);
            }
        }
        found.sort();
        Ok(found)
    }

    fn describe(&self, handle: sys::nvmlGpuInstance_t) -> Result<Instance, NvmlError> {
        // SAFETY: a plain C structure, for which all zeroes is a value.
        let mut info: sys::nvmlGpuInstanceInfo_t = unsafe { std::mem::zeroed() };
        call!(self, nvmlGpuInstanceGetInfo(handle, &raw mut info))?;
        let mut compute = Vec::new();
        for profile in self.compute_profiles(handle)? {
            for instance in self.compute_handles(handle, profile.id)? {
                compute.push(self.describe_compute(instance)?);
            }
        }
        compute.sort();
        Ok(Instance {
            id: info.id,
            profile_id: info.profileId,
            placement: info.placement.into(),
            compute,
        })
    }

    fn compute_handles(
        &self,
        handle: sys::nvmlGpuInstance_t,
        profile_id: u32,
    ) -> Result<Vec<sys::nvmlComputeInstance_t>, NvmlError> {
        let mut instances = vec![std::ptr::null_mut(); COMPUTE_INSTANCES_MAX];
        let mut count = COMPUTE_INSTANCES_MAX as c_uint;
        let first = instances.as_mut_ptr();
        call!(self, nvmlGpuInstanceGetComputeInstances(handle, profile_id, first, &raw mut count))?;
        instances.truncate(count as usize);
        Ok(instances)
    }

    fn describe_compute(
        &self,
        handle: sys::nvmlComputeInstance_t,
    ) -> Result<ComputeInstance, NvmlError> {
        // SAFETY: a plain C structure, for which all zeroes is a value.
        let mut info: sys::nvmlComputeInstanceInfo_t = unsafe { std::mem::zeroed() };
        call!(self, nvmlComputeInstanceGetInfo_v2(handle, &raw mut info))?;
        let mut uuid: [c_char; UUID_BYTES] = [0; UUID_BYTES];
        let (first, length) = (uuid.as_mut_ptr(), UUID_BYTES as c_uint);
        call!(self, nvmlDeviceGetUUID(info.device, first, length))?;
        Ok(ComputeInstance { id: info.id, profile_id: info.profileId, uuid: text(&uuid) })
    }

    fn compute_profiles(
        &self,
        handle: sys::nvmlGpuInstance_t,
    ) -> Result<Vec<sys::nvmlComputeInstanceProfileInfo_t>, NvmlError> {
        let mut found = Vec::new();
        for number in 0..sys::NVML_COMPUTE_INSTANCE_PROFILE_COUNT {
            // SAFETY: a plain C structure, for which all zeroes is a value.
            let mut info: sys::nvmlComputeInstanceProfileInfo_t = unsafe { std::mem::zeroed() };
            let engines = sys::NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED;
            let info_result = call!(
                self,
                nvmlGpuInstanceGetComputeInstanceProfileInfo(
                    handle,
                    number,
                    engines,
                    &raw mut info
                )
            );
            match info_result {
                Ok(()) => found.push(info),
                Err(NvmlError::NotSupported | NvmlError::InvalidArg) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Makes an instance at a placement, with one compute instance of its full size.
    /// Fails when NVML refuses; a part that was made is destroyed again.
    pub fn create_instance(
        &self,
        profile_id: u32,
        placement: Placement,
    ) -> Result<Instance, NvmlError> {
        let device = self.raw_device()?;
        let mut handle = std::ptr::null_mut();
        let placement =
            sys::nvmlGpuInstancePlacement_t { start: placement.start, size: placement.size };
        call!(
            self,
            nvmlDeviceCreateGpuInstanceWithPlacement(
                device,
                profile_id,
                &raw const placement,
                &raw mut handle
            )
        )?;
        let made = self.create_compute(handle).and_then(|()| self.describe(handle));
        if made.is_err() {
            // The first error is the cause and is returned.
            let _ = call!(self, nvmlGpuInstanceDestroy(handle));
        }
        made
    }

    fn create_compute(&self, handle: sys::nvmlGpuInstance_t) -> Result<(), NvmlError> {
        let profiles = self.compute_profiles(handle)?;
        let whole = profiles.iter().max_by_key(|profile| profile.sliceCount);
        let whole = whole.ok_or(NvmlError::NotSupported)?;
        let mut compute = std::ptr::null_mut();
        call!(self, nvmlGpuInstanceCreateComputeInstance(handle, whole.id, &raw mut compute))
    }

    /// Destroys an instance with its compute instances.
    /// Fails when NVML refuses, for example while a process uses it.
    pub fn destroy_instance(&self, id: u32) -> Result<(), NvmlError> {
        let device = self.raw_device()?;
        let mut handle = std::ptr::null_mut();
        call!(self, nvmlDeviceGetGpuInstanceById(device, id, &raw mut handle))?;
        for profile in self.compute_profiles(handle)? {
            for compute in self.compute_handles(handle, profile.id)? {
                call!(self, nvmlComputeInstanceDestroy(compute))?;
            }
        }
        call!(self, nvmlGpuInstanceDestroy(handle))
    }
}

// MIG as NVML reports it: mode, profiles, instances.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigMode {
    /// Whether it is on now.
    pub current: bool,
    /// Whether it is on after a reset.
    pub pending: bool,
}

/// One size of instance that the device offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceProfile {
    /// The id from which instances are made.
    pub id: u32,
    /// Its name, for example `3g.40gb`.
    pub name: String,
    pub slices: u32,
    /// Maximum number of instances of it on this device.
    pub max: u32,
    pub sm_count: u32,
    pub memory_mib: u64,
    /// The placements at which an instance of it can be made.
    pub placements: Vec<Placement>,
}

/// A range of the device's memory slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    pub start: u32,
    pub size: u32,
}

/// A GPU instance that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instance {
    pub id: u32,
    pub profile_id: u32,
    pub placement: Placement,
    pub compute: Vec<ComputeInstance>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// Its id within its GPU instance.
    pub id: u32,
    pub profile_id: u32,
    /// `MIG-...`, with which tenants select it.
    pub uuid: String,
}

impl From<sys::nvmlGpuInstancePlacement_t> for Placement {
    fn from(placement: sys::nvmlGpuInstancePlacement_t) -> Self {
        Self { start: placement.start, size: placement.size }
    }
}

/// `NVML_STRUCT_VERSION` of nvml.h: the size, with the version in the top byte.
pub(super) fn version_of<T>(version: u32) -> c_uint {
    let size = u32::try_from(size_of::<T>()).unwrap_or(0);
    size | (version << 24)
}

/// A profile's name without NVML's prefix `MIG `.
pub(super) fn profile_name(name: &[c_char]) -> String {
    let text = text(name);
    text.strip_prefix("MIG ").unwrap_or(&text).to_owned()
}

/// The characters before the terminating zero.
pub(super) fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters.iter().map(|character| character.to_ne_bytes()[0]).collect();
    let until_zero = CStr::from_bytes_until_nul(&bytes);
    until_zero.map_or_else(
        |_| String::from_utf8_lossy(&bytes).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::{profile_name, sys, version_of};

    #[test]
    fn a_profile_name_has_no_nvml_prefix() {
        let characters = |text: &str| -> Vec<std::ffi::c_char> {
            text.bytes()
                .chain([0, b'x'])
                .map(|byte| std::ffi::c_char::from_ne_bytes([byte]))
                .collect()
        };
        assert_eq!(profile_name(&characters("MIG 3g.40gb")), "3g.40gb");
        assert_eq!(profile_name(&characters("1g.10gb+me")), "1g.10gb+me");
    }

    #[test]
    fn the_version_of_a_structure_is_that_of_the_header() {
        // nvml.h: nvmlGpuInstanceProfileInfo_v2 = NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2).
        let size = size_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>();
        assert_eq!(size, 152);
        assert_eq!(version_of::<sys::nvmlGpuInstanceProfileInfo_v2_t>(2), 0x0200_0098);
    }
}
