//! Calls on memory pools and stream-ordered allocation.

use std::ffi::c_int;

use crate::code::{self, Code, refuse};
use crate::entries::PoolEntry;
use crate::execute::perform;
use crate::handles::Handle;
use crate::operation::{Action, WaitPolicy};
use crate::pool::{default_pool, from_pool, release, reserve};
use crate::process::process;
use crate::submit::mark;

/// Allocates memory in the order of a stream, from a pool or from the device's own.
pub fn allocate(pool: Option<Handle>, bytes: usize, stream: Handle) -> Result<u64, Code> {
    let process = process()?;
    let pool = {
        let mut tables = process.ready()?;
        match pool {
            Some(pool) => tables.pools.get(pool).map(|_| pool as usize)?,
            None => default_pool(&mut tables)?,
        }
    };
    let stream = process.stream(stream)?;
    refuse(bytes == 0, code::INVALID_VALUE)?;
    let bytes = bytes as u64;
    if process.tables().captures.contains_key(&stream.slot) {
        let reserved = reserve(process, bytes)?;
        let action = Action::Allocate(reserved);
        perform(process, &stream, action, WaitPolicy::Later)?;
        return Ok(reserved.address);
    }
    let address = from_pool(process, &stream, pool, bytes)?;
    mark(process, &stream)?;
    Ok(address)
}

/// Frees memory in the order of a stream.
pub fn free(pointer: u64, stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    if pointer == 0 {
        return Ok(());
    }
    perform(process, &stream, Action::Free(pointer), WaitPolicy::Later)
}

/// Makes a pool, without a limit if `max_bytes` is 0.
pub fn create(max_bytes: u64) -> Result<Handle, Code> {
    let process = process()?;
    process.charge(process.host().other_ns)?;
    process.ready()?.pools.insert(PoolEntry { max_bytes, reuse: [1; 3], ..PoolEntry::default() })
}

pub fn destroy(pool: Handle) -> Result<(), Code> {
    let process = process()?;
    let kept = {
        let mut tables = process.ready()?;
        refuse(tables.pools.get(pool)?.is_default, code::INVALID_VALUE)?;
        tables.pools.remove(pool)?.kept
    };
    release(process, &kept)
}

/// Sets an attribute (`CUmemPool_attribute`, cuda.h).
pub fn set_attribute(pool: &mut PoolEntry, attribute: c_int, value: u64) -> Result<(), Code> {
    match attribute {
        1..=3 => pool.reuse[attribute as usize - 1] = value as c_int,
        4 => pool.release_threshold = value,
        // High watermarks can only be reset to the present value, by a 0.
        6 if value == 0 => pool.reserved.1 = pool.reserved.0,
        8 if value == 0 => pool.used.1 = pool.used.0,
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

/// An attribute, and whether it has 64 bits; the others are of type `int`.
pub fn attribute_of(pool: &PoolEntry, attribute: c_int) -> Result<(u64, bool), Code> {
    Ok(match attribute {
        1..=3 => (pool.reuse[attribute as usize - 1] as u64, false),
        4 => (pool.release_threshold, true),
        5 => (pool.reserved.0, true),
        6 => (pool.reserved.1, true),
        7 => (pool.used.0, true),
        8 => (pool.used.1, true),
        // Allocation type, export handle types, location id and type, decompression.
        9 | 12 => (1, false),
        10 | 11 | 14 => (0, false),
        13 => (pool.max_bytes, true),
        _ => return Err(code::INVALID_VALUE),
    })
}
