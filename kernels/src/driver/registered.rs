//! Pageable host memory that is page-locked after its allocation.
#![expect(unsafe_code, reason = "calls libcuda")]

use super::context::Context;
use super::error::DriverError;

/// Host memory locked by `cuMemHostRegister`.
#[derive(Debug)]
pub struct RegisteredBuffer {
    context: Context,
    memory: Vec<u8>,
}

impl RegisteredBuffer {
    /// Allocates that many bytes, touches and locks them.
    pub fn register(context: &Context, bytes: usize) -> Result<Self, DriverError> {
        let mut memory = vec![1_u8; bytes];
        // SAFETY: the range is the vector's own, which does not move until it is unlocked.
        unsafe { context.api().mem_host_register(memory.as_mut_ptr().cast(), bytes, 0) }?;
        Ok(Self { context: context.clone(), memory })
    }

    /// How many bytes are locked.
    pub fn bytes(&self) -> usize {
        self.memory.len()
    }
}

impl Drop for RegisteredBuffer {
    fn drop(&mut self) {
        let pointer = self.memory.as_mut_ptr();
        // SAFETY: locked by this object, unlocked once, before the memory goes.
        self.context.release(|api| unsafe { api.mem_host_unregister(pointer.cast()) });
    }
}
