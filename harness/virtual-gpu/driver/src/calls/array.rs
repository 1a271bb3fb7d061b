//! Arrays, device memory in the shape of a texture, and textures over them or over other memory.

use std::ffi::{c_int, c_uint};

use crate::backing_store::BASE;
use crate::code::{self, Code, refuse};
use crate::copy_shape::Place;
use crate::device_memory::{forget, take};
use crate::entries::{ArrayEntry, Origin};
use crate::handles::Handle;
use crate::process::{Process, process};
use gpubench_virtual_gpu_ptx::{TEXTURE_BYTES, Texture};

/// Widest array with one, two and three sides (CUDA C++ Programming Guide, technical
/// specifications).
const WIDEST: [[usize; 3]; 2] = [[131_072, 65_536, 0], [16_384; 3]];

/// Bytes of one channel (`CUarray_format`, cuda.h); only the plain formats.
fn channel_bytes(format: c_int) -> Option<u64> {
    match format {
        0x01 | 0x08 => Some(1),
        0x02 | 0x09 | 0x10 => Some(2),
        0x03 | 0x0a | 0x20 => Some(4),
        _ => None,
    }
}

fn element_bytes(format: c_int, channels: c_uint) -> Result<u64, Code> {
    let bytes = channel_bytes(format).filter(|_| [1, 2, 4].contains(&channels));
    bytes.map(|bytes| bytes * u64::from(channels)).ok_or(code::INVALID_VALUE)
}

impl ArrayEntry {
    fn element(&self) -> Result<u64, Code> {
        element_bytes(self.format, self.channels)
    }

    fn pitch(&self) -> Result<u64, Code> {
        Ok(self.sides[0] as u64 * self.element()?)
    }
}

/// Makes an array with these sides; 0 is one that the array does not have.
pub fn create(sides: [usize; 3], format: c_int, channels: c_uint) -> Result<Handle, Code> {
    let element = element_bytes(format, channels)?;
    let widest = WIDEST[usize::from(sides[2] > 0)];
    if sides[0] == 0 || sides.iter().zip(widest).any(|(side, max)| *side > max) {
        return Err(code::INVALID_VALUE);
    }
    // The widest of all are 2^42 elements of 16 bytes: no overflow.
    let elements: u64 = sides.iter().map(|&side| side.max(1) as u64).product();
    let process = process()?;
    let context = process.current()?.slot;
    process.charge_locked(process.host().alloc_ns)?;
    let address = hidden(process, context, elements * element)?;
    let mut tables = process.tables();
    tables.arrays.insert(ArrayEntry { address, context, sides, format, channels })
}

/// Memory that programs reach by a handle.
fn hidden(process: &Process, context: u32, bytes: u64) -> Result<u64, Code> {
    let offset = take(process, context, bytes)?.offset;
    process.tables().enter(BASE + offset, bytes, context, offset, Origin::Array);
    Ok(BASE + offset)
}

/// The place of an element, given by the bytes before it in its row, and the bytes of a row.
pub fn place_in(array: Handle, x_bytes: usize, y: usize) -> Result<(Place, u64), Code> {
    let entry = *process()?.ready()?.arrays.get(array)?;
    let pitch = entry.pitch()?;
    refuse(x_bytes as u64 >= pitch || y >= entry.sides[1].max(1), code::INVALID_VALUE)?;
    Ok((Place::Device(entry.address + y as u64 * pitch + x_bytes as u64), pitch))
}

#[derive(Debug, Clone, Copy)]
pub enum Resource {
    Array(Handle),
    /// Device memory: address, format, channels, width and height in elements, and bytes of a row.
    Memory(u64, c_int, c_uint, [usize; 2], usize),
}

/// Makes a texture. How it is read is in `how`; the rest of it comes from the resource.
pub fn texture(resource: Resource, how: Texture) -> Result<u64, Code> {
    let process = process()?;
    let context = process.current()?.slot;
    let (address, format, channels, sides, pitch) = match resource {
        Resource::Array(array) => {
            let entry = *process.ready()?.arrays.get(array)?;
            let [width, height, depth] = entry.sides;
            refuse(depth > 0, code::NOT_SUPPORTED)?;
            let pitch = entry.pitch()?;
            (entry.address, entry.format, entry.channels, [width, height], pitch)
        }
        Resource::Memory(address, format, channels, sides, pitch) => {
            (address, format, channels, sides, pitch as u64)
        }
    };
    let row = sides[0] as u64 * element_bytes(format, channels)?;
    let bytes = pitch.checked_mul(sides[1].max(1) as u64 - 1).and_then(|all| all.checked_add(row));
    let bytes = bytes.ok_or(code::INVALID_VALUE)?;
    let is_there = process.ready()?.pieces(address, bytes, false).is_some();
    let narrow = |side: usize| u32::try_from(side.max(1)).map_err(|_| code::INVALID_VALUE);
    refuse(row == 0 || pitch < row || !is_there, code::INVALID_VALUE)?;
    let [width, height] = [narrow(sides[0])?, narrow(sides[1])?];
    let format = format.unsigned_abs();
    let made = Texture { address, pitch, width, height, format, channels, ..how };
    let object = hidden(process, context, TEXTURE_BYTES as u64)?;
    let to = process.host_address(object - BASE, TEXTURE_BYTES as u64)?;
    crate::bytes::write_host(to as u64, &made.pack());
    Ok(object)
}

/// Destroys a texture once the work of its context is done.
pub fn destroy_texture(object: u64) -> Result<(), Code> {
    let process = process()?;
    let context = process.current()?.slot;
    let entry = process.ready()?.allocations.get(&object).cloned();
    let is_object = |entry: &crate::entries::AllocationEntry| {
        entry.origin == Origin::Array && entry.bytes == TEXTURE_BYTES as u64
    };
    let arrays = process.ready()?.arrays.values().any(|array| array.address == object);
    refuse(!entry.is_some_and(|entry| is_object(&entry)) || arrays, code::INVALID_VALUE)?;
    process.device.wait_context(context)?;
    forget(process, object)
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
