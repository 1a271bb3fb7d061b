//! The objects behind a process's handles: contexts, modules, kernels, streams, events, memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backing_store::HostView;
use crate::cost::Part;
use gpubench_virtual_gpu_ptx as ptx;

/// Where work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContextPlacement {
    /// Slot of the context in the shared state. A green context has a slot of its own and the
    /// memory of the context with the same addresses.
    pub context: u32,
    pub sm_first: u32,
    pub sm_count: u32,
}

#[derive(Debug, Clone)]
pub struct ContextEntry {
    /// Slot in the shared state of the context that owns the address space.
    pub slot: u32,
    /// Where its streams run.
    pub placement: ContextPlacement,
    /// Stream behind the null handle.
    pub default_stream: u32,
    pub flags: u32,
    /// Limits that the program set, by number.
    pub limits: BTreeMap<i32, usize>,
    /// The part of the device that its kernels may use.
    pub part: Part,
}

/// SMs that follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmRange {
    pub first: u32,
    pub count: u32,
}

/// A green context: some of the SMs for streams of the primary context's address space.
#[derive(Debug, Clone, Copy)]
pub struct GreenEntry {
    /// Where its streams run.
    pub placement: ContextPlacement,
    /// Handle of the context that it is converted to.
    pub context: usize,
}

#[derive(Debug)]
pub struct ModuleEntry {
    pub context: u32,
    /// The program, bound to the addresses of its variables.
    pub program: Arc<ptx::Program>,
    pub symbols: Vec<u64>,
    pub hash: u64,
}

#[derive(Debug, Clone)]
pub struct FunctionEntry {
    pub context: u32,
    pub module: usize,
    pub program: Arc<ptx::Program>,
    pub name: String,
    pub hash: u64,
    pub settings: KernelSettings,
}

/// What a program set of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelSettings {
    /// Dynamic shared memory that it may have.
    pub dynamic_shared: u32,
    /// Percentage of the common store that it wants as shared memory.
    pub carve_out: Option<u32>,
}

/// A text that is loaded into each context when a kernel of it is first used there.
#[derive(Debug)]
pub struct LibraryEntry {
    pub text: String,
    /// Names of its kernels, in order of the text.
    pub kernels: Vec<String>,
    /// Handles of the modules by the handle of the context.
    pub modules: BTreeMap<usize, usize>,
}

#[derive(Debug, Clone)]
pub struct KernelEntry {
    pub library: usize,
    pub name: String,
    /// Handles of its functions by the handle of the context.
    pub functions: BTreeMap<usize, usize>,
    pub settings: KernelSettings,
}

#[derive(Debug, Clone, Copy)]
pub struct StreamEntry {
    /// Slot in the shared state.
    pub slot: u32,
    pub context: u32,
    pub placement: ContextPlacement,
    pub flags: u32,
    pub priority: i32,
}

#[derive(Debug, Clone, Copy)]
pub struct EventEntry {
    /// Index in the shared table of times.
    pub index: u32,
    pub context: u32,
    /// Whether it keeps no time.
    pub timing_disabled: bool,
    /// Other processes may open it.
    pub interprocess: bool,
    /// It was opened here and belongs to another process.
    pub opened: bool,
    /// Stream and sequence number of its last recording.
    pub recorded: Option<(u32, u64)>,
}

/// How an allocation was made, which decides how it may be freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `cuMemAlloc` and `cuMemAllocPitch`.
    Plain,
    /// `cuMemAllocAsync` or a graph's allocation node, from the pool with this handle.
    Pool(usize),
    /// `cuMemAllocManaged`.
    Managed,
    Module,
    /// `cuArrayCreate`: kernels cannot address it.
    Array,
    /// `cuMemMap`, of the physical memory with this handle.
    Mapped(usize),
    /// `cuIpcOpenMemHandle`, called that often.
    Opened(u32),
}

/// The owner of memory that was opened here, so that its end is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub process: u32,
    pub pid: u32,
    /// Where the allocation lies in device memory.
    pub offset: u64,
    /// Its number, which distinguishes it from later allocations there.
    pub number: u64,
}

/// One range of device addresses of this process.
#[derive(Debug, Clone)]
pub struct AllocationEntry {
    pub bytes: u64,
    pub context: u32,
    /// Changes whenever something is written to it.
    pub version: u64,
    /// A sampled launch or a skipped copy left it unwritten: reading it must fail.
    pub unwritten: bool,
    /// Where it lies in device memory.
    pub offset: u64,
    pub origin: Origin,
    pub readable: bool,
    pub writable: bool,
    /// Accessible not only by calls of this process: the host through a pointer, another process,
    /// a second mapping. No write to it may be skipped, and its contents count as changed.
    pub open: bool,
    /// The owner, if that is another process.
    pub owner: Option<Owner>,
    /// The host's own view of it, at the same address.
    pub view: Option<Arc<HostView>>,
}

/// Host memory that the device may use.
#[derive(Debug, Clone, Copy)]
pub struct PinnedEntry {
    pub bytes: usize,
    pub context: u32,
    /// The program's own memory, which it registered.
    pub registered: bool,
}

/// Physical memory without an address (`cuMemCreate`).
#[derive(Debug, Clone, Copy)]
pub struct PhysicalEntry {
    /// Where it lies in device memory.
    pub offset: u64,
    pub bytes: u64,
    /// Context slot, with which it goes.
    pub context: u32,
    /// How many handles and mappings hold it.
    pub holders: u32,
    /// How many of those are handles.
    pub handles: u32,
    /// It may be passed on as a file descriptor.
    pub exportable: bool,
    /// The process that it came from, with whose memory it ends.
    pub owner: Option<Owner>,
}

/// Free memory that a pool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Where it lies in device memory.
    pub offset: u64,
    /// Length taken.
    pub taken: u64,
    /// Context slot, with which it goes.
    pub context: u32,
}

/// A pool for stream-ordered allocation.
#[derive(Debug, Clone, Default)]
pub struct PoolEntry {
    /// The device's own: it cannot be destroyed.
    pub is_default: bool,
    /// Most that it may hold, 0 for no limit.
    pub max_bytes: u64,
    /// Bytes that it keeps when a call waits.
    pub release_threshold: u64,
    /// The three settings on reuse, which change nothing here.
    pub reuse: [i32; 3],
    /// Bytes in use now and at most.
    pub used: (u64, u64),
    /// Bytes held now and at most.
    pub reserved: (u64, u64),
    /// Free memory that it holds.
    pub kept: Vec<Kept>,
}

#[derive(Debug, Clone, Copy)]
pub struct ArrayEntry {
    /// Hidden address of its memory.
    pub address: u64,
    pub context: u32,
    /// Width, height and depth in elements; 0 for a side that it does not have.
    pub sides: [usize; 3],
    /// Format of a channel (`CUarray_format`, cuda.h).
    pub format: i32,
    pub channels: u32,
}

/// What a program links: the PTX that it added, and the image that came of it.
#[derive(Debug, Default)]
pub struct LinkEntry {
    pub texts: Vec<String>,
    pub image: Vec<u8>,
}
