//! The structures of NVML have the sizes and offsets of nvml.h.
//!
//! The literals were printed by a C program with nvml.h of the Python wheels `nvidia-nvml-dev`
//! 13.4.92 and `nvidia-nvml-dev-cu12` 12.9.79 (gcc 12.2, x86-64), which agree.

use std::mem::offset_of;

use gpubench_virtual_gpu_abi::nvml::gpm::{GpmMetric, GpmMetricsGet, GpmSupport};
use gpubench_virtual_gpu_abi::nvml::mig::types::{
    ComputeInstanceInfo, ComputeInstanceProfileInfo, ComputeInstanceProfileInfoV2,
    ComputeInstanceProfileInfoV3, DeviceAttributes, GpuInstanceInfo, GpuInstanceProfileInfoV2,
    GpuInstanceProfileInfoV3, Placement, ProfileCounts, SharedEngines,
};
use gpubench_virtual_gpu_abi::nvml::types::{
    Bar1Memory, ConfComputeSystemState, EventData, FieldValue, Memory, MemoryV2, PciInfo,
    ProcessInfo, ProcessUtilizationSample, Temperature, Utilization, version_of,
};

macro_rules! layouts {
    ($( $type:ident: $bytes:literal $( .$field:ident $offset:literal )*; )*) => {
        #[test]
        fn sizes_and_offsets_are_the_headers() {
            $(
                assert_eq!(size_of::<$type>(), $bytes, "size of {}", stringify!($type));
                $(
                    let found = offset_of!($type, $field);
                    assert_eq!(found, $offset, "{}.{}", stringify!($type), stringify!($field));
                )*
            )*
        }
    };
}

layouts! {
    PciInfo: 68 .domain 16 .pci_device_id 28 .pci_subsystem_id 32 .bus_id 36;
    Memory: 24 .free 8 .used 16;
    MemoryV2: 40 .total 8 .reserved 16 .free 24 .used 32;
    Bar1Memory: 24 .free 8;
    Utilization: 8 .memory 4;
    ProcessInfo: 24 .used_gpu_memory 8 .gpu_instance_id 16 .compute_instance_id 20;
    ProcessUtilizationSample: 32 .time_stamp_us 8 .dec_util 28;
    Temperature: 12 .temperature 8;
    ConfComputeSystemState: 12 .feature 4 .devtools 8;
    FieldValue: 40 .timestamp_us 8 .latency_us 16 .value_type 24 .result 28 .value 32;
    EventData: 32 .event_type 8 .event_data 16 .gpu_instance_id 24 .compute_instance_id 28;
    GpmSupport: 8 .is_supported 4;
    GpmMetric: 40 .result 4 .value 8 .short_name 16;
    GpmMetricsGet: 19104 .count 4 .first 8 .metrics 24;
    GpuInstanceProfileInfoV2: 152 .counts 12 .memory_size_mib 48 .name 56;
    GpuInstanceProfileInfoV3: 152 .counts 8 .memory_size_mib 40 .name 48 .capabilities 144;
    ProfileCounts: 32 .copy_engine_count 12 .ofa_count 28;
    SharedEngines: 20 .ofa_count 16;
    Placement: 8 .size 4;
    GpuInstanceInfo: 24 .placement 16;
    ComputeInstanceProfileInfo: 36 .shared 16;
    ComputeInstanceProfileInfoV2: 136 .name 40;
    ComputeInstanceProfileInfoV3: 140 .capabilities 136;
    ComputeInstanceInfo: 32 .id 16 .placement 24;
    DeviceAttributes: 40 .shared 4 .memory_size_mib 32;
}

#[test]
fn version_words_are_the_headers() {
    assert_eq!(version_of::<MemoryV2>(2), 0x0200_0028);
    assert_eq!(version_of::<Temperature>(1), 0x0100_000c);
    assert_eq!(version_of::<GpuInstanceProfileInfoV2>(2), 0x0200_0098);
    assert_eq!(version_of::<GpuInstanceProfileInfoV3>(3), 0x0300_0098);
    assert_eq!(version_of::<ComputeInstanceProfileInfoV2>(2), 0x0200_0088);
    assert_eq!(version_of::<ComputeInstanceProfileInfoV3>(3), 0x0300_008c);
}
