//! Everything behind the handles of one process, and its ranges of device addresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread::ThreadId;

use crate::addresses::Addresses;
use crate::entries::{
    AllocationEntry, ArrayEntry, ContextEntry, EventEntry, FunctionEntry, GreenEntry, KernelEntry,
    LibraryEntry, LinkEntry, ModuleEntry, Origin, PhysicalEntry, PinnedEntry, PoolEntry, SmRange,
    StreamEntry,
};
use crate::fill_shape::Fill;
use crate::graph::entries::{Capture, ExecEntry, GraphEntry, NodeEntry};
use crate::handles::{Handle, Slab};
use crate::stand_in::StandIn;

/// A copy from the host: its source, its length, and what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCopy {
    pub from: u64,
    pub bytes: u64,
    /// The versions of the allocations that it wrote to.
    pub versions: Vec<u64>,
}

/// Everything behind handles.
#[derive(Debug, Default)]
pub struct Tables {
    /// The variables of MPS when the driver was initialised.
    pub mps_variables: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    /// Whether `cuInit` was called.
    pub initialised: bool,
    pub contexts: Slab<ContextEntry, 1>,
    /// Descriptors of SMs that green contexts are made from.
    pub descriptors: Slab<SmRange, 14>,
    pub greens: Slab<GreenEntry, 15>,
    pub modules: Slab<ModuleEntry, 2>,
    pub functions: Slab<FunctionEntry, 3>,
    pub libraries: Slab<LibraryEntry, 6>,
    pub kernels: Slab<KernelEntry, 7>,
    pub streams: Slab<StreamEntry, 4>,
    /// Each thread's own default stream, by the handle of the context.
    pub per_thread: HashMap<(ThreadId, usize), usize>,
    pub events: Slab<EventEntry, 5>,
    /// The primary context, how often it is retained, and its flags.
    pub primary: Option<(usize, u32)>,
    pub primary_flags: u32,
    /// Allocations by device address.
    pub allocations: BTreeMap<u64, AllocationEntry>,
    /// Pinned host memory by address.
    pub pinned: BTreeMap<usize, PinnedEntry>,
    /// The last copy from the host to each destination.
    pub copies: HashMap<u64, HostCopy>,
    /// Fills that were skipped, by the allocation that they should have filled.
    pub fills: HashMap<u64, SkippedFill>,
    /// What stands for contents that were not computed, by allocation.
    pub stand_ins: HashMap<u64, StandIn>,
    /// What launches cost and wrote, by everything that decides it.
    pub launches: crate::launch::state::LaunchState,
    /// Latest version of an allocation.
    pub latest_version: u64,
    pub addresses: Addresses,
    pub physical: Slab<PhysicalEntry, 8>,
    pub pools: Slab<PoolEntry, 9>,
    /// The device's default pool.
    pub default_pool: Option<usize>,
    /// What is kept for graphs.
    pub graph_pool: Option<usize>,
    pub arrays: Slab<ArrayEntry, 10>,
    pub links: Slab<LinkEntry, 16>,
    pub graphs: Slab<GraphEntry, 11>,
    pub nodes: Slab<NodeEntry, 12>,
    /// Graphs made ready to launch.
    pub execs: Slab<ExecEntry, 13>,
    /// Streams that are recorded into a graph, by slot.
    pub captures: BTreeMap<u32, Capture>,
    /// Events recorded during a capture: the capture's number and the nodes they stand for.
    pub captured_events: HashMap<usize, (u64, Vec<usize>)>,
    /// Latest number of a capture or of an object that is numbered.
    pub latest_number: u64,
}

/// A fill of a whole allocation that was not written when it was made.
#[derive(Debug, Clone)]
pub struct SkippedFill {
    pub fill: Fill,
    /// Version of the allocation after the fill. Any other means a later write.
    pub version: u64,
    /// Chunks that were written since.
    pub good: BTreeSet<u64>,
}

/// A part of a range that lies in one allocation.
#[derive(Debug, Clone, Copy)]
pub struct Piece {
    pub start: u64,
    /// Where the part lies in device memory.
    pub offset: u64,
    /// Length of the part.
    pub bytes: u64,
}

impl Tables {
    /// The allocation that covers a range, by its address.
    pub fn covering(&self, address: u64, bytes: u64) -> Option<(u64, &AllocationEntry)> {
        let (&start, entry) = self.allocations.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        (end <= start + entry.bytes).then_some((start, entry))
    }

    /// The parts of a range that copies may touch, in order; none if any of it may not be
    /// touched. Memory mapped piece by piece at neighbouring addresses is one range.
    pub fn pieces(&self, address: u64, bytes: u64, write: bool) -> Option<Vec<Piece>> {
        let end = address.checked_add(bytes)?;
        let mut out = Vec::new();
        let mut at = address;
        while at < end {
            let (start, entry) = self.covering(at, 1)?;
            if !(if write { entry.writable } else { entry.readable }) {
                return None;
            }
            let length = (start + entry.bytes).min(end) - at;
            let offset = entry.offset + (at - start);
            out.push(Piece { start, offset, bytes: length });
            at += length;
        }
        Some(out)
    }

    /// Whether a range that is about to be entered would overlap one that is there.
    pub fn is_mapped(&self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let below = self.allocations.range(..end).next_back();
        below.is_some_and(|(start, entry)| start + entry.bytes > address)
    }

    /// A version that no allocation has had.
    pub fn fresh_version(&mut self) -> u64 {
        self.latest_version += 1;
        self.latest_version
    }

    /// A number that nothing else has.
    pub fn fresh_number(&mut self) -> u64 {
        self.latest_number += 1;
        self.latest_number
    }

    /// Notes that an allocation was written to.
    pub fn wrote(&mut self, start: u64, unwritten: bool) {
        let version = self.fresh_version();
        if let Some(entry) = self.allocations.get_mut(&start) {
            entry.version = version;
            entry.unwritten = unwritten;
        }
        if !unwritten {
            self.stand_ins.remove(&start);
        }
    }

    /// Notes a fill that was skipped, if it would have filled the whole allocation.
    pub fn skipped(&mut self, piece: &Piece, fill: &Fill) {
        let allocations = &self.allocations;
        self.fills.retain(|at, _| allocations.contains_key(at));
        let Some(entry) = allocations.get(&piece.start) else { return };
        if (piece.offset, piece.bytes) == (entry.offset, entry.bytes) {
            let skipped =
                SkippedFill { fill: *fill, version: entry.version, good: BTreeSet::new() };
            self.fills.insert(piece.start, skipped);
        }
    }

    /// Enters ordinary device memory under its own address.
    pub fn enter(&mut self, address: u64, bytes: u64, context: u32, offset: u64, origin: Origin) {
        let version = self.fresh_version();
        let entry = AllocationEntry {
            bytes,
            context,
            version,
            unwritten: false,
            offset,
            origin,
            readable: true,
            writable: true,
            open: false,
            owner: None,
            view: None,
        };
        self.allocations.insert(address, entry);
        self.stand_ins.remove(&address);
    }

    /// Forgets what belonged to a context that is gone. Its streams and events go with it; their
    /// entries come back so that the caller can free what they hold in the shared state.
    pub fn forget_context(&mut self, slot: u32) -> Vec<EventEntry> {
        self.modules.remove_where(|m| m.context == slot);
        self.functions.remove_where(|f| f.context == slot);
        self.arrays.remove_where(|a| a.context == slot);
        self.execs.remove_where(|e| e.context == slot);
        let gone = self.streams.remove_where(|s| s.context == slot);
        for stream in gone {
            self.captures.remove(&stream.slot);
        }
        let live = |handle: &usize| self.streams.holds(*handle as Handle);
        self.per_thread.retain(|_, handle| live(handle));
        self.drop_pools(slot);
        self.drop_mappings(slot);
        self.allocations.retain(|_, a| a.context != slot);
        self.launches.forget_context(slot);
        self.copies.clear();
        self.events.remove_where(|e| e.context == slot)
    }

    fn drop_pools(&mut self, context: u32) {
        for entry in self.allocations.values().filter(|a| a.context == context) {
            if let Origin::Pool(pool) = entry.origin
                && let Ok(pool) = self.pools.get_mut(pool as Handle)
            {
                let taken = gpubench_virtual_gpu_model::memory::taken(entry.bytes);
                pool.used.0 -= taken;
                pool.reserved.0 -= taken;
            }
        }
        for pool in self.pools.values_mut() {
            let gone = pool.kept.iter().filter(|kept| kept.context == context);
            pool.reserved.0 -= gone.map(|kept| kept.taken).sum::<u64>();
            pool.kept.retain(|kept| kept.context != context);
        }
    }

    /// Takes a context's mappings off the physical memory they hold, and its physical memory off
    /// the addresses where other contexts mapped it.
    fn drop_mappings(&mut self, context: u32) {
        for entry in self.allocations.values().filter(|a| a.context == context) {
            if let Origin::Mapped(handle) = entry.origin
                && let Ok(physical) = self.physical.get_mut(handle as Handle)
            {
                physical.holders -= 1;
            }
        }
        self.physical.remove_where(|p| p.context == context);
        let physical = &self.physical;
        self.allocations.retain(|_, a| match a.origin {
            Origin::Mapped(handle) => physical.holds(handle as Handle),
            _ => true,
        });
    }
}
