//! Memory that a graph node allocates when the graph is launched, without a call that allocates.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::{Api, Handle};
use super::context::Context;
use super::error::{DriverError, note_drop};
use super::layout::{AllocNode, Location, PoolProperties};

/// Numbers of cuda.h: `CU_MEM_ALLOCATION_TYPE_PINNED` and `CU_MEM_LOCATION_TYPE_DEVICE`.
const PINNED: i32 = 1;
const DEVICE: i32 = 1;

/// A graph that allocated memory; it has no node that frees it.
#[derive(Debug)]
pub(super) struct GraphMemory {
    pub(super) address: u64,
    /// Whether the graph was launched, so that the memory exists.
    taken: bool,
    graph: Handle,
    executable: Handle,
    device: i32,
}

impl GraphMemory {
    /// Makes a graph of one node that allocates that many bytes, and launches it.
    pub(super) fn alloc(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let mut memory = Self {
            address: 0,
            taken: false,
            graph: std::ptr::null_mut(),
            executable: std::ptr::null_mut(),
            device: context.device().handle,
        };
        match memory.build(context.api(), bytes) {
            Ok(()) => Ok(memory),
            Err(error) => {
                note_drop(memory.free(context.api()));
                Err(error)
            }
        }
    }

    fn build(&mut self, api: &Api, bytes: usize) -> Result<(), DriverError> {
        let location = Location { kind: DEVICE, id: self.device };
        let mut params = AllocNode {
            pool: PoolProperties {
                kind: PINNED,
                handle_types: 0,
                location,
                win32_attributes: std::ptr::null_mut(),
                max_bytes: 0,
                reserved: [0; 56],
            },
            access: std::ptr::null(),
            access_count: 0,
            bytes,
            pointer: 0,
        };
        let mut node: Handle = std::ptr::null_mut();
        let (none, default) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: writes one handle.
        unsafe { api.graph_create(&raw mut self.graph, 0) }?;
        // SAFETY: writes one handle and the structure, which lives; there are no dependencies.
        unsafe {
            api.graph_add_mem_alloc_node(&raw mut node, self.graph, none, 0, &raw mut params)
        }?;
        self.address = params.pointer;
        // SAFETY: writes one handle; the graph was just made.
        unsafe { api.graph_instantiate(&raw mut self.executable, self.graph, 0) }?;
        // SAFETY: the handle is alive; null is the default stream.
        unsafe { api.graph_launch(self.executable, default) }?;
        self.taken = true;
        // SAFETY: null is the default stream of the current context.
        unsafe { api.stream_synchronize(default) }
    }

    /// Frees what exists, in the order of creation; returns the first error.
    pub(super) fn free(&mut self, api: &Api) -> Result<(), DriverError> {
        let mut freed = Ok(());
        if self.taken {
            let default = std::ptr::null_mut();
            // SAFETY: taken by this object's graph, released once; null is the default stream.
            freed = unsafe { api.mem_free_async(self.address, default) };
            // SAFETY: null is the default stream of the current context.
            freed = freed.and(unsafe { api.stream_synchronize(default) });
        }
        if !self.executable.is_null() {
            // SAFETY: made by this object, released once.
            freed = freed.and(unsafe { api.graph_exec_destroy(self.executable) });
        }
        if !self.graph.is_null() {
            // SAFETY: made by this object, released once.
            freed = freed.and(unsafe { api.graph_destroy(self.graph) });
        }
        // The driver keeps the pages of graphs for later graphs until they are trimmed.
        // SAFETY: takes a plain number.
        freed.and(unsafe { api.device_graph_mem_trim(self.device) })
    }
}
