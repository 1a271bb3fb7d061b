//! Attributes of the device by number: `CUdevice_attribute` and the limits of contexts.
//!
//! Limits are those of the chip. A capability is reported only where the calls for it
//! exist: an H100 also reports clusters, tensor maps, compressed and sparse memory, RDMA, fabric
//! handles, exportable pools and stream memory operations, which this device
//! would refuse.

use std::ffi::c_int;

use crate::kernel_log::PCI_BUS;
use gpubench_virtual_gpu_model::machine::Machine;

/// Extents of textures, arrays and surfaces, by attribute: CUDA C++ Programming Guide, technical
/// specifications, the same from compute capability 7.5 to 9.0; measured on an H100 80GB HBM3,
/// driver 580.159.04, 2026-11-22.
const EXTENTS: &[(c_int, u64)] = &[
    (21, 131_072),
    (22, 131_072),
    (23, 65_536),
    (24, 16_384),
    (25, 16_384),
    (26, 16_384),
    (27, 32_768),
    (28, 32_768),
    (29, 2048),
    (42, 32_768),
    (43, 2048),
    (45, 32_768),
    (46, 32_768),
    (47, 8192),
    (48, 8192),
    (49, 32_768),
    (52, 32_768),
    (53, 32_768),
    (54, 2046),
    (55, 32_768),
    (56, 131_072),
    (57, 65_536),
    (58, 16_384),
    (59, 16_384),
    (60, 16_384),
    (61, 32_768),
    (62, 2048),
    (63, 32_768),
    (64, 32_768),
    (65, 2048),
    (66, 32_768),
    (67, 32_768),
    (68, 2046),
    (69, 268_435_456),
    (70, 131_072),
    (71, 65_000),
    (72, 2_097_120),
    (73, 32_768),
    (74, 32_768),
    (77, 32_768),
];

/// An attribute of the device by number, as cuda.h numbers them. Those that describe what this
/// device does not have are 0; numbers that the driver does not know are refused.
pub fn attribute_of(machine: &Machine, attribute: c_int) -> Option<c_int> {
    if let Some((_, extent)) = EXTENTS.iter().find(|(number, _)| *number == attribute) {
        return c_int::try_from(*extent).ok();
    }
    let gpu = &machine.gpu;
    let (major, minor) = machine.compute_capability();
    let ampere = major >= 8;
    let value: u64 = match attribute {
        1 => gpu.max_threads_per_block.into(),
        2 | 3 => 1024,
        4 => 64,
        5 => 2_147_483_647,
        6 | 7 => 65_535,
        8 => u64::from(gpu.shared_per_block_kib) << 10,
        9 => 65_536,
        10 => 32,
        11 => 2_147_483_647,
        12 | 82 => gpu.registers_per_sm.into(),
        13 => u64::from(gpu.sm_clock_mhz) * 1000,
        // Alignment of textures, of surfaces, and of the rows of a texture.
        14 | 30 => 512,
        51 => 32,
        // GPU_OVERLAP, CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING,
        // STREAM_PRIORITIES, GLOBAL and LOCAL L1, COMPUTE_PREEMPTION, COOPERATIVE_LAUNCH.
        15 | 19 | 31 | 41 | 78 | 79 | 80 | 90 | 95 => 1,
        // MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM.
        83 | 89 | 91 => 1,
        // HOST_REGISTER, VIRTUAL_MEMORY_MANAGEMENT, POSIX_FILE_DESCRIPTOR,
        // READ_ONLY_HOST_REGISTER, MEMORY_POOLS, IPC_EVENT, UNIFIED_FUNCTION_POINTERS.
        99 | 102 | 103 | 113 | 115 | 125 | 129 => 1,
        // KERNEL_EXEC_TIMEOUT.
        17 => u64::from(machine.circumstances.kernel_run_time_limit_ms > 0),
        18 => gpu.integrated.into(),
        32 => machine.memory.ecc.into(),
        33 => PCI_BUS.into(),
        36 => u64::from(gpu.memory_clock_mhz) * 1000,
        37 => gpu.memory_bus_bits.into(),
        39 => gpu.max_threads_per_sm.into(),
        // ASYNC_ENGINE_COUNT: one each way, and one within the device.
        40 => 3,
        75 => major.into(),
        76 => minor.into(),
        81 => u64::from(gpu.shared_per_sm_kib) << 10,
        87 => u64::from(gpu.fp32_lanes_per_clock / gpu.fp64_lanes_per_clock.max(1)),
        97 => machine.shared_opt_in_bytes().into(),
        106 => gpu.max_blocks_per_sm.into(),
        // MAX_PERSISTING_L2_CACHE_SIZE and MAX_ACCESS_POLICY_WINDOW_SIZE: of 50 MiB an H100 gives
        // five eighths.
        108 if ampere => (machine.memory.l2_kib << 10) * 5 / 8,
        109 if ampere => 134_217_728,
        111 => machine.shared_reserved_bytes().into(),
        // NUMA_ID of device memory: none.
        131 => return Some(-1),
        // An H100 80GB HBM3 refused them (driver 580.159.04 of CUDA 13.0, 2026-11-22).
        148.. if !machine.is_after_cuda_13_0() => return None,
        19..=149 => 0,
        _ => return None,
    };
    c_int::try_from(value).ok()
}

/// Why a limit of a context has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLimit {
    /// The driver knows it and the device has none.
    Unsupported,
    /// There is no such limit.
    Unknown,
}

/// The value that a limit of a context begins with, by `CUlimit` (cuda.h). Measured on an H100 80GB
/// HBM3, driver 580.159.04, 2026-11-22.
pub fn limit_of(machine: &Machine, limit: c_int) -> Result<usize, NoLimit> {
    let ampere = machine.compute_capability().0 >= 8;
    Ok(match limit {
        // Stack of a thread, what printf may hold back, heap of malloc.
        0 => 1024,
        1 => 8_650_752,
        2 => 8 << 20,
        // Launches that wait on the device.
        4 => 2048,
        // What the L2 fetches at most, and what of it may be set aside: three sixteenths.
        5 => 64,
        6 if ampere => (machine.memory.l2_kib as usize * 3 / 16) << 10,
        7 => machine.shared_opt_in_bytes() as usize,
        // Graphics beside computing.
        8 => 0,
        // Depth of synchronization from the device, persisting L2 where there is none, and shared
        // memory beside graphics.
        3 | 6 | 9 => return Err(NoLimit::Unsupported),
        _ => return Err(NoLimit::Unknown),
    })
}

#[cfg(test)]
mod tests {
    use super::{NoLimit, attribute_of, limit_of};
    use gpubench_virtual_gpu_model::machine::Machine;

    fn machine(name: &str) -> Machine {
        Machine::load(name).expect("built in")
    }

    #[test]
    fn an_h100_s_attributes_are_those_that_one_gave() {
        let h100 = machine("h100-80");
        let given = [
            (1, 1024),
            (8, 49_152),
            (13, 1_980_000),
            (21, 131_072),
            (32, 1),
            (39, 2048),
            (40, 3),
            (69, 268_435_456),
            (81, 233_472),
            (97, 232_448),
            (106, 32),
            (108, 32_768_000),
            (111, 1024),
            (131, -1),
            (147, 0),
        ];
        for (attribute, value) in given {
            let found = attribute_of(&h100, attribute);
            assert_eq!(found, Some(value), "attribute {attribute}");
        }
        let general = (1..=147).filter(|number| *number != 16);
        assert!(general.into_iter().all(|known| attribute_of(&h100, known).is_some()));
        for unknown in [0, -1, 148, 149, 150] {
            assert_eq!(attribute_of(&h100, unknown), None, "attribute {unknown}");
        }
        let later = machine("hopper");
        assert_eq!(attribute_of(&later, 149), Some(0), "a later driver's");
    }

    #[test]
    fn older_chips_reserve_no_shared_memory_and_set_no_l2_aside() {
        let turing = machine("turing");
        let found = [81, 97, 108, 111].map(|number| attribute_of(&turing, number));
        assert_eq!(found, [Some(65_536), Some(65_536), Some(0), Some(0)]);
        assert_eq!(limit_of(&turing, 6), Err(NoLimit::Unsupported));
    }

    #[test]
    fn an_h100_s_limits_are_those_that_one_gave() {
        let h100 = machine("h100-80");
        let given = [1024, 8_650_752, 8_388_608];
        for (limit, value) in (0..).zip(given) {
            assert_eq!(limit_of(&h100, limit), Ok(value), "limit {limit}");
        }
        let later = [4, 5, 6, 7, 8].map(|limit| limit_of(&h100, limit));
        assert_eq!(later, [Ok(2048), Ok(64), Ok(9_830_400), Ok(232_448), Ok(0)]);
        for limit in [3, 9] {
            assert_eq!(limit_of(&h100, limit), Err(NoLimit::Unsupported), "{limit}");
        }
        for limit in [-1, 10, 15] {
            assert_eq!(limit_of(&h100, limit), Err(NoLimit::Unknown), "{limit}");
        }
    }
}
