//! The state of one virtual device: plain data of fixed size, shared by all processes.
//!
//! Integers only, so that every process computes the same future from it. Times are nanoseconds on
//! the model's clock. Work and rates are fixed-point numbers with [`FRACTION_BITS`] bits after the
//! point.

mod cause;
mod division;
pub mod order;
mod participant;
mod resource;
mod xid;

use crate::compute_mode::ComputeMode;
use crate::table::Table;

pub use cause::{CAUSES, Cause};
pub use division::{
    ComputeEngine, CopyEngine, DAEMONS, ENGINES, GpuInstance, INSTANCES, MEMORY_GROUPS,
    MemoryGroup, MigMode, MpsDaemon, MpsServer, PARTITIONS, SERVERS, ServerState, SmPartition,
    Usage, WHOLE,
};
pub use order::Order;
pub use participant::{Condition, Participant, ParticipantStatus};
pub use resource::{InFlight, Location, RESOURCES, Resource};
pub use xid::{PENDING_FAULTS, PendingFault, XIDS, Xid};

/// Maximum number of clock participants (threads).
pub const PARTICIPANTS: usize = 128;
/// Maximum number of processes.
pub const PROCESSES: usize = 96;
pub const CONTEXTS: usize = 96;
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
    pub live: bool,
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

#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Stream {
    pub live: bool,
    pub head: Head,
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

/// One device allocation.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Allocation {
    pub live: bool,
    /// Context slot that owns it; [`NONE`] if it was allocated without a context.
    pub context: u32,
    pub process: u32,
    /// Row of the GPU instance that it lies in.
    pub instance: u32,
    /// Offset in device memory.
    pub offset: u64,
    /// Requested length.
    pub bytes: u64,
    /// Length used, in whole pages.
    pub taken: u64,
    pub number: u64,
}

/// The window over which utilisation is averaged.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Window {
    /// Start of the window that is filling.
    pub start_ns: u64,
    /// Engine busy time at its start.
    pub busy_at_start_ns: u64,
    /// Percent of the last full window during which a kernel ran.
    pub last_percent: u32,
    /// DRAM use at its start.
    pub dram_at_start: u128,
    /// Percent of DRAM bandwidth used over the last full window.
    pub last_dram_percent: u32,
}

/// Declares the state: how each field is copied, its type and its first value.
macro_rules! state {
    (@copy plain $to:expr, $from:expr) => {
        $to = $from
    };
    (@copy used $to:expr, $from:expr) => {
        $to.copy_used(&$from)
    };
    (@copy if_changed $to:expr, $from:expr) => {
        $to.copy_if_changed(&$from)
    };
    (($($argument:ident: $given:ty),*)
        $($(#[$doc:meta])* $copy:ident $field:ident: $of:ty = $first:expr,)*) => {
        /// Everything about the device that a transaction can change.
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct State {
            $($(#[$doc])* pub $field: $of),*
        }

        impl State {
            pub fn new($($argument: $given),*) -> Box<Self> {
                Box::new(Self { $($field: $first),* })
            }

            /// Copies the parts of `from` that are in use.
            pub fn copy_used(&mut self, from: &Self) {
                $(state!(@copy $copy self.$field, from.$field);)*
                self.transactions += 1;
            }
        }
    };
}

state! {
    (seed: u64, idle_power_mw: u64)
    /// The model's clock.
    plain now_ns: u64 = 0,
    /// Transactions so far; a count that stands shows a stall.
    plain transactions: u64 = 0,
    plain seed: u64 = seed,
    /// Until then a caller holds the driver's lock.
    plain driver_busy_until_ns: u64 = 0,
    /// Energy used, in picojoules.
    plain energy_pj: u64 = 0,
    /// Power drawn now, in milliwatts.
    plain power_mw: u64 = idle_power_mw,
    /// Share of DRAM bandwidth in use now, in fixed point.
    plain dram_share: u64 = 0,
    /// Time that DRAM was in use, each nanosecond weighed with the share, in fixed point.
    plain dram_busy: u128 = 0,
    plain xids_raised: u64 = 0,
    /// Valid length of the kernel-log file.
    plain kernel_log_bytes: u64 = 0,
    /// Operations that ended in a fatal fault.
    plain fatal_faults: u64 = 0,
    /// Time with at least one kernel running on any engine.
    plain busy_ns: u64 = 0,
    /// SM clock now, relative to the highest, in fixed point: lower while power is capped.
    plain clock: u64 = ONE,
    /// Time during which the power cap held the clock down.
    plain capped_ns: u64 = 0,
    /// Which processes can create contexts.
    plain compute_mode: ComputeMode = ComputeMode::Default,
    plain mig: MigMode = MigMode::default(),
    /// GPU instances, with memory of their own.
    used instances: Table<GpuInstance, INSTANCES> = division::whole_instance(),
    /// Compute engines, which run kernels.
    used engines: Table<ComputeEngine, ENGINES> = division::whole_engine(),
    used daemons: Table<MpsDaemon, DAEMONS> = Table::new(),
    used servers: Table<MpsServer, SERVERS> = Table::new(),
    used partitions: Table<SmPartition, PARTITIONS> = Table::new(),
    /// Memory limits of control groups.
    used memory_groups: Table<MemoryGroup, MEMORY_GROUPS> = Table::new(),
    plain window: Window = Window::default(),
    used participants: Table<Participant, PARTICIPANTS> = Table::new(),
    used processes: Table<Process, PROCESSES> = Table::new(),
    used contexts: Table<Context, CONTEXTS> = Table::new(),
    used streams: Table<Stream, STREAMS> = Table::new(),
    /// Device memory; copied by version.
    if_changed allocations: Table<Allocation, ALLOCATIONS> = Table::new(),
    plain allocations_made: u64 = 0,
    /// The last Xids; copied by version.
    if_changed xids: Table<Xid, XIDS> = Table::new(),
    /// Faults that happened and are not logged yet.
    used pending_faults: Table<PendingFault, PENDING_FAULTS> = Table::new(),
    /// Level of time slices: 0 default, 1 short, 2 medium, 3 long.
    plain slice_level: u32 = 0,
    /// Time slice at that level; 0 for that of the machine.
    plain slice_ns: u64 = 0,
}
