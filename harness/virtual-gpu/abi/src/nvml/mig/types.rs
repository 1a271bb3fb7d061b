//! The structures of nvml.h about MIG, field by field; `tests/nvml_layout.rs` holds their sizes.

use std::ffi::c_char;

use crate::nvml::DeviceHandle;
use crate::nvml::entry::filled;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::nvml::mig;
use gpubench_virtual_gpu_driver::nvml::mig::profile::Description;

/// `nvmlGpuInstance_t` or `nvmlComputeInstance_t`.
pub type InstanceHandle = Handle;

/// Room for a profile's name (`NVML_DEVICE_NAME_V2_BUFFER_SIZE`).
pub const NAME_BYTES: usize = 96;

c_structs! {
    /// The counts that all forms of `nvmlGpuInstanceProfileInfo_t` have in this order.
    #[derive(Default, PartialEq, Eq)]
    pub struct ProfileCounts {
        pub slice_count: u32,
        pub instance_count: u32,
        pub multiprocessor_count: u32,
        pub copy_engine_count: u32,
        pub decoder_count: u32,
        pub encoder_count: u32,
        pub jpeg_count: u32,
        pub ofa_count: u32,
    }

    /// The counts of engines that a compute instance shares, in the order of both structures.
    #[derive(Default, PartialEq, Eq)]
    pub struct SharedEngines {
        pub copy_engine_count: u32,
        pub decoder_count: u32,
        pub encoder_count: u32,
        pub jpeg_count: u32,
        pub ofa_count: u32,
    }

    /// `nvmlGpuInstanceProfileInfo_v2_t`.
    pub struct GpuInstanceProfileInfoV2 {
        pub version: u32,
        pub id: u32,
        pub is_p2p_supported: u32,
        pub counts: ProfileCounts,
        pub memory_size_mib: u64,
        pub name: [c_char; NAME_BYTES],
    }

    /// `nvmlGpuInstanceProfileInfo_v3_t`.
    pub struct GpuInstanceProfileInfoV3 {
        pub version: u32,
        pub id: u32,
        pub counts: ProfileCounts,
        pub memory_size_mib: u64,
        pub name: [c_char; NAME_BYTES],
        pub capabilities: u32,
    }

    /// `nvmlGpuInstancePlacement_t` and `nvmlComputeInstancePlacement_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct Placement {
        pub start: u32,
        pub size: u32,
    }

    /// `nvmlGpuInstanceInfo_t`.
    pub struct GpuInstanceInfo {
        pub device: DeviceHandle,
        pub id: u32,
        pub profile_id: u32,
        pub placement: Placement,
    }

    /// `nvmlComputeInstanceProfileInfo_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct ComputeInstanceProfileInfo {
        pub id: u32,
        pub slice_count: u32,
        pub instance_count: u32,
        pub multiprocessor_count: u32,
        pub shared: SharedEngines,
    }

    /// `nvmlComputeInstanceProfileInfo_v2_t`.
    pub struct ComputeInstanceProfileInfoV2 {
        pub version: u32,
        pub info: ComputeInstanceProfileInfo,
        pub name: [c_char; NAME_BYTES],
    }

    /// `nvmlComputeInstanceProfileInfo_v3_t`.
    pub struct ComputeInstanceProfileInfoV3 {
        pub version: u32,
        pub info: ComputeInstanceProfileInfo,
        pub name: [c_char; NAME_BYTES],
        pub capabilities: u32,
    }

    /// `nvmlComputeInstanceInfo_t`.
    pub struct ComputeInstanceInfo {
        pub device: DeviceHandle,
        pub gpu_instance: InstanceHandle,
        pub id: u32,
        pub profile_id: u32,
        pub placement: Placement,
    }

    /// `nvmlDeviceAttributes_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct DeviceAttributes {
        pub multiprocessor_count: u32,
        pub shared: SharedEngines,
        pub gpu_instance_slice_count: u32,
        pub compute_instance_slice_count: u32,
        pub memory_size_mib: u64,
    }
}

impl ProfileCounts {
    pub(super) const fn of(profile: &Description) -> Self {
        Self {
            slice_count: profile.slices,
            instance_count: profile.instances,
            multiprocessor_count: profile.sms,
            copy_engine_count: profile.copy_engines,
            decoder_count: profile.decoders,
            encoder_count: 0,
            jpeg_count: profile.jpeg,
            ofa_count: profile.ofa,
        }
    }
}

impl SharedEngines {
    /// Those of the profile of the GPU instance.
    pub(super) const fn of(profile: &Description) -> Self {
        Self {
            copy_engine_count: profile.copy_engines,
            decoder_count: profile.decoders,
            encoder_count: 0,
            jpeg_count: profile.jpeg,
            ofa_count: profile.ofa,
        }
    }
}

impl From<mig::Placement> for Placement {
    fn from(mig::Placement { start, size }: mig::Placement) -> Self {
        Self { start, size }
    }
}

impl From<Placement> for mig::Placement {
    fn from(Placement { start, size }: Placement) -> Self {
        Self { start, size }
    }
}

/// The name of a profile as a field.
pub(super) fn title(profile: &str) -> [c_char; NAME_BYTES] {
    filled(&format!("MIG {profile}"))
}
