//! Stream-ordered allocation, and the pools that it takes memory from.
//!
//! A pool keeps freed memory until a call waits, and then as much as its release threshold. Memory
//! is allocated and freed in the order of the calls: effects on bytes happen when a call is made,
//! so that no two uses of a page overlap.

use std::ffi::c_int;

use crate::backing_store::BASE;
use crate::code::{self, Code, refuse};
use crate::device_memory::{self, give_back, take};
use crate::entries::{Kept, Origin, PoolEntry, StreamEntry};
use crate::handles::Handle;
use crate::issue::Issue;
use crate::operation::Reserved;
use crate::process::{Process, Tables, process};
use crate::stream;
use crate::submit::{charge, mark};
use gpubench_virtual_gpu_model::memory;

/// The default pool of a device.
pub fn default_of(device: c_int) -> Result<usize, Code> {
    let mut tables = process()?.ready()?;
    refuse(device != 0, code::INVALID_DEVICE)?;
    default_pool(&mut tables)
}

/// The device's default pool, made at first use.
pub fn default_pool(tables: &mut Tables) -> Result<usize, Code> {
    if let Some(pool) = tables.default_pool {
        return Ok(pool);
    }
    let default = PoolEntry { is_default: true, reuse: [1; 3], ..PoolEntry::default() };
    let handle = tables.pools.insert(default)? as usize;
    tables.default_pool = Some(handle);
    Ok(handle)
}

/// An address for memory that comes when a graph runs.
pub fn reserve(process: &Process, bytes: u64) -> Result<Reserved, Code> {
    let whole = bytes.checked_next_multiple_of(2 << 20).ok_or(code::OUT_OF_MEMORY)?;
    let address = process.tables().addresses.take(whole, 2 << 20, 0);
    Ok(Reserved { address: address.ok_or(code::OUT_OF_MEMORY)?, bytes })
}

/// Allocates memory of a pool in a stream.
pub fn from_pool(
    process: &Process,
    stream: &StreamEntry,
    pool: usize,
    bytes: u64,
) -> Result<u64, Code> {
    let offset = offset_from(process, stream, pool, bytes)?;
    let (address, origin) = (BASE + offset, Origin::Pool(pool));
    process.tables().enter(address, bytes, stream.context, offset, origin);
    Ok(address)
}

/// Takes memory from a pool, which grows if it keeps none that fits. Returns its offset in device
/// memory.
pub fn offset_from(
    process: &Process,
    stream: &StreamEntry,
    pool: usize,
    bytes: u64,
) -> Result<u64, Code> {
    let taken = memory::taken(bytes);
    let host = &process.device.machine().host;
    let kept = {
        let mut tables = process.ready()?;
        let entry = tables.pools.get_mut(pool as Handle)?;
        let fits = |k: &Kept| k.taken == taken && k.context == stream.context;
        let found = entry.kept.iter().position(fits);
        let no_room =
            entry.max_bytes != 0 && entry.reserved.0.saturating_add(taken) > entry.max_bytes;
        refuse(found.is_none() && no_room, code::OUT_OF_MEMORY)?;
        found.map(|index| entry.kept.swap_remove(index).offset)
    };
    let offset = match kept {
        Some(offset) => {
            process.device.charge(host.event_ns)?;
            offset
        }
        None => {
            process.device.charge_locked(host.alloc_ns)?;
            let offset = grow(process, stream.context, bytes)?;
            if let Ok(entry) = process.tables().pools.get_mut(pool as Handle) {
                entry.reserved.0 += taken;
                entry.reserved.1 = entry.reserved.1.max(entry.reserved.0);
            }
            offset
        }
    };
    if let Ok(entry) = process.tables().pools.get_mut(pool as Handle) {
        entry.used.0 += taken;
        entry.used.1 = entry.used.1.max(entry.used.0);
    }
    Ok(offset)
}

/// Takes device memory; when there is none left, the pools return what they keep.
fn grow(process: &Process, context: u32, bytes: u64) -> Result<u64, Code> {
    if let Ok(made) = take(process, context, bytes) {
        return Ok(made.offset);
    }
    let kept: Vec<Kept> = process.tables().pools.values_mut().flat_map(|p| surplus(p, 0)).collect();
    release(process, &kept)?;
    take(process, context, bytes).map(|made| made.offset)
}

/// Frees memory in the order of a stream.
pub fn free(Issue { process, stream, policy }: Issue<'_>, address: u64) -> Result<(), Code> {
    let origin = process.ready()?.allocations.get(&address).map(|entry| entry.origin.clone());
    let origin = origin.ok_or(code::INVALID_VALUE)?;
    if crate::launch::rerun_writes(process, address) {
        stream::wait_for_all(process, stream)?;
    }
    charge(process, policy, process.device.machine().host.event_ns)?;
    match origin {
        Origin::Pool(pool) => keep(process, pool, address)?,
        Origin::Plain | Origin::Managed => {
            device_memory::forget(process, address)?;
        }
        Origin::Module | Origin::Array | Origin::Mapped(_) | Origin::Opened(_) => {
            return Err(code::INVALID_VALUE);
        }
    }
    mark(process, stream).map(|_| ())
}

/// Returns memory to its pool, or to the device if the pool is gone.
pub fn keep(process: &Process, pool: usize, address: u64) -> Result<(), Code> {
    let mut tables = process.tables();
    let entry = tables.allocations.remove(&address).ok_or(code::INVALID_VALUE)?;
    let taken = memory::taken(entry.bytes);
    match tables.pools.get_mut(pool as Handle) {
        Ok(pool) => {
            pool.used.0 -= taken;
            pool.kept.push(Kept { offset: entry.offset, taken, context: entry.context });
            Ok(())
        }
        Err(_) => {
            drop(tables);
            give_back(process, entry.offset)
        }
    }
}

/// Removes from a pool what it keeps beyond `keep_bytes`.
fn surplus(pool: &mut PoolEntry, keep_bytes: u64) -> Vec<Kept> {
    let mut out = Vec::new();
    while pool.reserved.0 > keep_bytes
        && let Some(kept) = pool.kept.pop()
    {
        pool.reserved.0 -= kept.taken;
        out.push(kept);
    }
    out
}

/// Returns memory that a pool kept to the device.
pub fn release(process: &Process, kept: &[Kept]) -> Result<(), Code> {
    kept.iter().try_for_each(|kept| give_back(process, kept.offset))
}

/// Makes a pool return what it keeps beyond `keep_bytes`.
pub fn trim(process: &Process, pool: usize, keep_bytes: u64) -> Result<(), Code> {
    let kept = surplus(process.ready()?.pools.get_mut(pool as Handle)?, keep_bytes);
    release(process, &kept)
}

/// Makes every pool return what is beyond its threshold, as at every wait.
pub fn trim_all(process: &Process) -> Result<(), Code> {
    let kept: Vec<Kept> = {
        let mut tables = process.tables();
        let pools = tables.pools.values_mut();
        pools
            .flat_map(|pool| {
                let keep = pool.release_threshold;
                surplus(pool, keep)
            })
            .collect()
    };
    release(process, &kept)
}
