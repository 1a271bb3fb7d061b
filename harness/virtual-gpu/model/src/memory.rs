//! Allocation of device memory.
//!
//! Memory is allocated in large pages. Small allocations of one context share a page, which is
//! allocated with the first of them and freed with the last. On an H100 80GB HBM3 a single byte
//! used 2 MiB, and freeing it returned all of them (driver 580.159.04, 2026-11-22).

mod pages;
mod without_context;

use crate::cgroup;
use crate::machine::Machine;
use crate::state::{Allocation, Context, NONE, State};
use pages::{new_pages, room_beside};
pub use without_context::allocate_without_context;
use without_context::without_context;

/// Size of the address range, in multiples of the device's memory. A free range then exists
/// whenever enough memory is free.
pub const SPANS: u64 = 4;

/// Allocations of at least this size share no large page.
const LARGE: u64 = 1 << 20;
/// The GPU's large page.
const PAGE: u64 = 2 << 20;
const SMALL: u64 = 512;

/// Bytes that an allocation uses of its page, or of the device if it shares none.
pub const fn taken(bytes: u64) -> u64 {
    let unit = if bytes >= LARGE { PAGE } else { SMALL };
    bytes.saturating_add(unit - 1) / unit * unit
}

/// Bytes of the device that these allocations use; a shared page counts once.
fn held<'a>(allocations: impl Iterator<Item = &'a Allocation>) -> u64 {
    let (mut large, mut shared) = (0, Vec::new());
    for allocation in allocations.filter(|a| a.live) {
        if is_small(allocation.taken) {
            shared.push(allocation.offset / PAGE);
        } else {
            large += allocation.taken;
        }
    }
    shared.sort_unstable();
    shared.dedup();
    large + shared.len() as u64 * PAGE
}

const fn is_small(taken: u64) -> bool {
    taken < PAGE
}

pub fn instance_of(state: &State, context: u32) -> u32 {
    let engine = state.contexts.rows[context as usize].engine;
    state.engines.rows[engine as usize].instance
}

/// Free bytes of one GPU instance, without the driver's reserve.
pub fn free_bytes(state: &State, instance: u32) -> u64 {
    let contexts: u64 = state
        .contexts
        .live()
        .iter()
        .filter(|c| c.live && state.engines.rows[c.engine as usize].instance == instance)
        .map(|c| c.bytes)
        .sum();
    let allocations = state.allocations.live().iter();
    let taken = held(allocations.filter(|a| a.instance == instance));
    let usable = state.instances.rows[instance as usize].memory_bytes;
    usable.saturating_sub(contexts).saturating_sub(taken)
}

/// Free bytes of the whole device, divided or not.
pub fn device_free_bytes(state: &State, machine: &Machine) -> u64 {
    let contexts = state.contexts.live().iter().filter(|c| c.live);
    let allocations = held(state.allocations.live().iter());
    let taken = contexts.map(|c| c.bytes).sum::<u64>() + allocations;
    ((machine.memory.total_mib - machine.memory.reserved_mib) << 20).saturating_sub(taken)
}

/// Bytes that one context uses, its own included.
pub fn context_bytes(state: &State, context: u32) -> u64 {
    let allocations = state.allocations.live().iter();
    held(allocations.filter(|a| a.context == context)) + state.contexts.rows[context as usize].bytes
}

/// Bytes that a context can still allocate: the free ones, within its limits.
pub fn free_for(state: &State, context: u32) -> u64 {
    let free = free_bytes(state, instance_of(state, context));
    let row = &state.contexts.rows[context as usize];
    let free = free.min(group_room(state, row));
    match row.memory_limit {
        0 => free,
        limit => free.min(limit.saturating_sub(context_bytes(state, context))),
    }
}

/// Bytes that the limit of a context's control group leaves to its processes; `u64::MAX` without a
/// limit.
pub fn group_room(state: &State, of: &Context) -> u64 {
    let Some(limits) = cgroup::limits(state, of.memory_group).filter(|row| row.hard_bytes > 0)
    else {
        return u64::MAX;
    };
    let taken = group_bytes(state, of);
    limits.enforced_bytes.saturating_sub(taken)
}

/// Bytes that all contexts of a context's control group use, and that their processes have taken
/// without a context.
pub fn group_bytes(state: &State, of: &Context) -> u64 {
    let contexts = state.contexts.live().iter().zip(0_u32..);
    contexts
        .filter(|(context, _)| context.live && context.memory_group == of.memory_group)
        .map(|(_, slot)| context_bytes(state, slot))
        .sum::<u64>()
        + without_context(state, |process| is_member(state, process, of.memory_group))
}

fn is_member(state: &State, process: u32, group: u64) -> bool {
    let mut contexts = state.contexts.live().iter();
    contexts.any(|c| c.live && c.process == process && c.memory_group == group)
}

/// Total memory that a context sees of `all`: at most the limit of its control group, and its MPS
/// limit where the driver shows that.
pub fn within_limits(state: &State, machine: &Machine, context: &Context, all: u64) -> u64 {
    let hidden = machine.mps.as_ref().is_some_and(|mps| !mps.limit_in_total);
    let all = match context.memory_limit {
        limit if limit > 0 && !hidden => all.min(limit),
        _ => all,
    };
    match cgroup::limits(state, context.memory_group).map_or(0, |limits| limits.hard_bytes) {
        0 => all,
        limit => all.min(limit),
    }
}

/// Bytes that one process uses, its contexts included.
pub fn process_bytes(state: &State, process: u32) -> u64 {
    let contexts = state.contexts.live().iter();
    let contexts = contexts.filter(|c| c.live && c.process == process);
    let allocations = state.allocations.live().iter();
    let allocations = held(allocations.filter(|a| a.process == process));
    contexts.map(|c| c.bytes).sum::<u64>() + allocations
}

/// Bytes that one process uses on one compute engine, its contexts included.
pub fn process_bytes_on(state: &State, process: u32, engine: u32) -> u64 {
    let instance = state.engines.rows[engine as usize].instance;
    let on_it = |a: &Allocation| match a.context {
        NONE => a.instance == instance,
        context => state.contexts.rows[context as usize].engine == engine,
    };
    let contexts: u64 = state
        .contexts
        .live()
        .iter()
        .filter(|c| c.live && c.process == process && c.engine == engine)
        .map(|c| c.bytes)
        .sum();
    let allocations = state.allocations.live().iter();
    let allocations = allocations.filter(|a| a.live && a.process == process);
    contexts + held(allocations.filter(|a| on_it(a)))
}

/// Total memory that a context sees: that of its GPU instance, or its limit.
pub fn total_for(state: &State, machine: &Machine, context: u32) -> u64 {
    let all = state.instances.rows[instance_of(state, context) as usize].memory_bytes;
    within_limits(state, machine, &state.contexts.rows[context as usize], all)
}

/// Allocates `bytes` for a context at the first free range. `None` when too few bytes are free;
/// fragmentation never matters.
pub fn allocate(state: &mut State, process: u32, context: u32, bytes: u64) -> Option<Allocation> {
    let place = (instance_of(state, context), free_for(state, context));
    enter(state, (process, context), place, bytes)
}

/// Enters an allocation of a process and a context in a GPU instance with so many free bytes.
fn enter(
    state: &mut State,
    (process, context): (u32, u32),
    (instance, free): (u32, u64),
    bytes: u64,
) -> Option<Allocation> {
    let taken = taken(bytes);
    let beside = is_small(taken).then(|| room_beside(state, process, context, taken));
    let at = match beside.flatten() {
        Some(at) => at,
        None => new_pages(state, (instance, free), taken.next_multiple_of(PAGE))?,
    };
    let slot = state.allocations.claim(|a| !a.live)?;
    let allocation = Allocation {
        live: true,
        context,
        process,
        instance,
        offset: at,
        bytes,
        taken,
        number: state.allocations_made + 1,
    };
    state.allocations_made += 1;
    state.allocations.rows[slot] = allocation;
    state.allocations.touch();
    let held = process_bytes(state, process);
    let peak = &mut state.processes.rows[process as usize].peak_bytes;
    *peak = held.max(*peak);
    Some(allocation)
}

pub fn release(state: &mut State, process: u32, offset: u64) -> Option<Allocation> {
    let mut rows = state.allocations.live().iter();
    let mine = |a: &Allocation| a.live && a.process == process && a.offset == offset;
    let at = rows.position(mine)?;
    let released = state.allocations.rows[at];
    end(state, at);
    Some(released)
}

/// Frees every allocation that matches.
pub fn end_where(state: &mut State, gone: impl Fn(&Allocation) -> bool) {
    for at in 0..state.allocations.live().len() {
        let row = &state.allocations.rows[at];
        if row.live && gone(row) {
            end(state, at);
        }
    }
}

fn end(state: &mut State, at: usize) {
    state.allocations.rows[at].live = false;
    state.allocations.touch();
}

#[cfg(test)]
mod tests {
    use super::{allocate, end_where, free_bytes, process_bytes, release};
    use crate::state::{Allocation, State, WHOLE};

    #[test]
    fn memory_runs_out_and_is_free_again() -> Result<(), Box<dyn std::error::Error>> {
        let mut state = State::new(0, 0);
        state.instances.rows[0].memory_bytes = 1 << 30;
        let all = free_bytes(&state, WHOLE);
        let first = allocate(&mut state, 0, 0, all / 2).ok_or("half fits")?;
        assert!(allocate(&mut state, 1, 1, all / 2 + (4 << 20)).is_none());
        let small = allocate(&mut state, 1, 1, 100).ok_or("a little fits")?;
        assert!(small.offset >= first.offset + first.taken);
        assert!(release(&mut state, 1, first.offset).is_none(), "not its own");
        release(&mut state, 0, first.offset).ok_or("its own")?;
        release(&mut state, 1, small.offset).ok_or("its own")?;
        assert_eq!(free_bytes(&state, WHOLE), all);
        let again = allocate(&mut state, 2, 2, 4096).ok_or("fits")?;
        assert_eq!(again.offset, first.offset, "the next owner gets the same pages");
        Ok(())
    }

    #[test]
    fn small_allocations_of_a_context_share_a_page() -> Result<(), Box<dyn std::error::Error>> {
        const MIB: u64 = 1 << 20;
        let mut state = State::new(0, 0);
        state.instances.rows[0].memory_bytes = 64 * MIB;
        let all = free_bytes(&state, WHOLE);
        // Free memory that an H100 lost to one allocation of so many bytes.
        for (bytes, less) in [
            (1, 2 * MIB),
            (511, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 1, 2 * MIB),
            (2 * MIB, 2 * MIB),
            (2 * MIB + 1, 4 * MIB),
            (8 * MIB + 1, 10 * MIB),
        ] {
            let made = allocate(&mut state, 0, 0, bytes).ok_or("fits")?;
            assert_eq!(all - free_bytes(&state, WHOLE), less, "for {bytes}");
            release(&mut state, 0, made.offset).ok_or("its own")?;
            assert_eq!(free_bytes(&state, WHOLE), all, "for {bytes}");
        }
        let one = |state: &mut State, context| allocate(state, context, context, 1);
        let page: Vec<_> = (0..4096).map(|_| one(&mut state, 0)).collect();
        assert_eq!(all - free_bytes(&state, WHOLE), 2 * MIB, "as many as fit");
        one(&mut state, 0).ok_or("fits")?;
        assert_eq!(all - free_bytes(&state, WHOLE), 4 * MIB, "and one more");
        let other = one(&mut state, 1).ok_or("fits")?;
        assert_eq!(process_bytes(&state, 1), 2 * MIB, "another has its own");
        let gap = page[7].ok_or("fits")?.offset;
        release(&mut state, 0, gap).ok_or("its own")?;
        assert_eq!(one(&mut state, 1).map(|a| a.offset), Some(other.offset + 512));
        assert_eq!(one(&mut state, 0).map(|a| a.offset), Some(gap), "its own gap");
        end_where(&mut state, |a| a.process == 0);
        assert_eq!(all - free_bytes(&state, WHOLE), 2 * MIB, "the other's stays");
        Ok(())
    }

    #[test]
    fn a_small_allocation_fits_into_a_shared_page_when_none_is_free()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut state = State::new(0, 0);
        state.instances.rows[0].memory_bytes = 8 << 20;
        let small = allocate(&mut state, 0, 0, 512).ok_or("fits")?;
        let rest = free_bytes(&state, WHOLE);
        allocate(&mut state, 0, 0, rest).ok_or("fits")?;
        assert_eq!(free_bytes(&state, WHOLE), 0);
        let beside = allocate(&mut state, 0, 0, 512).ok_or("fits beside")?;
        assert_eq!(beside.offset, small.offset + 512);
        assert!(allocate(&mut state, 1, 1, 512).is_none(), "no page of another context");
        Ok(())
    }

    #[test]
    fn fragmented_memory_can_be_allocated_whole() -> Result<(), Box<dyn std::error::Error>> {
        let mut state = State::new(0, 0);
        state.instances.rows[0].memory_bytes = 1 << 30;
        let tenth = 100 << 20;
        let pieces = (0..10).map(|_| allocate(&mut state, 0, 0, tenth));
        let pieces: Vec<_> = pieces.collect::<Option<_>>().ok_or("ten fit")?;
        for piece in pieces.iter().step_by(2) {
            release(&mut state, 0, piece.offset).ok_or("its own")?;
        }
        assert!(allocate(&mut state, 1, 1, 6 * tenth).is_none(), "too much");
        let across = allocate(&mut state, 1, 1, 5 * tenth).ok_or("half is free")?;
        let apart = |one: &Allocation| {
            one.offset + one.taken <= across.offset || across.offset + across.taken <= one.offset
        };
        assert!(pieces.iter().skip(1).step_by(2).all(apart), "{across:?}");
        assert!(free_bytes(&state, WHOLE) < tenth);
        assert!(allocate(&mut state, 2, 2, tenth).is_none(), "all is taken");
        Ok(())
    }
}
