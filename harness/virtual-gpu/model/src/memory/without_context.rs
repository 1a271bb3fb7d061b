//! Device memory of a process without a context: physical memory, which no call ties to one.

use super::{enter, free_bytes, group_room, held, is_member};
use crate::state::{Allocation, Context, NONE, State};

/// Allocates `bytes` for a process that has no context. `of` is the context that it would get: its
/// limits hold.
pub fn allocate_without_context(
    state: &mut State,
    process: u32,
    of: &Context,
    bytes: u64,
) -> Option<Allocation> {
    let instance = state.engines.rows[of.engine as usize].instance;
    let own = without_context(state, |owner| owner == process);
    let of_group = match is_member(state, process, of.memory_group) {
        true => group_room(state, of),
        false => group_room(state, of).saturating_sub(own),
    };
    let of_process = match of.memory_limit {
        0 => u64::MAX,
        limit => limit.saturating_sub(own),
    };
    let free = free_bytes(state, instance).min(of_group).min(of_process);
    enter(state, (process, NONE), (instance, free), bytes)
}

/// Bytes that some processes have taken without a context.
pub(super) fn without_context(state: &State, of: impl Fn(u32) -> bool) -> u64 {
    let allocations = state.allocations.live().iter();
    held(allocations.filter(|a| a.context == NONE && a.process != NONE && of(a.process)))
}

#[cfg(test)]
mod tests {
    use super::allocate_without_context;
    use crate::machine::Machine;
    use crate::memory::{free_bytes, process_bytes, process_bytes_on, release};
    use crate::mig;
    use crate::state::{Context, State, WHOLE};

    const PAGE: u64 = 2 << 20;

    #[test]
    fn a_process_without_a_context_has_memory_within_its_limit() {
        let machine = Machine::load("turing").expect("built in");
        let mut state = State::new(1, 0);
        mig::undivided(&mut state, &machine);
        let before = free_bytes(&state, WHOLE);
        let of = Context { memory_limit: 3 * PAGE, ..Context::default() };
        let first = allocate_without_context(&mut state, 4, &of, 2 * PAGE).expect("fits");
        assert_eq!(before - free_bytes(&state, WHOLE), 2 * PAGE);
        assert_eq!(process_bytes(&state, 4), 2 * PAGE);
        assert_eq!(process_bytes_on(&state, 4, WHOLE), 2 * PAGE);
        assert!(allocate_without_context(&mut state, 4, &of, 2 * PAGE).is_none());
        assert!(allocate_without_context(&mut state, 5, &of, 2 * PAGE).is_some());
        assert!(release(&mut state, 4, first.offset).is_some());
        assert!(allocate_without_context(&mut state, 4, &of, 2 * PAGE).is_some());
    }
}
