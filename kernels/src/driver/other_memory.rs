//! Device memory by every other way than `cuMemAlloc`: what a cap has to watch as well.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Handle;
use super::context::Context;
use super::error::DriverError;
use super::graph_memory::GraphMemory;
use super::layout::ArrayDescriptor;
use super::memory::DevicePtr;
use super::module::Module;
use super::virtual_memory::VirtualMemory;

/// A way to device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocKind {
    /// `cuMemAlloc`.
    Plain,
    /// `cuMemAllocPitch`.
    Pitched,
    /// `cuMemAllocManaged`; it takes device memory only once the device has touched it.
    Managed,
    /// `cuMemAllocAsync`, from the default pool, in the default stream.
    Pooled,
    /// `cuMemCreate` and `cuMemMap`.
    Virtual,
    /// `cuArrayCreate`; it has no address.
    Array,
    /// `cuMemAllocFromPoolAsync`, from the device's default pool, which is named.
    FromPool,
    /// `cuMemAllocAsync` by its name for programs with a default stream for each thread.
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
    /// All of them.
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

    /// The call that asks for the memory, as cuda.h names it.
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
enum Place {
    Pointer(u64),
    Pooled(u64),
    Virtual(VirtualMemory),
    Array(Handle),
    /// The memory goes with its module.
    Global {
        _module: Module,
    },
    Graph(GraphMemory),
}

/// Device memory by one of these ways.
#[derive(Debug)]
pub struct OtherMemory {
    context: Context,
    kind: AllocKind,
    place: Place,
}

// SAFETY: the handles may be used from any thread (CUDA driver API, "Thread safety").
unsafe impl Send for OtherMemory {}

impl OtherMemory {
    /// Asks for that many bytes; rows and pages are rounded up.
    pub fn alloc(context: &Context, kind: AllocKind, bytes: usize) -> Result<Self, DriverError> {
        let api = context.api();
        let rows = bytes.div_ceil(ROW_BYTES);
        let mut pointer = 0_u64;
        let place = match kind {
            AllocKind::Plain => {
                // SAFETY: writes one pointer.
                unsafe { api.mem_alloc(&raw mut pointer, bytes) }?;
                Place::Pointer(pointer)
            }
            AllocKind::Pitched => {
                let mut pitch = 0_usize;
                let (to, pitch) = (&raw mut pointer, &raw mut pitch);
                // SAFETY: writes one pointer and one size.
                unsafe { api.mem_alloc_pitch(to, pitch, ROW_BYTES, rows, 16) }?;
                Place::Pointer(pointer)
            }
            AllocKind::Managed => {
                // SAFETY: writes one pointer.
                unsafe { api.mem_alloc_managed(&raw mut pointer, bytes, ATTACH_GLOBAL) }?;
                Place::Pointer(pointer)
            }
            AllocKind::Pooled => {
                let default = std::ptr::null_mut();
                // SAFETY: writes one pointer; null is the default stream.
                unsafe { api.mem_alloc_async(&raw mut pointer, bytes, default) }?;
                Place::Pooled(pointer)
            }
            AllocKind::Virtual => Place::Virtual(VirtualMemory::alloc(context, bytes)?),
            AllocKind::Array => Place::Array(array(context, rows)?),
            AllocKind::FromPool => {
                let mut pool: Handle = std::ptr::null_mut();
                let device = context.device().handle;
                let default = std::ptr::null_mut();
                // SAFETY: writes one handle.
                unsafe { api.device_get_default_mem_pool(&raw mut pool, device) }?;
                // SAFETY: writes one pointer; null is the default stream.
                unsafe { api.mem_alloc_from_pool_async(&raw mut pointer, bytes, pool, default) }?;
                Place::Pooled(pointer)
            }
            AllocKind::PerThread => {
                let default = std::ptr::null_mut();
                // SAFETY: writes one pointer; null is the thread's default stream.
                unsafe { api.mem_alloc_async_ptsz(&raw mut pointer, bytes, default) }?;
                // It is given back in the other default stream.
                // SAFETY: null is the default stream of the current context.
                unsafe { api.ctx_synchronize() }?;
                Place::Pooled(pointer)
            }
            AllocKind::Global => Place::Global {
                _module: Module::load(context, RESERVE, &reserve(bytes))?,
            },
            AllocKind::GraphNode => Place::Graph(GraphMemory::alloc(context, bytes)?),
        };
        Ok(Self {
            context: context.clone(),
            kind,
            place,
        })
    }

    /// How it came to be.
    pub fn kind(&self) -> AllocKind {
        self.kind
    }

    /// Where it lies; an array has no address.
    pub fn device_ptr(&self) -> Option<DevicePtr> {
        match &self.place {
            Place::Pointer(pointer) | Place::Pooled(pointer) => Some(DevicePtr(*pointer)),
            Place::Virtual(memory) => Some(DevicePtr(memory.address)),
            Place::Graph(memory) => Some(DevicePtr(memory.address)),
            Place::Array(_) | Place::Global { .. } => None,
        }
    }
}

/// Name of the module that has a variable and nothing else.
const RESERVE: &str = "reserve";

/// The module's text: one variable of that many bytes, in a PTX that every device since Volta
/// takes.
fn reserve(bytes: usize) -> String {
    format!(
        ".version 7.0\n.target sm_70\n.address_size 64\n\
         .visible .global .align 16 .b8 {RESERVE}[{bytes}];\n"
    )
}

/// An array of 32-bit numbers with that many rows.
fn array(context: &Context, rows: usize) -> Result<Handle, DriverError> {
    let mut handle: Handle = std::ptr::null_mut();
    let descriptor = ArrayDescriptor {
        width: ROW_BYTES / 4,
        height: rows,
        format: FORMAT_U32,
        channels: 1,
    };
    // SAFETY: writes one handle, reads one structure.
    unsafe {
        context
            .api()
            .array_create(&raw mut handle, &raw const descriptor)
    }?;
    Ok(handle)
}

impl Drop for OtherMemory {
    fn drop(&mut self) {
        let place = &mut self.place;
        self.context.release(|api| match place {
            // SAFETY: allocated by this object, released once.
            Place::Pointer(pointer) => unsafe { api.mem_free(*pointer) },
            Place::Pooled(pointer) => {
                let default = std::ptr::null_mut();
                // SAFETY: allocated by this object, released once; null is the default stream.
                unsafe { api.mem_free_async(*pointer, default) }?;
                // The pool keeps the pages until the next synchronization.
                // SAFETY: null is the default stream of the current context.
                unsafe { api.stream_synchronize(default) }
            }
            Place::Virtual(memory) => memory.free(api),
            Place::Graph(memory) => memory.free(api),
            // SAFETY: made by this object, released once.
            Place::Array(handle) => unsafe { api.array_destroy(*handle) },
            // It unloads itself.
            Place::Global { .. } => Ok(()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_is_another_call() {
        let mut names: Vec<_> = AllocKind::ALL.map(AllocKind::function).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), AllocKind::ALL.len());
    }
}
