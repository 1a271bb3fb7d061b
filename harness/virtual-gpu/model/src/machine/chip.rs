//! The chip and its memory in a machine file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Machine, MachineError, wrong};
use crate::state::InFlight;

/// The chip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Product name; begins with `Virtual`.
    pub product: String,
    /// Names under which NVML reports the real boards that the file models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boards: Vec<String>,
    /// `major.minor`.
    pub compute_capability: String,
    /// Driver version; carries `virtual`.
    pub driver: String,
    /// CUDA version of the driver interface.
    pub cuda: String,
    /// The device shares the memory of the host.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub integrated: bool,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Maximum resident threads of an SM.
    pub max_threads_per_sm: u32,
    /// Maximum resident blocks of an SM.
    pub max_blocks_per_sm: u32,
    /// Maximum threads of a block.
    pub max_threads_per_block: u32,
    /// 32-bit registers of an SM.
    pub registers_per_sm: u32,
    /// Shared memory of an SM.
    pub shared_per_sm_kib: u32,
    /// Maximum shared memory of a block without opt-in.
    pub shared_per_block_kib: u32,
    /// Warp schedulers of an SM; each issues one instruction a clock.
    pub schedulers_per_sm: u32,
    /// Single-precision lanes an SM completes per clock.
    pub fp32_lanes_per_clock: u32,
    /// Double-precision lanes an SM completes per clock.
    pub fp64_lanes_per_clock: u32,
    /// Integer lanes an SM completes per clock.
    pub int_lanes_per_clock: u32,
    /// Special-function and conversion lanes an SM completes per clock.
    pub sfu_lanes_per_clock: u32,
    /// Half-precision multiply-adds of the tensor pipe of an SM per clock.
    pub tensor_ops_per_clock: u32,
    /// L1 and shared memory of an SM, in one array.
    pub l1_per_sm_kib: u32,
    /// Latency of an L1 hit, in clocks of the SM.
    pub l1_latency_cycles: u32,
    /// Bytes of L1 and shared memory that an SM moves per clock.
    pub shared_bytes_per_clock: u32,
    /// Atomic operations that the L2 completes per clock, for each SM.
    pub atomics_per_clock: u32,
    /// Time to dispatch one kernel, in nanoseconds.
    pub dispatch_ns: u64,
    /// SM clock.
    pub sm_clock_mhz: u32,
    /// Memory clock.
    pub memory_clock_mhz: u32,
    /// Clock of the video engines; absent where NVML reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video_clock_mhz: Option<u32>,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// Maximum number of groups when the SMs are split into groups of the smallest size for green
    /// contexts. Set where it is lower than the count of SMs allows; which SMs can form a group
    /// depends on the chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_groups: Option<u32>,
}

impl Machine {
    /// Shared memory that the driver reserves for each block: 1 KiB from compute capability 8 on
    /// (CUDA C++ Programming Guide, "Shared Memory").
    pub fn shared_reserved_bytes(&self) -> u32 {
        if self.compute_capability().0 >= 8 { 1 << 10 } else { 0 }
    }

    /// Maximum shared memory of a block, with opt-in.
    pub fn shared_opt_in_bytes(&self) -> u32 {
        (self.gpu.shared_per_sm_kib << 10) - self.shared_reserved_bytes()
    }
}

/// Device memory and caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Total size.
    pub total_mib: u64,
    /// Reserved by the driver.
    pub reserved_mib: u64,
    /// Used by each context.
    pub context_mib: u64,
    /// DRAM bandwidth, in 10^9 bytes a second.
    pub dram_gb_per_s: f64,
    /// L2 size.
    pub l2_kib: u64,
    /// L2 bandwidth.
    pub l2_gb_per_s: f64,
    /// DRAM bandwidth that one SM can draw.
    pub sm_dram_gb_per_s: f64,
    /// L2 bandwidth that one SM can draw.
    pub sm_l2_gb_per_s: f64,
    /// Memory that the TLB of an SM covers, in pages of 2 MiB.
    pub sm_tlb_mib: u32,
    /// Translations that the device completes per microsecond for all SMs.
    pub translations_per_us: f64,
    /// Translations per microsecond that one SM can use.
    pub sm_translations_per_us: f64,
    /// Latency of an L2 hit.
    pub l2_latency_ns: u64,
    /// Bytes to DRAM that one SM keeps in flight at most, where memory is full. Fitted: see
    /// [`Machine::in_flight`].
    #[serde(default = "h100_sm_dram_in_flight")]
    pub sm_dram_in_flight_kib: u32,
    /// Bytes to L2 that one kernel keeps in flight at most on the whole device. Fitted likewise.
    #[serde(default = "h100_l2_in_flight")]
    pub l2_in_flight_kib: u32,
    /// Whether freed pages are cleared before another process gets them.
    pub scrub: bool,
    /// Memory that a process did not have before takes an allocation longer, by this rate. Absent:
    /// an allocation costs the same whatever its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_use_gb_per_s: Option<f64>,
    /// Whether ECC is on; otherwise NVML supports none of its counters.
    #[serde(default = "super::yes")]
    pub ecc: bool,
}

/// The value fitted to an H100, for files that give none.
const fn h100_sm_dram_in_flight() -> u32 {
    81
}

/// The value fitted to an H100, for files that give none.
const fn h100_l2_in_flight() -> u32 {
    8_000
}

/// The resident blocks of a kernel.
#[derive(Debug, Clone, Copy)]
pub struct Resident {
    /// Bytes that a block moves between two waits for its loads, where it moves the most; infinite
    /// if it never waits.
    pub block_bytes: f64,
    pub blocks: u64,
    /// SMs that they are on.
    pub sms: u64,
    /// Their part of the device's memory bandwidth.
    pub bandwidth: f64,
}

impl Machine {
    pub(super) fn check_memory(&self, path: &str) -> Result<(), MachineError> {
        let memory = &self.memory;
        if memory.reserved_mib >= memory.total_mib {
            let accepted = "less than memory.total_mib";
            return wrong(path, "memory.reserved_mib", memory.reserved_mib, accepted);
        }
        Ok(())
    }

    /// What a kernel keeps in flight to memory. By Little's law a kernel moves, in the time that a
    /// request takes, what it has in flight; where memory is full, requests of all kernels take
    /// the same time, so bandwidth divides in proportion to the bytes in flight.
    ///
    /// A block has in flight what it moves between two waits for its loads. Its SM holds a limited
    /// number of misses to DRAM, and L2 a limited number of requests of one kernel. Both limits are
    /// fitted to one record of an H100 (`reports/examples/h100_580.159.04_matrix`): the first to
    /// four rows (`mps`, `mps-quota`, `green-context`, `stream-priority`), within 3 % by this law
    /// alone (81 KiB) and 7 % in whole runs (85, `h100-80`), the second to the same, within 6 %.
    /// Unchanged, they give those rows of an H200 within 9 % (`h200`). The limit of an SM holds for
    /// each kernel: one block of a victim between seven others had all of its requests in flight.
    pub fn in_flight(&self, resident: &Resident) -> InFlight {
        let kib = |kib: u32| f64::from(kib) * 1024.0;
        let (blocks, sms) = (resident.blocks as f64, resident.sms.max(1) as f64);
        let wanted = blocks * resident.block_bytes;
        let l2_limit = kib(self.memory.l2_in_flight_kib) * resident.bandwidth;
        InFlight {
            dram: wanted.min(sms * kib(self.memory.sm_dram_in_flight_kib)) as u32,
            l2: wanted.min(l2_limit) as u32,
        }
    }
}
