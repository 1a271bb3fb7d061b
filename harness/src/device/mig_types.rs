//! MIG as NVML reports it: mode, profiles, instances.

use std::ffi::{CStr, c_char, c_uint};

use nvml_wrapper_sys::bindings as sys;
use serde::{Deserialize, Serialize};

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
    /// Compute slices.
    pub slices: u32,
    /// Maximum number of instances of it on this device.
    pub max: u32,
    /// Its SMs.
    pub sm_count: u32,
    pub memory_mib: u64,
    /// The placements at which an instance of it can be made.
    pub placements: Vec<Placement>,
}

/// A range of the device's memory slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// The first slot.
    pub start: u32,
    /// Number of slots.
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

/// A compute instance that exists.
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
