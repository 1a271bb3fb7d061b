//! Managed memory: one address for host and device.
//!
//! The host sees the very pages of device memory that kernels use, at the address that kernels
//! use. All of it lies on the device from the start, so that there is no more of it than device
//! memory.

use std::sync::Arc;

use crate::code::{self, Code};
use crate::device_memory;
use crate::entries::Origin;
use crate::process::process;

/// Granularity of managed memory.
const PAGE: u64 = 2 << 20;

/// Allocates managed memory, and maps it for the host.
pub fn allocate(bytes: usize) -> Result<u64, Code> {
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let whole = (bytes as u64).checked_next_multiple_of(PAGE);
    let made = device_memory::take(process, context, whole.ok_or(code::OUT_OF_MEMORY)?)?;
    let viewed = device_memory::clear(process, &made).and_then(|()| {
        let view = process.contents.view(made.offset, made.taken);
        Ok(view?)
    });
    let view = match viewed {
        Ok(view) => view,
        Err(code) => {
            device_memory::give_back(process, made.offset)?;
            return Err(code);
        }
    };
    let address = view.address();
    let mut tables = process.tables();
    tables.enter(address, bytes as u64, context, made.offset, Origin::Managed);
    if let Some(entry) = tables.allocations.get_mut(&address) {
        entry.open = true;
        entry.view = Some(Arc::new(view));
    }
    Ok(address)
}
