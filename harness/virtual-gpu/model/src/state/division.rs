//! GPU instances, compute engines, and MPS daemons with their servers.
//!
//! Row 0 of the instances and of the engines is the whole device. In MIG mode it is unused; the
//! other rows are the GPU instances and their compute instances.

use crate::table::Table;

use super::{NONE, ONE, RESOURCES};

/// Maximum number of GPU instances, the whole device included.
pub const INSTANCES: usize = 9;
/// Maximum number of compute engines, that of the whole device included.
pub const ENGINES: usize = 17;
/// Maximum number of MPS control daemons.
pub const DAEMONS: usize = 16;
pub const SERVERS: usize = 32;
/// Maximum number of static SM partitions over all daemons.
pub const PARTITIONS: usize = 64;
/// Maximum number of control groups with memory limits.
pub const MEMORY_GROUPS: usize = 64;
/// Row of the whole device, in both tables.
pub const WHOLE: u32 = 0;

/// The whole device or a MIG GPU instance: memory, caches and copy engines.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GpuInstance {
    pub live: bool,
    pub id: u32,
    /// Changes when the row is reused, so that old handles are invalid.
    pub generation: u64,
    /// Its profile, as an index into the machine file's list.
    pub profile: u32,
    pub slot_start: u32,
    pub slots: u32,
    pub sm_first: u32,
    pub sm_count: u32,
    pub memory_offset: u64,
    pub memory_bytes: u64,
    /// Size of its share of the L2.
    pub l2_bytes: u64,
    /// Its share of DRAM and L2 bandwidth, in fixed point.
    pub bandwidth: u64,
    /// Host-to-device and device-to-host engines.
    pub copies: [CopyEngine; 2],
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CopyEngine {
    pub stream: u32,
    pub busy_ns: u64,
    /// Bytes moved, for counters.
    pub bytes: u64,
}

impl Default for CopyEngine {
    fn default() -> Self {
        Self { stream: NONE, busy_ns: 0, bytes: 0 }
    }
}

/// The whole device or a compute instance: runs kernels of one group of contexts at a time.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ComputeEngine {
    pub live: bool,
    /// Number that NVML gives the compute instance, within its GPU instance.
    pub id: u32,
    pub instance: u32,
    /// Number of its slices, which identifies its compute profile.
    pub profile: u32,
    pub slice_start: u32,
    pub sm_first: u32,
    pub sm_count: u32,
    /// Its share of the device's SMs, in fixed point.
    pub sm_share: u64,
    /// Part of its UUID: changes when the row is reused.
    pub generation: u64,
    /// Group on the engine, [`NONE`] before the first one.
    pub group: u32,
    /// Whether that group's state is loaded and running.
    pub running: bool,
    /// Whether another group waits for the end of the slice.
    pub contested: bool,
    pub slice_end_ns: u64,
    /// When the present span on the engine began.
    pub interval_start_ns: u64,
    /// A switch is under way until then; 0 if none is.
    pub switch_end_ns: u64,
    pub switches: u64,
    /// Time with at least one kernel running.
    pub busy_ns: u64,
    pub use_now: Usage,
    /// Past usage: the sum over each nanosecond.
    pub used: Usage,
}

/// Usage of kernels: at an instant, or summed over nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Usage {
    /// Share of each of the device's resources, in fixed point.
    pub shares: [u128; RESOURCES],
    pub sms: u128,
}

impl Usage {
    pub fn add(&mut self, other: &Self, times: u64) {
        for (sum, share) in self.shares.iter_mut().zip(other.shares) {
            *sum += share * u128::from(times);
        }
        self.sms += other.sms * u128::from(times);
    }
}

impl Default for ComputeEngine {
    fn default() -> Self {
        Self {
            live: false,
            id: 0,
            instance: WHOLE,
            profile: 0,
            slice_start: 0,
            sm_first: 0,
            sm_count: 0,
            sm_share: ONE,
            generation: 0,
            group: NONE,
            running: false,
            contested: false,
            slice_end_ns: 0,
            interval_start_ns: 0,
            switch_end_ns: 0,
            switches: 0,
            busy_ns: 0,
            use_now: Usage::default(),
            used: Usage::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MigMode {
    /// In force now.
    pub current: bool,
    /// In force after the next reset.
    pub pending: bool,
    /// Instances ever created, which keeps UUIDs unique.
    pub made: u64,
}

/// One MPS control daemon: a process that serves a pipe directory.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MpsDaemon {
    pub live: bool,
    /// Static SM partitions instead of percentages.
    pub static_partitions: bool,
    pub process: u32,
    /// Hash of its pipe directory, by which clients find it.
    pub pipe: u64,
    /// Row of the compute engine that it serves.
    pub engine: u32,
    /// Active-thread percentage of new servers.
    pub percentage: u32,
    /// Memory limit of new servers, in bytes; 0 for none.
    pub memory_limit: u64,
    /// Priority of new clients: 0 normal, 1 below normal.
    pub priority: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ServerState {
    #[default]
    Active,
    /// A client's fatal fault reached every client; it accepts none until all of them have left.
    Fault,
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MpsServer {
    pub live: bool,
    pub state: ServerState,
    pub daemon: u32,
    pub process: u32,
    pub uid: u32,
    /// Its context, which defines the group of its clients.
    pub context: u32,
    /// Active-thread percentage of new clients.
    pub percentage: u32,
    /// Memory limit of new clients, in bytes; 0 for none.
    pub memory_limit: u64,
    /// Instant at which it accepts clients again after a fault.
    pub ready_ns: u64,
}

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct SmPartition {
    pub live: bool,
    pub daemon: u32,
    /// Number by which clients select it.
    pub id: u32,
    pub sm_first: u32,
    pub sm_count: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryGroup {
    pub live: bool,
    pub key: u64,
    pub soft_bytes: u64,
    /// Hard limit, in bytes; 0 for none.
    pub hard_bytes: u64,
    /// The limit with the planted excess.
    pub enforced_bytes: u64,
}

/// The device outside MIG mode as a GPU instance.
pub(super) fn whole_instance() -> Table<GpuInstance, INSTANCES> {
    let mut table = Table::new();
    table.used = 1;
    table.rows[WHOLE as usize] =
        GpuInstance { live: true, bandwidth: ONE, ..GpuInstance::default() };
    table
}

/// The device outside MIG mode as a compute engine.
pub(super) fn whole_engine() -> Table<ComputeEngine, ENGINES> {
    let mut table = Table::new();
    table.used = 1;
    table.rows[WHOLE as usize] = ComputeEngine { live: true, ..ComputeEngine::default() };
    table
}
