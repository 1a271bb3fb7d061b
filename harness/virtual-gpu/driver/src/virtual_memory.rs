//! Physical memory, address ranges, and the maps between them.

use crate::code::{self, Code, refuse};
use crate::device_memory::give_back;
use crate::entries::{Origin, PhysicalEntry};
use crate::handles::Handle;
use crate::process::{Process, Tables};

/// What physical memory comes in, both at least and as recommended.
pub const GRANULARITY: u64 = 2 << 20;

/// Whether a length is a positive multiple of the granularity.
pub fn is_whole(bytes: u64) -> bool {
    bytes != 0 && bytes.is_multiple_of(GRANULARITY)
}

/// The physical memory behind a handle that the program still holds.
pub fn held(tables: &mut Tables, handle: u64) -> Result<&mut PhysicalEntry, Code> {
    let found = tables.physical.get_mut(handle as Handle).ok();
    found.filter(|entry| entry.handles > 0).ok_or(code::INVALID_VALUE)
}

/// Takes one holder off physical memory; with the last one it goes.
pub fn let_go(process: &Process, physical: usize) -> Result<(), Code> {
    let gone = {
        let mut tables = process.tables();
        let entry = tables.physical.get_mut(physical as Handle)?;
        entry.holders -= 1;
        if entry.holders > 0 {
            return Ok(());
        }
        tables.physical.remove(physical as Handle)?
    };
    if gone.owner.is_some() {
        return Ok(());
    }
    give_back(process, gone.offset)
}

/// The maps that make up a range exactly, with the physical memory of each.
pub fn whole_maps(tables: &Tables, pointer: u64, bytes: u64) -> Result<Vec<(u64, usize)>, Code> {
    let end = pointer.checked_add(bytes).ok_or(code::INVALID_VALUE)?;
    let mut out = Vec::new();
    let mut at = pointer;
    for (&address, entry) in tables.allocations.range(pointer..end) {
        let Origin::Mapped(physical) = entry.origin else { return Err(code::INVALID_VALUE) };
        refuse(address != at, code::INVALID_VALUE)?;
        out.push((address, physical));
        at += entry.bytes;
    }
    if at == end && !out.is_empty() { Ok(out) } else { Err(code::INVALID_VALUE) }
}
