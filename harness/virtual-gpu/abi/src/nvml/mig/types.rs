//! The structures of nvml.h about MIG, field by field; `tests/nvml_layout.rs` holds their sizes.

use std::ffi::c_char;

use super::InstanceHandle;
use crate::nvml::DeviceHandle;

/// Room for a profile's name (`NVML_DEVICE_NAME_V2_BUFFER_SIZE`).
pub const NAME_BYTES: usize = 96;

c_structs! {
    /// `nvmlGpuInstanceProfileInfo_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct GpuInstanceProfileInfo {
        pub id: u32,
        pub is_p2p_supported: u32,
        pub slice_count: u32,
        pub instance_count: u32,
        pub multiprocessor_count: u32,
        pub copy_engine_count: u32,
        pub decoder_count: u32,
        pub encoder_count: u32,
        pub jpeg_count: u32,
        pub ofa_count: u32,
        pub memory_size_mib: u64,
    }

    /// `nvmlGpuInstanceProfileInfo_v2_t`.
    pub struct GpuInstanceProfileInfoV2 {
        pub version: u32,
        pub id: u32,
        pub is_p2p_supported: u32,
        pub slice_count: u32,
        pub instance_count: u32,
        pub multiprocessor_count: u32,
        pub copy_engine_count: u32,
        pub decoder_count: u32,
        pub encoder_count: u32,
        pub jpeg_count: u32,
        pub ofa_count: u32,
        pub memory_size_mib: u64,
        pub name: [c_char; NAME_BYTES],
    }

    /// `nvmlGpuInstanceProfileInfo_v3_t`.
    pub struct GpuInstanceProfileInfoV3 {
        pub version: u32,
        pub id: u32,
        pub slice_count: u32,
        pub instance_count: u32,
        pub multiprocessor_count: u32,
        pub copy_engine_count: u32,
        pub decoder_count: u32,
        pub encoder_count: u32,
        pub jpeg_count: u32,
        pub ofa_count: u32,
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
        pub shared_copy_engine_count: u32,
        pub shared_decoder_count: u32,
        pub shared_encoder_count: u32,
        pub shared_jpeg_count: u32,
        pub shared_ofa_count: u32,
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

    /// `nvmlComputeInstanceInfo_t`. Its first form ends before the placement.
    pub struct ComputeInstanceInfo {
        pub device: DeviceHandle,
        pub gpu_instance: InstanceHandle,
        pub id: u32,
        pub profile_id: u32,
        pub placement: Placement,
    }

    /// `nvmlDeviceAttributes_t`. Its first form ends before the memory.
    #[derive(Default, PartialEq, Eq)]
    pub struct DeviceAttributes {
        pub multiprocessor_count: u32,
        pub shared_copy_engine_count: u32,
        pub shared_decoder_count: u32,
        pub shared_encoder_count: u32,
        pub shared_jpeg_count: u32,
        pub shared_ofa_count: u32,
        pub gpu_instance_slice_count: u32,
        pub compute_instance_slice_count: u32,
        pub memory_size_mib: u64,
    }
}
