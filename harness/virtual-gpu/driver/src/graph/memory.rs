//! Memory of graphs: nodes that allocate, and what the driver keeps for them.
//!
//! A node has its address from the start and memory behind it while the graph that allocated it
//! runs, until something frees it. What is freed stays with the process for the next graph, and so
//! in its account, until `cuDeviceGraphMemTrim`: a pool that never returns memory by itself.

use std::ffi::c_int;

use super::super::pool;
use crate::code::{self, Code};
use crate::entries::{Origin, PoolEntry, StreamEntry};
use crate::operation::Reserved;
use crate::process::{Process, Tables};
use crate::submit::mark;

/// The pool of graphs on a device.
pub fn pool_on(process: &Process, device: c_int) -> Result<usize, Code> {
    let mut tables = process.ready()?;
    if device != 0 {
        return Err(code::INVALID_DEVICE);
    }
    pool_of(&mut tables)
}

/// What the driver keeps for graphs, made at first use.
fn pool_of(tables: &mut Tables) -> Result<usize, Code> {
    if let Some(pool) = tables.graph_pool {
        return Ok(pool);
    }
    let made = PoolEntry { is_default: true, release_threshold: u64::MAX, ..PoolEntry::default() };
    let pool = tables.pools.insert(made)? as usize;
    tables.graph_pool = Some(pool);
    Ok(pool)
}

/// Puts memory behind a reserved address.
pub fn place_reserved(
    process: &Process,
    stream: &StreamEntry,
    Reserved { address, bytes }: Reserved,
) -> Result<(), Code> {
    let pool = {
        let mut tables = process.ready()?;
        if tables.is_mapped(address, bytes) {
            return Err(code::INVALID_VALUE);
        }
        pool_of(&mut tables)?
    };
    let offset = pool::offset_from(process, stream, pool, bytes)?;
    let origin = Origin::Pool(pool);
    process.tables().enter(address, bytes, stream.context, offset, origin);
    mark(process, stream).map(|_| ())
}
