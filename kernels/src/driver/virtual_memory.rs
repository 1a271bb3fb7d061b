//! Memory by the virtual memory calls: physical pages, an address range, and the map between them.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::api::Api;
use super::context::Context;
use super::error::{DriverError, note_drop};
use super::layout::{AccessDescriptor, AllocationProperties, Location};

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
