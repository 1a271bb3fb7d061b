//! The state of one virtual device: plain data of fixed size, shared by all processes.
//!
//! Integers only, so that every process computes the same future from it. Times are nanoseconds on
//! the model's clock. Work and rates are fixed-point numbers with [`FRACTION_BITS`] bits after the
//! point.

mod allocation;
mod cause;
mod division;
pub mod order;
mod participant;
mod pending;
mod resource;
mod window;
mod xid;

use crate::compute_mode::ComputeMode;
use crate::table::Table;

pub use allocation::Allocation;
pub use cause::{CAUSES, Cause};
pub use division::{
    ComputeEngine, CopyEngine, DAEMONS, ENGINES, GpuInstance, INSTANCES, MEMORY_GROUPS,
    MemoryGroup, MigMode, MpsDaemon, MpsServer, PARTITIONS, SERVERS, ServerState, SmPartition,
    Usage, WHOLE,
};
pub use order::Order;
pub use participant::{Condition, Participant, ParticipantStatus};
pub use pending::{PENDING_FAULTS, PendingFault};
pub use resource::{InFlight, Location, RESOURCES, Resource};
pub use window::Window;
pub use xid::{XIDS, Xid};

/// Maximum number of clock participants (threads).
pub const PARTICIPANTS: usize = 128;
/// Maximum number of processes.
pub const PROCESSES: usize = 96;
/// Maximum number of contexts.
pub const CONTEXTS: usize = 96;
/// Maximum number of streams.
pub const STREAMS: usize = 128;
/// Maximum number of device events.
pub const EVENTS: usize = 65_536;
/// Operations that one stream can hold before submission blocks, as in a hardware channel.
pub const RING: usize = 1024;
/// Maximum number of device allocations.
pub const ALLOCATIONS: usize = 8192;
/// Active intervals kept for each context, for the timers of its kernels.
pub const INTERVALS: usize = 512;
/// Bits after the point in fixed-point work and rates.
pub const FRACTION_BITS: u32 = 20;
/// One, in fixed point.
pub const ONE: u64 = 1 << FRACTION_BITS;
/// Stands for "none" in indices.
pub const NONE: u32 = u32::MAX;
/// Stands for "never" in times.
pub const NEVER: u64 = u64::MAX;

/// One process that uses the device.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Process {
    /// Process id; 0 if the slot is free.
    pub pid: u32,
    /// Device time of its kernels.
    pub busy_ns: u64,
    /// DRAM use of its kernels, each nanosecond weighted with the share, in fixed point.
    pub dram_busy: u128,
    /// Most device memory that it ever had.
    pub peak_bytes: u64,
    /// Name, cut to fit.
    pub name: [u8; 32],
}

#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Context {
    /// Whether the slot is in use.
    pub live: bool,
    /// Process slot.
    pub process: u32,
    /// Sticky `CUresult`, 0 if none.
    pub sticky: i32,
    /// When a fault that has happened makes its calls fail; [`NEVER`] without one.
    pub fails_ns: u64,
    /// `CUresult` that is sticky from then on.
    pub fails_with: i32,
    /// Until then none of its kernels makes progress.
    pub halted: bool,
    /// Contexts of one group run concurrently; different groups are time-sliced. The number is that
    /// of the first context of the group: its own, or that of its MPS server.
    pub group: u32,
    /// The context that owns its address space: its own, or the parent of a green context.
    pub space: u32,
    /// Row of the compute engine that runs it.
    pub engine: u32,
    /// Row of its MPS server, [`NONE`] without MPS.
    pub server: u32,
    /// Row of its static SM partition, [`NONE`] if it is in none.
    pub partition: u32,
    /// First SM that it can use.
    pub sm_first: u32,
    /// SMs that it can use.
    pub sm_count: u32,
    /// Its share of the device's SMs, in fixed point; 0 where only the engine limits it.
    pub sm_share: u64,
    /// Device memory limit in bytes; 0 for none.
    pub memory_limit: u64,
    /// Key of the control group of its process; 0 for none.
    pub memory_group: u64,
    /// Priority of all its work; lower numbers go first.
    pub priority: i32,
    /// Device memory of the context itself.
    pub bytes: u64,
    /// Device time of its work.
    pub active_ns: u64,
    /// Number of active intervals ever recorded.
    pub intervals: u64,
    /// The stream of its address space that last had a copy engine, in each direction; kept in the
    /// row of the context that owns the space.
    pub copying: [u32; 2],
}

impl Default for Context {
    fn default() -> Self {
        Self {
            live: false,
            process: 0,
            sticky: 0,
            fails_ns: NEVER,
            fails_with: 0,
            halted: false,
            group: 0,
            space: 0,
            engine: WHOLE,
            server: NONE,
            partition: NONE,
            sm_first: 0,
            sm_count: 0,
            sm_share: 0,
            memory_limit: 0,
            memory_group: 0,
            priority: 0,
            bytes: 0,
            active_ns: 0,
            intervals: 0,
            copying: [NONE; 2],
        }
    }
}

/// What a stream's operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum OpKind {
    /// Nothing: completes at once.
    #[default]
    Marker,
    /// A kernel, or a copy or fill within device memory.
    Kernel,
    /// Copy from host to device.
    ToDevice,
    /// Copy from device to host.
    ToHost,
    /// Records a device event.
    Record,
    /// Waits until another stream has completed a sequence number.
    Wait,
}

/// One submitted operation; immutable.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Op {
    /// What it does.
    pub kind: OpKind,
    /// It lasts for a time, not for an amount of work: a kernel that spins until a deadline
    /// progresses while it is preempted.
    pub by_clock: bool,
    /// A kernel has more blocks than are resident at the same time.
    pub blocks_wait: bool,
    /// The fault in which it ends, if it does.
    pub cause: Option<Cause>,
    /// Event to record, or stream to wait for.
    pub target: u32,
    /// Sequence number to wait for.
    pub target_seq: u64,
    /// When it was submitted.
    pub stamp_ns: u64,
    /// Its duration without neighbours on the device.
    pub alone_ns: u64,
    /// SMs that a kernel has blocks on.
    pub sms: u32,
    /// Bytes that a copy moves over the host link.
    pub bytes: u64,
    /// Power above idle at full speed without neighbours, in milliwatts.
    pub power_mw: u32,
    /// Share of each resource that it uses at full speed, in fixed point.
    pub demand: [u32; RESOURCES],
    /// What a kernel keeps in flight to memory.
    pub in_flight: InFlight,
}

/// State of the operation at the head of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Head {
    /// Not started, or the queue is empty.
    #[default]
    Idle,
    /// Ready for its engine.
    Ready,
    /// On its engine (and perhaps preempted).
    Started,
}

/// One stream: a queue of operations.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Stream {
    /// Whether the slot is in use.
    pub live: bool,
    /// State of the head.
    pub head: Head,
    /// Context slot.
    pub context: u32,
    /// Priority; lower numbers go first.
    pub priority: i32,
    /// Operations ever submitted.
    pub submitted: u64,
    /// Operations ever completed.
    pub completed: u64,
    /// Remaining work of the head, in fixed-point nanoseconds at full speed.
    pub work_left: u64,
    /// Present speed of the head, in fixed point; 0 while preempted.
    pub speed: u64,
    /// When the head first ran.
    pub started_ns: u64,
    /// Instant at which a run-time limit ends the head; [`NEVER`] without a limit.
    pub last_ns: u64,
    /// Its relation to its context's legacy default stream.
    pub order: Order,
    /// Sequence number of this stream up to which the legacy stream already waits.
    pub joined: u64,
    /// Sequence number of the legacy stream up to which this stream already waits.
    pub followed: u64,
}

impl Stream {
    /// A stream of a context, without work.
    #[must_use]
    pub fn of(context: u32, order: Order) -> Self {
        Self { live: true, context, order, ..Self::default() }
    }
}

/// A span during which a context's group had the compute engine.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Interval {
    pub start_ns: u64,
    /// End; [`NEVER`] while it lasts.
    pub end_ns: u64,
}

/// Everything about the device that a transaction can change.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct State {
    /// The model's clock.
    pub now_ns: u64,
    /// Transactions so far; a count that stands shows a stall.
    pub transactions: u64,
    /// Seed of the planted noise.
    pub seed: u64,
    /// Until then a caller holds the driver's lock.
    pub driver_busy_until_ns: u64,
    /// Energy used, in picojoules.
    pub energy_pj: u64,
    /// Power drawn now, in milliwatts.
    pub power_mw: u64,
    /// Share of DRAM bandwidth in use now, in fixed point.
    pub dram_share: u64,
    /// Time that DRAM was in use, each nanosecond weighed with the share, in fixed point.
    pub dram_busy: u128,
    /// Xids ever raised.
    pub xids_raised: u64,
    /// Valid length of the kernel-log file.
    pub kernel_log_bytes: u64,
    /// Operations that ended in a fatal fault.
    pub fatal_faults: u64,
    /// Time with at least one kernel running on any engine.
    pub busy_ns: u64,
    /// SM clock now, relative to the highest, in fixed point: lower while power is capped.
    pub clock: u64,
    /// Time during which the power cap held the clock down.
    pub capped_ns: u64,
    /// Which processes can create contexts.
    pub compute_mode: ComputeMode,
    pub mig: MigMode,
    /// GPU instances, with memory of their own.
    pub instances: Table<GpuInstance, INSTANCES>,
    /// Compute engines, which run kernels.
    pub engines: Table<ComputeEngine, ENGINES>,
    /// MPS control daemons.
    pub daemons: Table<MpsDaemon, DAEMONS>,
    pub servers: Table<MpsServer, SERVERS>,
    /// Static SM partitions.
    pub partitions: Table<SmPartition, PARTITIONS>,
    /// Memory limits of control groups.
    pub memory_groups: Table<MemoryGroup, MEMORY_GROUPS>,
    /// The window of utilisation that is filling.
    pub window: Window,
    /// Threads.
    pub participants: Table<Participant, PARTICIPANTS>,
    pub processes: Table<Process, PROCESSES>,
    pub contexts: Table<Context, CONTEXTS>,
    pub streams: Table<Stream, STREAMS>,
    /// Device memory; copied by version.
    pub allocations: Table<Allocation, ALLOCATIONS>,
    /// Allocations ever made.
    pub allocations_made: u64,
    /// The last Xids; copied by version.
    pub xids: Table<Xid, XIDS>,
    /// Faults that happened and are not logged yet.
    pub pending_faults: Table<PendingFault, PENDING_FAULTS>,
    /// Level of time slices: 0 default, 1 short, 2 medium, 3 long.
    pub slice_level: u32,
    /// Time slice at that level; 0 for that of the machine.
    pub slice_ns: u64,
}

impl State {
    /// A new device.
    #[must_use]
    pub fn new(seed: u64, idle_power_mw: u64) -> Box<Self> {
        Box::new(Self {
            now_ns: 0,
            transactions: 0,
            seed,
            driver_busy_until_ns: 0,
            energy_pj: 0,
            power_mw: idle_power_mw,
            dram_share: 0,
            dram_busy: 0,
            xids_raised: 0,
            kernel_log_bytes: 0,
            fatal_faults: 0,
            busy_ns: 0,
            clock: ONE,
            capped_ns: 0,
            compute_mode: ComputeMode::Default,
            mig: MigMode::default(),
            instances: division::whole_instance(),
            engines: division::whole_engine(),
            daemons: Table::new(),
            servers: Table::new(),
            partitions: Table::new(),
            memory_groups: Table::new(),
            window: Window::default(),
            participants: Table::new(),
            processes: Table::new(),
            contexts: Table::new(),
            streams: Table::new(),
            allocations: Table::new(),
            allocations_made: 0,
            xids: Table::new(),
            pending_faults: Table::new(),
            slice_level: 0,
            slice_ns: 0,
        })
    }

    /// Copies the parts of `from` that are in use.
    pub fn copy_used(&mut self, from: &Self) {
        self.now_ns = from.now_ns;
        self.transactions = from.transactions + 1;
        self.seed = from.seed;
        self.driver_busy_until_ns = from.driver_busy_until_ns;
        self.energy_pj = from.energy_pj;
        self.power_mw = from.power_mw;
        self.dram_share = from.dram_share;
        self.dram_busy = from.dram_busy;
        self.xids_raised = from.xids_raised;
        self.kernel_log_bytes = from.kernel_log_bytes;
        self.fatal_faults = from.fatal_faults;
        self.busy_ns = from.busy_ns;
        self.clock = from.clock;
        self.capped_ns = from.capped_ns;
        self.compute_mode = from.compute_mode;
        self.mig = from.mig;
        self.instances.copy_used(&from.instances);
        self.engines.copy_used(&from.engines);
        self.daemons.copy_used(&from.daemons);
        self.servers.copy_used(&from.servers);
        self.partitions.copy_used(&from.partitions);
        self.memory_groups.copy_used(&from.memory_groups);
        self.window = from.window;
        self.participants.copy_used(&from.participants);
        self.processes.copy_used(&from.processes);
        self.contexts.copy_used(&from.contexts);
        self.streams.copy_used(&from.streams);
        self.allocations.copy_if_changed(&from.allocations);
        self.allocations_made = from.allocations_made;
        self.xids.copy_if_changed(&from.xids);
        self.pending_faults.copy_used(&from.pending_faults);
        self.slice_level = from.slice_level;
        self.slice_ns = from.slice_ns;
    }
}
