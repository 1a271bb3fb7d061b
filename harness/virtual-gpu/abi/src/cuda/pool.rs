//! Stream-ordered allocation, and the pools that it takes memory from.
//!
//! A pool keeps what is freed until somebody waits, and then as much as its release threshold
//! says. Memory is given out and freed in the order of the calls: their effects on bytes happen
//! when they are made, so that no two uses of a page can meet.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_void};

use super::action::{Action, Pace, charge, mark, perform};
use super::global::entries;
use super::layout::{AccessDescriptor, Location, PoolProperties};
use super::memory::{give_back, take};
use crate::process::{Process, Tables, process};
use crate::put;
use gpubench_virtual_gpu_driver::backing_store::BASE;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::entries::{Kept, Origin, PoolEntry, StreamEntry};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::memory;

/// Memory for an address that a graph has reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The address.
    pub address: u64,
    /// Length.
    pub bytes: u64,
}

entries! {
    fn cuMemAllocAsync(pointer: *mut u64, bytes: usize, stream: Handle) {
        let process = process()?;
        let pool = device_pools(&mut *process.ready()?)?.1;
        allocate(process, pointer, bytes, pool, stream)
    }

    fn cuMemAllocFromPoolAsync(pointer: *mut u64, bytes: usize, pool: Handle, stream: Handle) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        allocate(process, pointer, bytes, pool as usize, stream)
    }

    fn cuMemFreeAsync(pointer: u64, stream: Handle) {
        let process = process()?;
        let stream = process.stream(stream)?;
        if pointer == 0 {
            return Ok(());
        }
        perform(process, &stream, Action::Free(pointer), Pace::Later)
    }

    fn cuMemPoolCreate(pool: *mut Handle, properties: *const PoolProperties) {
        // SAFETY: the caller's structure.
        let properties = unsafe { super::copies::read(properties) }?;
        // CU_MEM_ALLOCATION_TYPE_PINNED is 1 (cuda.h); pools for export are not there.
        if pool.is_null() || properties.kind != 1 || properties.location != Location::DEVICE {
            return Err(code::INVALID_VALUE);
        }
        if properties.handle_types != 0 {
            return Err(code::NOT_SUPPORTED);
        }
        let process = process()?;
        process.device.charge(process.device.machine().host.other_ns)?;
        let made = PoolEntry {
            max_bytes: properties.max_bytes as u64,
            reuse: [1; 3],
            ..PoolEntry::default()
        };
        let handle = process.ready()?.pools.insert(made)?;
        // SAFETY: the caller's place, checked for null above.
        unsafe { put(pool, handle) }
    }

    fn cuMemPoolDestroy(pool: Handle) {
        let process = process()?;
        if process.ready()?.pools.get(pool)?.is_default {
            return Err(code::INVALID_VALUE);
        }
        let kept = {
            let mut tables = process.tables();
            let entry = tables.pools.remove(pool)?;
            if let Some((default, present)) = &mut tables.device_pools
                && *present == pool as usize
            {
                *present = *default;
            }
            entry.kept
        };
        release(process, &kept)
    }

    fn cuMemPoolTrimTo(pool: Handle, keep_bytes: usize) {
        trim(process()?, pool as usize, keep_bytes as u64)
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        if value.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let process = process()?;
        let mut tables = process.ready()?;
        let entry = tables.pools.get_mut(pool)?;
        // SAFETY: the attribute's type is the one that cuda.h gives it.
        unsafe { set_attribute(entry, attribute, value) }
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let process = process()?;
        let tables = process.ready()?;
        let entry = tables.pools.get(pool)?;
        // An H100 80GB HBM3 refused them (driver 580.159.04 of CUDA 13.0, 2026-11-22).
        if attribute > 8 && !process.device.machine().is_after_cuda_13_0() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the attribute's type is the one that cuda.h gives it; checked for null.
        unsafe { get_attribute(entry, attribute, value) }
    }

    fn cuMemPoolSetAccess(pool: Handle, access: *const AccessDescriptor, count: usize) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        // The device that owns the pool cannot be locked out of it, and there is no other.
        for index in 0..count.min(64) {
            // SAFETY: an array of `count` structures, checked for null.
            let access = unsafe { super::copies::read(access.wrapping_add(index)) }?;
            if access.location != Location::DEVICE || access.flags != 3 {
                return Err(code::INVALID_VALUE);
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const Location) {
        let process = process()?;
        process.ready()?.pools.get(pool)?;
        // SAFETY: the caller's structure and place, checked for null.
        unsafe {
            let known = super::copies::read(location)? == Location::DEVICE;
            put(flags, if known { 3 } else { 0 })
        }
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) {
        // SAFETY: the caller's place, checked for null.
        unsafe { put(pool, pools_of(device)?.0 as Handle) }
    }

    fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) {
        // SAFETY: the caller's place, checked for null.
        unsafe { put(pool, pools_of(device)?.1 as Handle) }
    }

    fn cuDeviceSetMemPool(device: c_int, pool: Handle) {
        let pools = pools_of(device)?;
        let mut tables = process()?.ready()?;
        tables.pools.get(pool)?;
        tables.device_pools = Some((pools.0, pool as usize));
        Ok(())
    }
}

fn pools_of(device: c_int) -> Result<(usize, usize), Code> {
    let mut tables = process()?.ready()?;
    if device != 0 {
        return Err(code::INVALID_DEVICE);
    }
    device_pools(&mut tables)
}

/// The device's default pool and its present one.
fn device_pools(tables: &mut Tables) -> Result<(usize, usize), Code> {
    if let Some(pools) = tables.device_pools {
        return Ok(pools);
    }
    let default = PoolEntry {
        is_default: true,
        reuse: [1; 3],
        ..PoolEntry::default()
    };
    let handle = tables.pools.insert(default)? as usize;
    tables.device_pools = Some((handle, handle));
    Ok((handle, handle))
}

/// # Safety
/// `value` points at a value of the attribute's type.
unsafe fn set_attribute(
    pool: &mut PoolEntry,
    attribute: c_int,
    value: *mut c_void,
) -> Result<(), Code> {
    match attribute {
        // SAFETY: an int by the caller's contract.
        1..=3 => pool.reuse[attribute as usize - 1] = unsafe { value.cast::<c_int>().read() },
        // SAFETY: a 64-bit number by the caller's contract.
        4 => pool.release_threshold = unsafe { value.cast::<u64>().read() },
        6 | 8 => {
            // High watermarks can be set back to the present only, by a 0.
            // SAFETY: a 64-bit number by the caller's contract.
            if unsafe { value.cast::<u64>().read() } != 0 {
                return Err(code::INVALID_VALUE);
            }
            let mark = if attribute == 6 {
                &mut pool.reserved
            } else {
                &mut pool.used
            };
            mark.1 = mark.0;
        }
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

/// # Safety
/// `value` is null or valid for a value of the attribute's type.
unsafe fn get_attribute(
    pool: &PoolEntry,
    attribute: c_int,
    value: *mut c_void,
) -> Result<(), Code> {
    let wide = match attribute {
        4 => Some(pool.release_threshold),
        5 => Some(pool.reserved.0),
        6 => Some(pool.reserved.1),
        7 => Some(pool.used.0),
        8 => Some(pool.used.1),
        13 => Some(pool.max_bytes),
        _ => None,
    };
    if let Some(wide) = wide {
        // SAFETY: the caller's place for a 64-bit number.
        return unsafe { put(value.cast(), wide) };
    }
    let narrow: c_int = match attribute {
        1..=3 => pool.reuse[attribute as usize - 1],
        // Allocation type, export handle types, location id, location type, decompression.
        9 => 1,
        10 | 11 | 14 => 0,
        12 => 1,
        _ => return Err(code::INVALID_VALUE),
    };
    // SAFETY: the caller's place for an int.
    unsafe { put(value.cast(), narrow) }
}

fn allocate(
    process: &Process,
    pointer: *mut u64,
    bytes: usize,
    pool: usize,
    stream: Handle,
) -> Result<(), Code> {
    let stream = process.stream(stream)?;
    if pointer.is_null() || bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    let bytes = bytes as u64;
    let address = if process.tables().captures.contains_key(&stream.slot) {
        let reserved = reserve(process, bytes)?;
        perform(process, &stream, Action::Allocate(reserved), Pace::Later)?;
        reserved.address
    } else {
        let address = from_pool(process, &stream, pool, bytes)?;
        // The place at which the memory changes hands.
        mark(process, &stream)?;
        address
    };
    // SAFETY: the caller's place, checked for null above.
    unsafe { put(pointer, address) }
}

/// An address for memory that comes when a graph runs.
///
/// # Errors
/// When there are no addresses left.
pub(super) fn reserve(process: &Process, bytes: u64) -> Result<Reserved, Code> {
    let whole = bytes
        .checked_next_multiple_of(2 << 20)
        .ok_or(code::OUT_OF_MEMORY)?;
    let address = process.tables().addresses.take(whole, 2 << 20, 0);
    Ok(Reserved {
        address: address.ok_or(code::OUT_OF_MEMORY)?,
        bytes,
    })
}

fn from_pool(
    process: &Process,
    stream: &StreamEntry,
    pool: usize,
    bytes: u64,
) -> Result<u64, Code> {
    let offset = offset_from(process, stream, pool, bytes)?;
    let (address, origin) = (BASE + offset, Origin::Pool(pool));
    process
        .tables()
        .enter(address, bytes, stream.context, offset, origin);
    Ok(address)
}

/// Takes memory from a pool, which grows where it keeps none that fits. Gives its place in device
/// memory.
///
/// # Errors
/// When memory is out, or the pool may not grow.
pub(super) fn offset_from(
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
        if found.is_none() && no_room {
            return Err(code::OUT_OF_MEMORY);
        }
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

/// Takes device memory; when there is none left, what the pools keep goes first.
fn grow(process: &Process, context: u32, bytes: u64) -> Result<u64, Code> {
    if let Ok(made) = take(process, context, bytes) {
        return Ok(made.offset);
    }
    let kept: Vec<Kept> = process
        .tables()
        .pools
        .values_mut()
        .flat_map(|p| surplus(p, 0))
        .collect();
    release(process, &kept)?;
    take(process, context, bytes).map(|made| made.offset)
}

/// Frees memory in the order of a stream.
///
/// # Errors
/// When the address is not the start of memory that can be freed so.
pub(super) fn free(
    process: &Process,
    stream: &StreamEntry,
    address: u64,
    pace: Pace,
) -> Result<(), Code> {
    let origin = process
        .ready()?
        .allocations
        .get(&address)
        .map(|entry| entry.origin.clone());
    let origin = origin.ok_or(code::INVALID_VALUE)?;
    if crate::launch::owes(process, address) {
        super::stream::wait_for_all(process, stream)?;
    }
    charge(process, pace, process.device.machine().host.event_ns)?;
    match origin {
        Origin::Pool(pool) => keep(process, pool, address)?,
        Origin::Plain | Origin::Managed => {
            super::memory::forget(process, address)?;
        }
        Origin::Module | Origin::Array | Origin::Mapped(_) | Origin::Opened(_) => {
            return Err(code::INVALID_VALUE);
        }
    }
    mark(process, stream).map(|_| ())
}

/// Takes memory from its user into its pool; without a pool, back to the device.
///
/// # Errors
/// When nothing is there.
pub(super) fn keep(process: &Process, pool: usize, address: u64) -> Result<(), Code> {
    let mut tables = process.tables();
    let entry = tables
        .allocations
        .remove(&address)
        .ok_or(code::INVALID_VALUE)?;
    let taken = memory::taken(entry.bytes);
    match tables.pools.get_mut(pool as Handle) {
        Ok(pool) => {
            pool.used.0 -= taken;
            pool.kept.push(Kept {
                offset: entry.offset,
                taken,
                context: entry.context,
            });
            Ok(())
        }
        Err(_) => {
            drop(tables);
            give_back(process, entry.offset)
        }
    }
}

/// Takes out of a pool what it keeps beyond so many bytes.
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

fn release(process: &Process, kept: &[Kept]) -> Result<(), Code> {
    kept.iter()
        .try_for_each(|kept| give_back(process, kept.offset))
}

/// Has a pool give back what it keeps beyond so many bytes.
///
/// # Errors
/// When there is no such pool, or the device cannot be asked.
pub(super) fn trim(process: &Process, pool: usize, keep_bytes: u64) -> Result<(), Code> {
    let kept = surplus(process.ready()?.pools.get_mut(pool as Handle)?, keep_bytes);
    release(process, &kept)
}

/// Lets every pool give back what is beyond its threshold, as at every wait.
///
/// # Errors
/// When the device cannot be asked.
pub(super) fn trim_all(process: &Process) -> Result<(), Code> {
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
