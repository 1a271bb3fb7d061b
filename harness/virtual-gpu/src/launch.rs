//! Launching a kernel: execute it, find out what it costs, queue it on the device.
//!
//! A launch is executed when it is made, its time passes in the model. Launches that are too large
//! to execute in full are executed on a sample of blocks; what they should have written counts as
//! unwritten, and reading it fails. An equal launch on unchanged memory is not executed again, and
//! a sampled one not even in another context or process.
//! Kernels that read `%globaltimer` are executed once more when the model knows when they ran.

mod clocking;
mod deferred;
mod execute;
mod ledger;
mod ranges;
mod shape;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::abi::code::{self, Code};
use crate::abi::cuda::action::{Pace, charge};
use crate::abi::cuda::noisy;
use crate::abi::entries::Seat;
use crate::abi::process::{FunctionEntry, Process, StreamEntry, Tables};
use crate::abi::tables::Piece;
use crate::cost::Cost;
use crate::ptx;
use crate::state::{Op, OpKind};

pub use clocking::Clocking;
use deferred::{Deferred, Work};
pub use deferred::{
    finish_deferred, finish_deferred_writes, is_owed, owed, owes, repeat_later, store_later,
};

use execute::{Outcome, execute};
pub use ledger::Ledger;
pub use shape::{Shape, blocks_per_sm, check, check_residence};

/// Environment variable of a process that reads no results of large launches, so that they may be
/// sampled in wall time too: executing them in full would take real time that no GPU takes.
pub const SAMPLE_ENV: &str = "GPUBENCH_VIRTUAL_GPU_SAMPLE";

/// Writes to one allocation that are remembered; where more lie between a launch and its equal, it
/// is executed again.
const WRITES_MAX: usize = 64;

/// One launch as the program asked for it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The kernel.
    pub function: &'a FunctionEntry,
    /// Where to.
    pub stream: StreamEntry,
    /// Its shape.
    pub shape: Shape,
    /// The arguments, laid out.
    pub params: Vec<u8>,
}

/// Everything that decides what a launch does, memory contents aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    hash: u64,
    name: String,
    context: u32,
    seat: Seat,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// Its blocks run together, since they may wait for each other.
    together: bool,
    params: Vec<u8>,
}

/// What is known of a launch that was executed before.
#[derive(Debug, Clone)]
struct Known {
    cost: Cost,
    by_clock: bool,
    /// Allocations read, with their versions at the time.
    reads: Vec<(u64, u64)>,
    /// Allocations written, with their versions afterwards.
    writes: Vec<(u64, u64)>,
    /// For each of them, the first byte touched and the one after the last.
    extents: Vec<(u64, u64)>,
    /// Parts of pinned host memory that were written.
    pinned: Vec<Range<usize>>,
    /// Only some of its blocks were executed.
    sampled: bool,
    /// Executing it again on the same memory would change nothing.
    repeatable: bool,
    /// It wrote nothing, and touched nothing that others read: there are no stamps to be made
    /// true. A kernel that did not write under a clock that began at zero is taken not to write.
    mute: bool,
}

impl Known {
    /// Notes what an operation writes that is such a launch.
    fn note(&self, process: &Process, by: (u32, u64)) -> Result<(), Code> {
        let pieces: Vec<Piece> = {
            let tables = process.tables();
            let parts = self.writes.iter().zip(&self.extents);
            let piece = |(&(start, _), &(first, last)): (&(u64, u64), &(u64, u64))| {
                let offset = tables.allocations.get(&start)?.offset + first;
                let bytes = last - first;
                Some(Piece {
                    start,
                    offset,
                    bytes,
                })
            };
            parts.filter_map(piece).collect()
        };
        process.wrote_pieces(&pieces, by)?;
        for part in &self.pinned {
            process.wrote_pinned(part.clone(), by);
        }
        Ok(())
    }
}

/// What a process remembers of its launches.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    known: HashMap<Key, Known>,
    deferred: Vec<Deferred>,
    /// By allocation, the last writes of launches to a part of it.
    partial: HashMap<u64, VecDeque<PartialWrite>>,
}

/// A launch wrote a part of an allocation and nothing beside it.
#[derive(Debug, Clone, Copy)]
struct PartialWrite {
    before: u64,
    after: u64,
    extent: (u64, u64),
}

impl Memory {
    /// Forgets a context that is gone.
    pub fn forget_context(&mut self, context: u32) {
        self.known.retain(|key, _| key.context != context);
        self.deferred.retain(|deferred| deferred.context != context);
    }

    fn note(&mut self, start: u64, write: PartialWrite) {
        let writes = self.partial.entry(start).or_default();
        if writes.len() == WRITES_MAX {
            writes.pop_front();
        }
        writes.push_back(write);
    }

    /// Whether an extent still holds what it held at version `then`, now that the allocation has
    /// version `now`: every write between the two is known and lies beside it.
    fn untouched(&self, start: u64, extent: (u64, u64), then: u64, now: u64) -> bool {
        let mut version = now;
        let known = self.partial.get(&start).into_iter().flatten();
        for write in known.rev() {
            if version == then {
                break;
            }
            let beside = write.extent.1 <= extent.0 || extent.1 <= write.extent.0;
            if write.after != version || !beside {
                return false;
            }
            version = write.before;
        }
        version == then
    }
}

/// Executes and queues a launch.
///
/// # Errors
/// For impossible shapes at once; faults of the kernel come back from the next call that waits.
pub fn launch(process: &Process, request: &Request<'_>, pace: Pace) -> Result<(), Code> {
    let device = &process.device;
    if request.function.context != request.stream.context {
        return Err(code::INVALID_HANDLE);
    }
    let shape = &request.shape;
    shape::check_residence(process, request.function, shape, &request.stream.seat)?;
    let properties = kernel_of(request.function)?.properties;
    // What branches on no word of memory cannot wait for other blocks.
    let together = shape.cooperative && properties.follows_data;
    if together && properties.reads_globaltimer {
        crate::abi::say(&format!(
            "{}: a cooperative kernel that branches on memory and reads %globaltimer would have to \
             be executed twice, which its blocks could tell",
            request.function.name
        ));
        return Err(code::NOT_SUPPORTED);
    }
    charge(process, pace, device.machine().host.launch_ns)?;
    let key = Key {
        hash: request.function.hash,
        name: request.function.name.clone(),
        context: request.stream.context,
        seat: request.stream.seat,
        grid: shape.grid,
        block: shape.block,
        shared_bytes: shape.shared_bytes,
        together,
        params: request.params.clone(),
    };
    let known = recall(process, &key);
    let (known, fault) = match known {
        Some(known) => (known, None),
        None => {
            let outcome = found_out(process, request.function, &key)?;
            let fault = outcome.fault.clone();
            (remember(process, &key, outcome), fault)
        }
    };
    let fault = fault.or_else(|| execute::planted(device.machine(), shape.grid, shape.block));
    let timed = properties.reads_globaltimer;
    let alone_ns = noisy(process, request.stream.slot, known.cost.alone_ns)?;
    let op = Op {
        kind: OpKind::Kernel,
        by_clock: known.by_clock,
        fault: fault.as_ref().map_or(0, |fault| fault.code.0),
        xid: fault.as_ref().map_or(0, |fault| fault.xid),
        alone_ns,
        power_mw: known.cost.power_mw,
        sms: known.cost.sms,
        demand: known.cost.demand,
        ..Op::default()
    };
    let seq = device.submit(request.stream.slot, op)?;
    known.note(process, (request.stream.slot, seq))?;
    if timed && fault.is_none() && !known.mute {
        let writes = known.writes.iter().map(|&(start, _)| start).collect();
        process.tables().launches.deferred.push(Deferred {
            stream: request.stream.slot,
            context: request.stream.context,
            seq,
            writes,
            pinned: known.pinned.clone(),
            work: Work::Launch {
                key: Box::new(key),
                function: request.function.clone(),
                alone_ns: (!known.by_clock).then_some(known.cost.alone_ns),
            },
        });
    }
    Ok(())
}

/// What a launch costs and touches: found out before by whoever on this device, or now.
fn found_out(process: &Process, function: &FunctionEntry, key: &Key) -> Result<Outcome, Code> {
    let launch = ledger::nameless(process, function, key)?;
    if let Some(outcome) = process.ledger().find(&launch) {
        return Ok(outcome);
    }
    let outcome = execute(process, function, key, &launch.pointees, &Clocking::Ideal)?;
    process.ledger().keep(&launch, &outcome);
    Ok(outcome)
}

fn kernel_of(function: &FunctionEntry) -> Result<&ptx::Kernel, Code> {
    function
        .program
        .module()
        .kernel(&function.name)
        .ok_or(code::NOT_FOUND)
}

/// What is known of an equal launch, if executing it again would tell nothing new. Marks what a
/// sampled launch would have written.
fn recall(process: &Process, key: &Key) -> Option<Known> {
    let mut tables = process.tables();
    let known = tables.launches.known.get(key)?.clone();
    if known.sampled {
        for &(start, _) in &known.writes {
            let already = tables.allocations.get(&start).is_some_and(|a| a.unwritten);
            if !already {
                tables.wrote(start, true);
            }
        }
        return Some(known);
    }
    let same = |&(start, version): &(u64, u64)| {
        tables
            .allocations
            .get(&start)
            .is_some_and(|a| a.version == version)
    };
    let kept = |(&(start, version), &extent): (&(u64, u64), &(u64, u64))| {
        tables
            .allocations
            .get(&start)
            .is_some_and(|a| tables.launches.untouched(start, extent, version, a.version))
    };
    let unchanged =
        known.reads.iter().all(same) && known.writes.iter().zip(&known.extents).all(kept);
    (known.repeatable && unchanged).then_some(known)
}

fn remember(process: &Process, key: &Key, outcome: Outcome) -> Known {
    let mut tables = process.tables();
    for (&start, &extent) in outcome.writes.iter().zip(&outcome.extents) {
        let version = |tables: &Tables| tables.allocations.get(&start).map_or(0, |a| a.version);
        let before = version(&tables);
        tables.wrote(start, outcome.sampled);
        let after = version(&tables);
        // Of a sampled launch not all is known that it writes: what follows it starts anew.
        if !outcome.sampled {
            tables.launches.note(
                start,
                PartialWrite {
                    before,
                    after,
                    extent,
                },
            );
        }
    }
    let versions = |starts: &[u64]| -> Vec<(u64, u64)> {
        starts
            .iter()
            .filter_map(|&start| Some((start, tables.allocations.get(&start)?.version)))
            .collect()
    };
    let disjoint = outcome
        .reads
        .iter()
        .all(|start| !outcome.writes.contains(start));
    let known = Known {
        cost: outcome.cost,
        by_clock: outcome.by_clock,
        reads: versions(&outcome.reads),
        writes: versions(&outcome.writes),
        extents: outcome.extents.clone(),
        pinned: outcome.pinned.clone(),
        mute: outcome.writes.is_empty() && !outcome.open && !outcome.printed,
        sampled: outcome.sampled,
        repeatable: disjoint && outcome.fault.is_none() && !outcome.uses_atomics && !outcome.open,
    };
    // A program that never repeats itself must not fill the host's memory.
    const REMEMBERED: usize = 4096;
    if tables.launches.known.len() >= REMEMBERED {
        tables.launches.known.clear();
    }
    if outcome.fault.is_none() {
        tables.launches.known.insert(key.clone(), known.clone());
    }
    known
}

#[cfg(test)]
mod tests {
    use super::{Memory, PartialWrite, WRITES_MAX};

    #[test]
    fn an_extent_is_untouched_while_every_write_since_is_known_and_lies_beside_it() {
        let mut memory = Memory::default();
        let mut write = |before, after, extent| {
            let write = PartialWrite {
                before,
                after,
                extent,
            };
            memory.note(7, write);
            memory.clone()
        };
        // The launch in question wrote 0..128 and left version 2; others wrote beside it.
        write(1, 2, (0, 128));
        write(2, 3, (128, 256));
        let known = write(3, 4, (256, 384));
        for (extent, then, now, expected) in [
            ((0, 128), 2, 2, true),
            ((0, 128), 2, 4, true),
            ((128, 256), 3, 4, true),
            // Overlapping by a byte, by the whole, or written by something unknown since.
            ((127, 129), 2, 4, false),
            ((0, 384), 2, 4, false),
            ((0, 128), 2, 5, false),
            ((0, 128), 0, 4, false),
        ] {
            assert_eq!(
                known.untouched(7, extent, then, now),
                expected,
                "{extent:?} from {then} to {now}"
            );
        }
        assert!(!known.untouched(8, (0, 128), 2, 4), "another allocation");
        // What is no longer remembered is not vouched for.
        let mut last = known;
        for number in 0..WRITES_MAX as u64 {
            last = write(4 + number, 5 + number, (512, 640));
        }
        assert!(!last.untouched(7, (0, 128), 2, 4 + WRITES_MAX as u64));
    }
}
