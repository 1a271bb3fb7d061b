//! Handles of what programs make: the slots of `abi::handles`, with NVML's answer to a wild one.

use super::returns::{self, Return};
use gpubench_virtual_gpu_driver::handles::{Handle, Slab};

/// A table of objects behind handles.
pub struct Objects<T>(Slab<T>);

impl<T> Objects<T> {
    /// An empty table, whose handles are told apart from all others by `kind`.
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

    /// Takes the object out; its handle is dead from then on.
    pub fn remove(&mut self, handle: Handle) -> Result<T, Return> {
        self.0.remove(handle).map_err(|_| returns::INVALID_ARGUMENT)
    }
}
