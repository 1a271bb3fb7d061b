//! Handles of objects that programs make, with NVML's result for an invalid one.

use super::returns::{self, Return};
use gpubench_virtual_gpu_driver::handles::{Handle, Slab};

/// A table of objects behind handles.
pub struct Objects<T>(Slab<T>);

impl<T> Objects<T> {
    /// An empty table. `kind` distinguishes its handles from those of other tables.
    pub const fn new(kind: u8) -> Self {
        Self(Slab::new(kind))
    }

    /// Keeps an object and returns its handle.
    pub fn insert(&mut self, value: T) -> Result<Handle, Return> {
        self.0
            .insert(value)
            .map_err(|_| returns::INSUFFICIENT_RESOURCES)
    }

    /// The object behind a handle.
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut T, Return> {
        self.0
            .get_mut(handle)
            .map_err(|_| returns::INVALID_ARGUMENT)
    }

    /// Removes the object, which invalidates its handle.
    pub fn remove(&mut self, handle: Handle) -> Result<T, Return> {
        self.0.remove(handle).map_err(|_| returns::INVALID_ARGUMENT)
    }
}
