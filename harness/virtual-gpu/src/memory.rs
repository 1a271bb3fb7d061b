//! Who has which part of device memory.

use crate::machine::Machine;
use crate::state::{Allocation, State};

/// Allocations of this size and more take whole large pages.
const LARGE: u64 = 1 << 20;
/// The GPU's large page.
const PAGE: u64 = 2 << 20;
/// Alignment of small allocations.
const SMALL: u64 = 512;

/// Bytes that an allocation takes.
#[must_use]
pub const fn taken(bytes: u64) -> u64 {
    let unit = if bytes >= LARGE { PAGE } else { SMALL };
    bytes.saturating_add(unit - 1) / unit * unit
}

/// Bytes that nobody has, the driver's own part aside.
#[must_use]
pub fn free_bytes(state: &State, machine: &Machine) -> u64 {
    let usable = (machine.memory.total_mib - machine.memory.reserved_mib) << 20;
    let contexts: u64 = state
        .contexts
        .live()
        .iter()
        .filter(|c| c.live)
        .map(|c| c.bytes)
        .sum();
    let taken: u64 = state
        .allocations
        .live()
        .iter()
        .filter(|a| a.live)
        .map(|a| a.taken)
        .sum();
    usable.saturating_sub(contexts).saturating_sub(taken)
}

/// Bytes that one process has, its contexts included.
#[must_use]
pub fn process_bytes(state: &State, process: u32) -> u64 {
    let contexts: u64 = state
        .contexts
        .live()
        .iter()
        .filter(|c| c.live && c.process == process)
        .map(|c| c.bytes)
        .sum();
    let taken: u64 = state
        .allocations
        .live()
        .iter()
        .filter(|a| a.live && a.process == process)
        .map(|a| a.taken)
        .sum();
    contexts + taken
}

/// Gives `bytes` to a context, the first place that fits. `None` when memory is out.
pub fn allocate(
    state: &mut State,
    machine: &Machine,
    process: u32,
    context: u32,
    bytes: u64,
) -> Option<Allocation> {
    let taken = taken(bytes);
    if taken > free_bytes(state, machine) {
        return None;
    }
    let align = if bytes >= LARGE { PAGE } else { SMALL };
    let end = machine.memory.total_mib << 20;
    let mut live: Vec<(u64, u64)> = state
        .allocations
        .live()
        .iter()
        .filter(|a| a.live)
        .map(|a| (a.offset, a.taken))
        .collect();
    live.sort_unstable();
    let mut at = 0;
    for (offset, length) in live {
        if at + taken <= offset {
            break;
        }
        at = (offset + length).next_multiple_of(align);
    }
    if at + taken > end {
        return None;
    }
    let slot = state.allocations.claim(|a| !a.live)?;
    let allocation = Allocation {
        live: true,
        context,
        process,
        offset: at,
        bytes,
        taken,
    };
    state.allocations.rows[slot] = allocation;
    state.allocations.touch();
    Some(allocation)
}

/// Takes the allocation at `offset` back from a process.
pub fn release(state: &mut State, process: u32, offset: u64) -> Option<Allocation> {
    let allocation = state
        .allocations
        .live_mut()
        .iter_mut()
        .find(|a| a.live && a.process == process && a.offset == offset)?;
    allocation.live = false;
    let released = *allocation;
    state.allocations.touch();
    Some(released)
}

#[cfg(test)]
mod tests {
    use super::{allocate, free_bytes, release};
    use crate::machine::Machine;
    use crate::state::State;

    #[test]
    fn memory_runs_out_and_comes_back() -> Result<(), Box<dyn std::error::Error>> {
        let machine = Machine::load("turing")?;
        let mut state = State::new(0, 0);
        let all = free_bytes(&state, &machine);
        let first = allocate(&mut state, &machine, 0, 0, all / 2).ok_or("half fits")?;
        assert!(allocate(&mut state, &machine, 1, 1, all / 2 + (4 << 20)).is_none());
        let small = allocate(&mut state, &machine, 1, 1, 100).ok_or("a little fits")?;
        assert!(small.offset >= first.offset + first.taken);
        assert!(
            release(&mut state, 1, first.offset).is_none(),
            "not its own"
        );
        release(&mut state, 0, first.offset).ok_or("its own")?;
        release(&mut state, 1, small.offset).ok_or("its own")?;
        assert_eq!(free_bytes(&state, &machine), all);
        let again = allocate(&mut state, &machine, 2, 2, 4096).ok_or("fits")?;
        assert_eq!(
            again.offset, first.offset,
            "the next owner gets the same pages"
        );
        Ok(())
    }
}
