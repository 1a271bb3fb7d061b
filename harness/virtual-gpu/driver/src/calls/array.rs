//! Arrays: device memory in the shape of a texture. There are no textures, only the bytes.

use std::ffi::{c_int, c_uint};

use crate::backing_store::BASE;
use crate::code::{self, Code};
use crate::device_memory::{forget, take};
use crate::entries::{ArrayEntry, Origin};
use crate::handles::Handle;
use crate::process::process;

/// Widest array in each dimension (CUDA C++ Programming Guide, technical specifications).
const WIDEST: [usize; 2] = [131_072, 65_536];

/// Bytes of one channel (`CUarray_format`, cuda.h); only the plain formats.
fn channel_bytes(format: c_int) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}

/// Makes an array with these sides; a height of 0 is one that the array does not have.
pub fn create(sides: [usize; 2], format: c_int, channels: c_uint) -> Result<Handle, Code> {
    let element_bytes = channel_bytes(format)
        .filter(|_| [1, 2, 4].contains(&channels))
        .map(|bytes| bytes * u64::from(channels))
        .ok_or(code::INVALID_VALUE)?;
    let too_wide = sides.iter().zip(WIDEST).any(|(side, max)| *side > max);
    if sides[0] == 0 || too_wide {
        return Err(code::INVALID_VALUE);
    }
    // The widest of all are 2^33 elements of 16 bytes: no overflow.
    let elements: u64 = sides.iter().map(|&side| side.max(1) as u64).product();
    let bytes = elements * element_bytes;
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let offset = take(process, context, bytes)?.offset;
    let address = BASE + offset;
    let mut tables = process.tables();
    tables.enter(address, bytes, context, offset, Origin::Array);
    tables.arrays.insert(ArrayEntry { address, context })
}

/// Destroys an array once the work of its context is done.
pub fn destroy(array: Handle) -> Result<(), Code> {
    let process = process()?;
    process.current()?;
    let entry = *process.ready()?.arrays.get(array)?;
    process.device.wait_context(entry.context)?;
    process.charge_locked(process.host().free_ns)?;
    forget(process, entry.address)?;
    process.tables().arrays.remove(array)?;
    Ok(())
}
