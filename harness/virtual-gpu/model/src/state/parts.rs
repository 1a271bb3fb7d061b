//! The parts that a device can be divided into, and who may use them: GPU instances with their
//! memory, compute engines with their SMs, and MPS daemons with their servers.
//!
//! Row 0 of the instances and of the engines is the whole device. In MIG mode it is out of use and
//! the other rows are the GPU instances and their compute instances.

use super::{NONE, ONE, RESOURCES};

/// GPU instances at most, the whole device included.
pub const INSTANCES: usize = 9;
/// Compute engines at most, that of the whole device included.
pub const ENGINES: usize = 17;
/// MPS control daemons at most.
pub const DAEMONS: usize = 16;
/// MPS servers at most.
pub const SERVERS: usize = 32;
/// Static SM partitions at most, over all daemons.
pub const PARTITIONS: usize = 64;
/// Control groups with memory limits.
pub const MEMORY_GROUPS: usize = 64;
/// Row of the whole device, in both tables.
pub const WHOLE: u32 = 0;

/// Memory, caches and copy engines of their own: the whole device, or a MIG GPU instance.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GpuInstance {
    /// Whether the row is in use.
    pub live: bool,
    /// Number that NVML gives it.
    pub id: u32,
    /// Made anew in the same row, it is another instance: tells handles apart.
    pub generation: u64,
    /// Its profile, as an index into the machine file's list.
    pub profile: u32,
    /// First memory slot.
    pub slot_start: u32,
    /// Memory slots.
    pub slots: u32,
    /// First SM.
    pub sm_first: u32,
    /// SMs.
    pub sm_count: u32,
    /// Where its part of device memory begins.
    pub memory_offset: u64,
    /// Size of its part of device memory.
    pub memory_bytes: u64,
    /// Size of its part of the L2.
    pub l2_bytes: u64,
    /// Its share of DRAM and L2 bandwidth, in fixed point.
    pub bandwidth: u64,
    /// Host-to-device and device-to-host engines.
    pub copies: [CopyEngine; 2],
}

/// One copy engine: one copy at a time.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CopyEngine {
    /// Stream whose head is on the engine.
    pub stream: u32,
    /// Time spent copying.
    pub busy_ns: u64,
    /// Bytes moved, for counters.
    pub bytes: u64,
}

impl Default for CopyEngine {
    fn default() -> Self {
        Self {
            stream: NONE,
            busy_ns: 0,
            bytes: 0,
        }
    }
}

/// What runs kernels, one group of contexts at a time: the whole device, or a compute instance.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ComputeEngine {
    /// Whether the row is in use.
    pub live: bool,
    /// Number that NVML gives the compute instance, within its GPU instance.
    pub id: u32,
    /// Row of its GPU instance.
    pub instance: u32,
    /// Slices of its GPU instance, which are what tells compute profiles apart.
    pub profile: u32,
    /// First of these slices.
    pub slice_start: u32,
    /// First SM.
    pub sm_first: u32,
    /// SMs.
    pub sm_count: u32,
    /// Its share of the device's SMs, in fixed point.
    pub sm_share: u64,
    /// Made anew, it is another device to programs: part of its UUID.
    pub generation: u64,
    /// Group that has the engine, [`NONE`] if none ever had it.
    pub group: u32,
    /// Whether that group's state is loaded and running.
    pub running: bool,
    /// Whether another group waits for the end of the slice.
    pub contested: bool,
    /// End of the present slice.
    pub slice_end_ns: u64,
    /// When the present span on the engine began.
    pub interval_start_ns: u64,
    /// A switch is under way until then; 0 if none is.
    pub switch_end_ns: u64,
    /// Switches ever made.
    pub switches: u64,
    /// Time with at least one kernel running.
    pub busy_ns: u64,
    /// What its kernels use now.
    pub use_now: Usage,
    /// What they have used: each nanosecond counts with what was used then.
    pub used: Usage,
}

/// What kernels use: at an instant, or summed up over nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Usage {
    /// Share of each of the device's resources, in fixed point.
    pub shares: [u128; RESOURCES],
    /// SMs with a block on them.
    pub sms: u128,
}

impl Usage {
    /// Adds another one, so many times.
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

/// MIG mode of the device.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MigMode {
    /// In force now.
    pub current: bool,
    /// In force after the next reset.
    pub pending: bool,
    /// Instances ever made, so that no UUID comes twice.
    pub made: u64,
}

/// One MPS control daemon: a process that answers on a pipe directory.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MpsDaemon {
    /// Whether the row is in use.
    pub live: bool,
    /// Static SM partitions instead of percentages.
    pub static_partitions: bool,
    /// Row of its process.
    pub process: u32,
    /// Hash of its pipe directory, by which clients find it.
    pub pipe: u64,
    /// Row of the compute engine that it serves.
    pub engine: u32,
    /// Active-thread percentage of servers to come.
    pub percentage: u32,
    /// Memory limit of servers to come, in bytes; 0 for none.
    pub memory_limit: u64,
    /// Priority of clients to come: 0 normal, 1 below normal.
    pub priority: u32,
}

/// Where an MPS server stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ServerState {
    /// Takes clients.
    #[default]
    Active,
    /// A client's fatal fault reached every client; none is taken until all of them have left.
    Fault,
}

/// One MPS server: a process whose context joins those of its clients.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct MpsServer {
    /// Whether the row is in use.
    pub live: bool,
    /// Where it stands.
    pub state: ServerState,
    /// Row of its daemon.
    pub daemon: u32,
    /// Row of its process.
    pub process: u32,
    /// User whose clients it takes.
    pub uid: u32,
    /// Its own context: the group that its clients run in.
    pub context: u32,
    /// Active-thread percentage of clients to come.
    pub percentage: u32,
    /// Memory limit of clients to come, in bytes; 0 for none.
    pub memory_limit: u64,
    /// Takes clients again from then on, after a fault.
    pub ready_ns: u64,
}

/// One static SM partition of an MPS daemon.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct SmPartition {
    /// Whether the row is in use.
    pub live: bool,
    /// Row of its daemon.
    pub daemon: u32,
    /// Number by which clients name it.
    pub id: u32,
    /// First SM.
    pub sm_first: u32,
    /// SMs.
    pub sm_count: u32,
}

/// Memory limits of one control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryGroup {
    /// Whether the row is in use.
    pub live: bool,
    /// Hash of its folder.
    pub key: u64,
    /// What it is promised, in bytes.
    pub soft_bytes: u64,
    /// What its processes may have together, in bytes; 0 for all there is.
    pub hard_bytes: u64,
    /// What they get in fact.
    pub enforced_bytes: u64,
}
