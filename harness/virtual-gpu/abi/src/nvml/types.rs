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
    /// `nvmlPciInfo_t`. The two older forms are beginnings of it.
    pub struct PciInfo {
        pub bus_id_legacy: [c_char; 16],
        pub domain: u32,
        pub bus: u32,
        pub device: u32,
        pub pci_device_id: u32,
        pub pci_subsystem_id: u32,
        pub bus_id: [c_char; 32],
    }

    /// `nvmlPciInfoExt_v1_t`.
    pub struct PciInfoExt {
        pub version: u32,
        pub domain: u32,
        pub bus: u32,
        pub device: u32,
        pub pci_device_id: u32,
        pub pci_subsystem_id: u32,
        pub base_class: u32,
        pub sub_class: u32,
        pub bus_id: [c_char; 32],
    }

    /// `nvmlUUID_v1_t`; the value is a union of the text and the 16 bytes.
    pub struct Uuid {
        pub version: u32,
        pub kind: u32,
        pub value: [u8; 41],
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

    /// `nvmlProcessDetail_v1_t`.
    #[derive(Default)]
    pub struct ProcessDetail {
        pub pid: u32,
        pub used_gpu_memory: u64,
        pub gpu_instance_id: u32,
        pub compute_instance_id: u32,
        pub used_protected_memory: u64,
    }

    /// `nvmlProcessDetailList_v1_t`.
    pub struct ProcessDetailList {
        pub version: u32,
        pub mode: u32,
        pub entries: u32,
        pub processes: *mut ProcessDetail,
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

    /// `nvmlProcessUtilizationInfo_v1_t`.
    #[derive(Default)]
    pub struct ProcessUtilizationInfo {
        pub time_stamp_us: u64,
        pub pid: u32,
        pub sm_util: u32,
        pub mem_util: u32,
        pub enc_util: u32,
        pub dec_util: u32,
        pub jpg_util: u32,
        pub ofa_util: u32,
    }

    /// `nvmlProcessesUtilizationInfo_v1_t`.
    pub struct ProcessesUtilizationInfo {
        pub version: u32,
        pub samples: u32,
        pub last_seen_us: u64,
        pub processes: *mut ProcessUtilizationInfo,
    }

    /// `nvmlViolationTime_t`.
    #[derive(Default)]
    pub struct ViolationTime {
        pub reference_us: u64,
        pub violation_ns: u64,
    }

    /// `nvmlEccErrorCounts_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct EccErrorCounts {
        pub l1_cache: u64,
        pub l2_cache: u64,
        pub device_memory: u64,
        pub register_file: u64,
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

    /// `nvmlSetMemoryLimits_v1_t`.
    #[derive(PartialEq, Eq)]
    pub struct SetMemoryLimits {
        /// Folder of the control group.
        pub namespace: *const c_char,
        pub soft_bytes: u64,
        pub hard_bytes: u64,
    }

    /// `nvmlGetMemoryLimits_v1_t`.
    #[derive(PartialEq, Eq)]
    pub struct GetMemoryLimits {
        /// Folder of the control group.
        pub namespace: *const c_char,
        pub soft_bytes: u64,
        pub hard_bytes: u64,
        pub used_bytes: u64,
    }

    /// `nvmlConfComputeSystemCaps_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct ConfComputeSystemCaps {
        pub cpu: u32,
        pub gpus: u32,
    }

    /// `nvmlSystemConfComputeSettings_v1_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct ConfComputeSettings {
        pub version: u32,
        pub environment: u32,
        pub feature: u32,
        pub devtools: u32,
        pub multi_gpu: u32,
    }

    /// `nvmlConfComputeMemSizeInfo_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct ConfComputeMemSizeInfo {
        pub protected_kib: u64,
        pub unprotected_kib: u64,
    }

    /// `nvmlRowRemapperHistogramValues_t`: banks by how much of their reserve is left.
    #[derive(Default, PartialEq, Eq)]
    pub struct RowRemapperHistogram {
        pub max: u32,
        pub high: u32,
        pub partial: u32,
        pub low: u32,
        pub none: u32,
    }

    /// `nvmlEccSramErrorStatus_v1_t`.
    #[derive(Default, PartialEq, Eq)]
    pub struct EccSramErrorStatus {
        pub version: u32,
        pub aggregate_parity: u64,
        pub aggregate_sec_ded: u64,
        pub aggregate_corrected: u64,
        pub volatile_parity: u64,
        pub volatile_sec_ded: u64,
        pub volatile_corrected: u64,
        pub aggregate_l2: u64,
        pub aggregate_sm: u64,
        pub aggregate_pcie: u64,
        pub aggregate_microcontroller: u64,
        pub aggregate_other: u64,
        pub is_threshold_exceeded: u32,
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

    /// `nvmlEventData_t`. Its first form ends before the instance ids.
    pub struct EventData {
        pub device: DeviceHandle,
        pub event_type: u64,
        pub event_data: u64,
        pub gpu_instance_id: u32,
        pub compute_instance_id: u32,
    }
}
