//! Device memory by every call other than `cuMemAlloc`: a memory cap must hook these as well.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Handle;
use super::context::Context;
use super::error::DriverError;
use super::graph_memory::GraphMemory;
use super::layout::ArrayDescriptor;
use super::memory::DevicePtr;
use super::module::Module;
use super::virtual_memory::VirtualMemory;

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

    /// The call that allocated it.
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
