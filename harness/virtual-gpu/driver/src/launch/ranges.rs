//! The host memory behind the device addresses that a launch may access.
#![expect(unsafe_code, reason = "device and pinned memory are raw mappings that kernels access")]

use crate::code::{self, Code};
use crate::entries::Origin;
use crate::ipc::{is_usable, owner_lives};
use crate::process::Process;
use gpubench_virtual_gpu_model::state::Cause;
use gpubench_virtual_gpu_ptx::DeviceMemory;

/// The ranges of a launch, and which allocation each belongs to.
pub struct Ranges<'a> {
    /// For the interpreter.
    pub memory: DeviceMemory<'a>,
    /// Address of the allocation behind each range; none for pinned host memory.
    pub starts: Vec<Option<u64>>,
    /// Start of each range.
    pub at: Vec<u64>,
    /// Length of each range.
    pub bytes: Vec<u64>,
    /// Whether other processes or the host may read and write it.
    pub open: Vec<bool>,
    /// Addresses of memory whose owner has ended, where they are unmapped then.
    pub ended: Vec<Addresses>,
}

type Addresses = std::ops::Range<u64>;

struct Range {
    at: u64,
    bytes: u64,
    host: *mut u8,
    readable: bool,
    writable: bool,
    start: Option<u64>,
    open: bool,
    /// Its start address in the L1/TLB model.
    cache_base: u64,
}

impl Ranges<'_> {
    fn add(&mut self, range: &Range) -> Result<(), Code> {
        let Range { at, bytes, host, readable, writable, cache_base, .. } = *range;
        // SAFETY: device memory stays mapped while the process lives, pinned memory until it is
        // freed, which removes it from the table first. Other writes during a launch are races
        // of the program.
        let mapped = unsafe { self.memory.map_raw(at, bytes, host, readable, writable) };
        let index = mapped.map_err(|error| {
            crate::diagnostics::say(&error.to_string());
            code::UNKNOWN
        })?;
        self.memory.set_cache_base(index, cache_base);
        if range.open {
            self.memory.set_written_by_others(index);
        }
        self.starts.push(range.start);
        self.at.push(at);
        self.bytes.push(bytes);
        self.open.push(range.open);
        Ok(())
    }

    /// Whether an argument points to memory that other processes or the host read or write.
    pub fn points_at_open(&self, params: &[u8]) -> bool {
        params.chunks_exact(8).any(|bytes| {
            let mut raw = [0; 8];
            raw.copy_from_slice(bytes);
            let value = u64::from_le_bytes(raw);
            let ranges = self.at.iter().zip(&self.bytes).zip(&self.open);
            let mut open = ranges.filter(|(_, open)| **open);
            open.any(|((&at, &bytes), _)| value >= at && value - at < bytes)
        })
    }
}

/// Address of a pointee in the L1/TLB model: each on large pages of its own, far from the others
/// and from every real address. The cost of a launch then does not depend on addresses.
fn cache_base(pointees: &[u64], address: u64) -> u64 {
    const APART: u64 = 1 << 48;
    let ordinal = pointees.iter().position(|&start| start == address);
    ordinal.map_or(address, |at| (at as u64 + 1) * APART)
}

/// All memory that kernels of a context may access; `pointees` are the allocations that the
/// arguments of the launch point to, in their order.
pub fn ranges(process: &Process, context: u32, pointees: &[u64]) -> Result<Ranges<'static>, Code> {
    let mut out = Ranges {
        memory: DeviceMemory::new(),
        starts: Vec::new(),
        at: Vec::new(),
        bytes: Vec::new(),
        open: Vec::new(),
        ended: Vec::new(),
    };
    let freed = freed_by_owner(process, context, &mut out.ended)?;
    let tables = process.tables();
    for (&address, entry) in &tables.allocations {
        if entry.context != context || !entry.readable || freed.contains(&address) {
            continue;
        }
        out.add(&Range {
            at: address,
            bytes: entry.bytes,
            host: process.host_address(entry.offset, entry.bytes)?,
            readable: true,
            // Kernels read arrays through textures.
            writable: entry.writable && entry.origin != Origin::Array,
            start: Some(address),
            open: entry.open,
            cache_base: cache_base(pointees, address),
        })?;
    }
    for (&address, entry) in &tables.pinned {
        out.add(&Range {
            at: address as u64,
            bytes: entry.bytes as u64,
            host: address as *mut u8,
            readable: true,
            writable: true,
            start: None,
            open: true,
            cache_base: address as u64,
        })?;
    }
    Ok(out)
}

/// Addresses of opened memory whose owner has freed it or has ended. They are unmapped, but those
/// of an ended owner only where the machine's fault table answers an access to them.
fn freed_by_owner(
    process: &Process,
    context: u32,
    ended: &mut Vec<Addresses>,
) -> Result<Vec<u64>, Code> {
    let owned: Vec<_> = {
        let tables = process.tables();
        let opened = tables.allocations.iter().filter(|(_, entry)| entry.context == context);
        opened.filter_map(|(at, entry)| Some((*at, entry.owner?, entry.bytes))).collect()
    };
    let mut out = Vec::new();
    for (address, owner, bytes) in owned {
        if is_usable(process, Some(owner), bytes)? {
            continue;
        }
        if owner_lives(process, &owner)? {
            out.push(address);
        } else if !outlives_its_owner(process, context)? {
            out.push(address);
            ended.push(address..address + bytes);
        }
    }
    Ok(out)
}

/// Whether memory of a process that has ended stays readable for those that opened it. The model
/// counts it as free, so that a new owner may overwrite it.
fn outlives_its_owner(process: &Process, context: u32) -> Result<bool, Code> {
    let device = &process.device;
    let read = device.shared().read(|state| state.contexts.rows[context as usize].server);
    let answer = device.rules().faults.answer(Cause::ExporterEnd, read?);
    Ok((answer.own, answer.peer) == (0, 0))
}
