//! The structures of nvml.h, field by field. `tests/nvml_layout.rs` holds their sizes and offsets.

use std::ffi::{c_char, c_void};

/// `nvmlDevice_t`.
pub type DeviceHandle = *mut c_void;

/// Figures that stand for "none" in the ids of a GPU instance and of a compute instance.
pub const NO_INSTANCES: (u32, u32) = (u32::MAX, u32::MAX);

/// `NVML_STRUCT_VERSION`: the size of a structure with its version above it.
pub const fn version_of<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | version << 24
}

c_structs! {
    /// `nvmlPciInfo_t`.
    pub struct PciInfo {
        pub bus_id_legacy: [c_char; 16],
        pub domain: u32,
        pub bus: u32,
        pub device: u32,
        pub pci_device_id: u32,
        pub pci_subsystem_id: u32,
        pub bus_id: [c_char; 32],
    }

    /// `nvmlMemory_t`.
    #[derive(Default)]
    pub struct Memory {
        pub total: u64,
        pub free: u64,
        pub used: u64,
    }

    /// `nvmlMemory_v2_t`.
    #[derive(Default)]
    pub struct MemoryV2 {
        pub version: u32,
        pub total: u64,
        pub reserved: u64,
        pub free: u64,
        pub used: u64,
    }

    /// `nvmlBAR1Memory_t`.
    #[derive(Default)]
    pub struct Bar1Memory {
        pub total: u64,
        pub free: u64,
        pub used: u64,
    }

    /// `nvmlUtilization_t`.
    #[derive(Default)]
    pub struct Utilization {
        pub gpu: u32,
        pub memory: u32,
    }

    /// `nvmlProcessInfo_v1_t`.
    #[derive(Default)]
    pub struct ProcessInfoV1 {
        pub pid: u32,
        pub used_gpu_memory: u64,
    }

    /// `nvmlProcessInfo_v2_t`, which is also the third form.
    #[derive(Default)]
    pub struct ProcessInfo {
        pub pid: u32,
        pub used_gpu_memory: u64,
        pub gpu_instance_id: u32,
        pub compute_instance_id: u32,
    }

    /// `nvmlProcessUtilizationSample_t`.
    #[derive(Default)]
    pub struct ProcessUtilizationSample {
        pub pid: u32,
        pub time_stamp_us: u64,
        pub sm_util: u32,
        pub mem_util: u32,
        pub enc_util: u32,
        pub dec_util: u32,
    }

    /// `nvmlTemperature_v1_t`.
    #[derive(Default)]
    pub struct Temperature {
        pub version: u32,
        pub sensor: u32,
        pub temperature: i32,
    }

    /// `nvmlConfComputeSystemState_t`.
    #[derive(Default)]
    pub struct ConfComputeSystemState {
        pub environment: u32,
        pub feature: u32,
        pub devtools: u32,
    }

    /// `nvmlFieldValue_t`. The value is a union: the low bytes of `value` on little-endian hosts.
    #[derive(Default)]
    pub struct FieldValue {
        pub field_id: u32,
        pub scope_id: u32,
        pub timestamp_us: i64,
        pub latency_us: i64,
        pub value_type: u32,
        pub result: i32,
        pub value: u64,
    }

    /// `nvmlEventData_t`.
    pub struct EventData {
        pub device: DeviceHandle,
        pub event_type: u64,
        pub event_data: u64,
        pub gpu_instance_id: u32,
        pub compute_instance_id: u32,
    }
}
