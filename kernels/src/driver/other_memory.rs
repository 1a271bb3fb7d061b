//! Device memory by every call other than `cuMemAlloc`: a memory cap must hook these as well.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::{Api, Handle};
use super::context::Context;
use super::device::Module;
use super::error::{DriverError, note_drop};
use super::layout::{AccessDescriptor, AllocationProperties, ArrayDescriptor, IpcHandle, Location};
use super::memory::{DeviceBuffer, DevicePtr, Pod};
use super::stream::GraphMemory;

/// A call that allocates device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocKind {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocPitch`.
    Pitched,
    /// `cuMemAllocManaged`; it uses device memory only after the device has accessed it.
    Managed,
    /// `cuMemAllocAsync`, from the default pool, in the default stream.
    Pooled,
    /// `cuMemCreate` and `cuMemMap`.
    Virtual,
    /// `cuArrayCreate`; it has no address.
    Array,
    /// `cuMemAllocFromPoolAsync`, from the device's default pool, named explicitly.
    FromPool,
    /// `cuMemAllocAsync` in the variant for programs with a default stream per thread.
    PerThread,
    /// A variable of a module, by `cuModuleLoadDataEx`.
    Global,
    /// A node of a graph, by `cuGraphAddMemAllocNode`.
    GraphNode,
}

/// `CU_MEM_ATTACH_GLOBAL`: any stream may use managed memory.
const ATTACH_GLOBAL: u32 = 1;

/// `CU_AD_FORMAT_UNSIGNED_INT32`.
const FORMAT_U32: i32 = 3;

/// Bytes of a row of a pitched allocation or an array: within every limit on widths.
const ROW_BYTES: usize = 64 << 10;

impl AllocKind {
    pub const ALL: [Self; 10] = [
        Self::Plain,
        Self::Pitched,
        Self::Managed,
        Self::Pooled,
        Self::Virtual,
        Self::Array,
        Self::FromPool,
        Self::PerThread,
        Self::Global,
        Self::GraphNode,
    ];

    /// The call that allocates the memory, as cuda.h names it.
    pub const fn function(self) -> &'static str {
        match self {
            Self::Plain => "cuMemAlloc",
            Self::Pitched => "cuMemAllocPitch",
            Self::Managed => "cuMemAllocManaged",
            Self::Pooled => "cuMemAllocAsync",
            Self::Virtual => "cuMemCreate",
            Self::Array => "cuArrayCreate",
            Self::FromPool => "cuMemAllocFromPoolAsync",
            Self::PerThread => "cuMemAllocAsync_ptsz",
            Self::Global => "cuModuleLoadDataEx",
            Self::GraphNode => "cuGraphAddMemAllocNode",
        }
    }
}

#[derive(Debug)]
enum Allocation {
    Pointer(u64),
    Pooled(u64),
    Virtual(VirtualMemory),
    Array(Handle),
    /// The module; the memory is freed with it.
    Global {
        _module: Module,
    },
    Graph(GraphMemory),
}

/// Device memory by one of these calls.
#[derive(Debug)]
pub struct OtherMemory {
    context: Context,
    kind: AllocKind,
    allocation: Allocation,
}

// SAFETY: the handles may be used from any thread (CUDA driver API, "Thread safety").
unsafe impl Send for OtherMemory {}

impl OtherMemory {
    /// Allocates that many bytes; rows and pages are rounded up.
    pub fn alloc(context: &Context, kind: AllocKind, bytes: usize) -> Result<Self, DriverError> {
        let api = context.api();
        let rows = bytes.div_ceil(ROW_BYTES);
        let mut pointer = 0_u64;
        let allocation = match kind {
            AllocKind::Plain => {
                // SAFETY: writes one pointer.
                unsafe { api.mem_alloc(&raw mut pointer, bytes) }?;
                Allocation::Pointer(pointer)
            }
            AllocKind::Pitched => {
                let mut pitch = 0_usize;
                let (to, pitch) = (&raw mut pointer, &raw mut pitch);
                // SAFETY: writes one pointer and one size.
                unsafe { api.mem_alloc_pitch(to, pitch, ROW_BYTES, rows, 16) }?;
                Allocation::Pointer(pointer)
            }
            AllocKind::Managed => {
                // SAFETY: writes one pointer.
                unsafe { api.mem_alloc_managed(&raw mut pointer, bytes, ATTACH_GLOBAL) }?;
                Allocation::Pointer(pointer)
            }
            AllocKind::Pooled => {
                let default = std::ptr::null_mut();
                // SAFETY: writes one pointer; null is the default stream.
                unsafe { api.mem_alloc_async(&raw mut pointer, bytes, default) }?;
                Allocation::Pooled(pointer)
            }
            AllocKind::Virtual => Allocation::Virtual(VirtualMemory::alloc(context, bytes)?),
            AllocKind::Array => Allocation::Array(array(context, rows)?),
            AllocKind::FromPool => {
                let mut pool: Handle = std::ptr::null_mut();
                let device = context.device().handle;
                let default = std::ptr::null_mut();
                // SAFETY: writes one handle.
                unsafe { api.device_get_default_mem_pool(&raw mut pool, device) }?;
                // SAFETY: writes one pointer; null is the default stream.
                unsafe { api.mem_alloc_from_pool_async(&raw mut pointer, bytes, pool, default) }?;
                Allocation::Pooled(pointer)
            }
            AllocKind::PerThread => {
                let default = std::ptr::null_mut();
                // SAFETY: writes one pointer; null is the thread's default stream.
                unsafe { api.mem_alloc_async_ptsz(&raw mut pointer, bytes, default) }?;
                // It is freed in the legacy default stream.
                // SAFETY: null is the default stream of the current context.
                unsafe { api.ctx_synchronize() }?;
                Allocation::Pooled(pointer)
            }
            AllocKind::Global => {
                Allocation::Global { _module: Module::load(context, RESERVE, &reserve(bytes))? }
            }
            AllocKind::GraphNode => Allocation::Graph(GraphMemory::alloc(context, bytes)?),
        };
        Ok(Self { context: context.clone(), kind, allocation })
    }

    pub fn kind(&self) -> AllocKind {
        self.kind
    }

    /// Its address; an array has none.
    pub fn device_ptr(&self) -> Option<DevicePtr> {
        match &self.allocation {
            Allocation::Pointer(pointer) | Allocation::Pooled(pointer) => Some(DevicePtr(*pointer)),
            Allocation::Virtual(memory) => Some(DevicePtr(memory.address)),
            Allocation::Graph(memory) => Some(DevicePtr(memory.address)),
            Allocation::Array(_) | Allocation::Global { .. } => None,
        }
    }
}

/// Name of the module that holds one variable.
const RESERVE: &str = "reserve";

/// The module's text: one variable of that many bytes, in PTX that every device since Volta
/// accepts.
fn reserve(bytes: usize) -> String {
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .visible .global .align 16 .b8 {RESERVE}[{bytes}];\n"
    )
}

/// An array of 32-bit numbers with that many rows.
fn array(context: &Context, rows: usize) -> Result<Handle, DriverError> {
    let mut handle: Handle = std::ptr::null_mut();
    let descriptor =
        ArrayDescriptor { width: ROW_BYTES / 4, height: rows, format: FORMAT_U32, channels: 1 };
    // SAFETY: writes one handle, reads one structure.
    unsafe { context.api().array_create(&raw mut handle, &raw const descriptor) }?;
    Ok(handle)
}

impl Drop for OtherMemory {
    fn drop(&mut self) {
        let allocation = &mut self.allocation;
        self.context.release(|api| match allocation {
            // SAFETY: allocated by this object, released once.
            Allocation::Pointer(pointer) => unsafe { api.mem_free(*pointer) },
            Allocation::Pooled(pointer) => {
                let default = std::ptr::null_mut();
                // SAFETY: allocated by this object, released once; null is the default stream.
                unsafe { api.mem_free_async(*pointer, default) }?;
                // The pool keeps the pages until the next synchronisation.
                // SAFETY: null is the default stream of the current context.
                unsafe { api.stream_synchronize(default) }
            }
            Allocation::Virtual(memory) => memory.free(api),
            Allocation::Graph(memory) => memory.free(api),
            // SAFETY: made by this object, released once.
            Allocation::Array(handle) => unsafe { api.array_destroy(*handle) },
            // It unloads itself when dropped.
            Allocation::Global { .. } => Ok(()),
        });
    }
}

// Memory by the virtual memory calls: physical pages, an address range, and the map between them.

/// Numbers of cuda.h: `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE` and
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const PINNED: i32 = 1;
const DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;

/// Pages mapped at an address; dropping releases map, address range and pages.
#[derive(Debug, Default)]
pub(super) struct VirtualMemory {
    pub(super) address: u64,
    bytes: usize,
    handle: u64,
    mapped: bool,
}

impl VirtualMemory {
    /// Allocates whole pages for at least that many bytes, readable and writable.
    pub(super) fn alloc(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let mut memory = Self::default();
        match memory.build(context, bytes) {
            Ok(()) => Ok(memory),
            Err(error) => {
                note_drop(memory.free(context.api()));
                Err(error)
            }
        }
    }

    fn build(&mut self, context: &Context, bytes: usize) -> Result<(), DriverError> {
        let api = context.api();
        let location = Location { kind: DEVICE, id: context.device().handle };
        let properties = AllocationProperties {
            kind: PINNED,
            handle_types: 0,
            location,
            win32_metadata: std::ptr::null_mut(),
            flags: [0; 8],
        };
        let mut page_bytes = 0_usize;
        // SAFETY: writes one size, reads one structure.
        unsafe { api.mem_granularity(&raw mut page_bytes, &raw const properties, 0) }?;
        let size = bytes.checked_next_multiple_of(page_bytes.max(1)).unwrap_or(usize::MAX);
        // SAFETY: writes one handle, reads one structure.
        unsafe { api.mem_create(&raw mut self.handle, size, &raw const properties, 0) }?;
        self.bytes = size;
        // SAFETY: writes one address.
        unsafe { api.mem_address_reserve(&raw mut self.address, size, 0, 0, 0) }?;
        // SAFETY: the range was just reserved and the pages just made, both of this size.
        unsafe { api.mem_map(self.address, size, 0, self.handle, 0) }?;
        self.mapped = true;
        let access = AccessDescriptor { location, flags: READ_WRITE };
        // SAFETY: the range is mapped; reads one structure.
        unsafe { api.mem_set_access(self.address, size, &raw const access, 1) }
    }

    /// Releases what exists; tries everything and returns the first failure.
    pub(super) fn free(&mut self, api: &Api) -> Result<(), DriverError> {
        let mut outcome = Ok(());
        if std::mem::take(&mut self.mapped) {
            // SAFETY: mapped by this object, unmapped once.
            outcome = outcome.and(unsafe { api.mem_unmap(self.address, self.bytes) });
        }
        if self.address != 0 {
            // SAFETY: reserved by this object, released once.
            outcome = outcome.and(unsafe { api.mem_address_free(self.address, self.bytes) });
            self.address = 0;
        }
        if self.bytes != 0 {
            // SAFETY: created by this object, released once.
            outcome = outcome.and(unsafe { api.mem_release(self.handle) });
            self.bytes = 0;
        }
        outcome
    }
}

// Device memory of another process, by its CUDA IPC handle.

/// Peer access is set up when needed (`CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag).
const LAZY_PEER_ACCESS: u32 = 1;

impl<T: Pod> DeviceBuffer<T> {
    /// A handle by which another process may map this buffer, as long as this one keeps it.
    pub fn ipc_handle(&self) -> Result<IpcHandle, DriverError> {
        let mut handle = IpcHandle([0; 64]);
        let api = self.context().api();
        // SAFETY: writes one handle; the pointer is this buffer's.
        unsafe { api.ipc_get_mem_handle(&raw mut handle, self.device_ptr().0) }?;
        Ok(handle)
    }
}

/// A buffer of another process, mapped here.
#[derive(Debug)]
pub struct IpcMapping {
    context: Context,
    pointer: u64,
}

impl IpcMapping {
    /// Maps the buffer; the exporter must be another process.
    pub fn open(context: &Context, handle: IpcHandle) -> Result<Self, DriverError> {
        let mut pointer = 0_u64;
        let api = context.api();
        // SAFETY: writes one pointer; the handle is plain bytes that the driver checks.
        unsafe { api.ipc_open_mem_handle(&raw mut pointer, handle, LAZY_PEER_ACCESS) }?;
        Ok(Self { context: context.clone(), pointer })
    }

    pub fn device_ptr(&self) -> DevicePtr {
        DevicePtr(self.pointer)
    }
}

impl Drop for IpcMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, released once.
        self.context.release(|api| unsafe { api.ipc_close_mem_handle(self.pointer) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_uses_another_call() {
        let mut names: Vec<_> = AllocKind::ALL.map(AllocKind::function).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), AllocKind::ALL.len());
    }
}
