//! Implicit order of streams: the legacy default stream waits for every blocking stream of its
//! context, and they wait for it (CUDA C++ Programming Guide, "Default Stream").
//!
//! Waits are submitted in front of an operation: for the legacy stream one per blocking stream with
//! work left, for a blocking stream one for the legacy stream. Each operation is waited for once,
//! so a stream without others has no overhead.

use super::State;

/// Relation of a stream to the legacy default stream of its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Order {
    /// None: `CU_STREAM_NON_BLOCKING`, or a stream of the driver.
    #[default]
    Free,
    Blocking,
    Legacy,
}

pub fn implicit_waits(state: &State, stream: usize) -> Vec<(u32, u64)> {
    let own = &state.streams.rows[stream];
    let wanted = match own.order {
        Order::Free => return Vec::new(),
        Order::Blocking => Order::Legacy,
        Order::Legacy => Order::Blocking,
    };
    let rows = state.streams.live().iter().enumerate();
    rows.filter(|(_, other)| {
        let related = other.live && other.context == own.context && other.order == wanted;
        let waited_for = match wanted {
            Order::Legacy => own.followed,
            _ => other.joined,
        };
        related && other.completed < other.submitted && waited_for < other.submitted
    })
    .map(|(slot, other)| (slot as u32, other.submitted))
    .collect()
}

pub fn waited(state: &mut State, stream: usize, operations: &[(u32, u64)]) {
    for &(slot, seq) in operations {
        match state.streams.rows[stream].order {
            Order::Legacy => state.streams.rows[slot as usize].joined = seq,
            _ => state.streams.rows[stream].followed = seq,
        }
    }
}

/// The streams that a wait for a stream includes: for the legacy stream also every blocking one,
/// since its handle stands for them (CUDA C++ Programming Guide, "Prohibited and Unhandled
/// Operations" of stream capture).
pub fn covered(state: &State, stream: usize) -> Vec<(u32, u64)> {
    let own = &state.streams.rows[stream];
    let rows = state.streams.live().iter().enumerate();
    rows.filter(|&(slot, other)| {
        let blocking = own.order == Order::Legacy && other.order == Order::Blocking;
        slot == stream || (other.live && blocking && other.context == own.context)
    })
    .map(|(slot, other)| (slot as u32, other.submitted))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{Order, covered, implicit_waits, waited};
    use crate::state::{State, Stream};

    /// Streams 0 legacy, 1 and 2 blocking, 3 non-blocking, 4 blocking in another context; each has
    /// one operation left except the second, which has none.
    fn state() -> Box<State> {
        let mut state = State::new(1, 0);
        let orders = [Order::Legacy, Order::Blocking, Order::Blocking, Order::Free];
        for (slot, order) in orders.into_iter().chain([Order::Blocking]).enumerate() {
            let _ = state.streams.claim(|_| false);
            state.streams.rows[slot] = Stream {
                live: true,
                context: u32::from(slot == 4),
                submitted: 5,
                completed: if slot == 2 { 5 } else { 4 },
                order,
                ..Stream::default()
            };
        }
        state
    }

    #[test]
    fn legacy_work_waits_for_blocking_streams_with_work_and_they_for_it() {
        let mut state = state();
        assert_eq!(implicit_waits(&state, 0), [(1, 5)]);
        assert_eq!(implicit_waits(&state, 1), [(0, 5)]);
        assert_eq!(implicit_waits(&state, 2), [(0, 5)]);
        assert_eq!(implicit_waits(&state, 3), []);
        assert_eq!(implicit_waits(&state, 4), [], "no legacy stream in that context");
        assert_eq!(covered(&state, 0), [(0, 5), (1, 5), (2, 5)]);
        assert_eq!(covered(&state, 1), [(1, 5)]);
        waited(&mut state, 0, &[(1, 5)]);
        waited(&mut state, 1, &[(0, 5)]);
        assert_eq!(implicit_waits(&state, 0), [], "waited for once");
        assert_eq!(implicit_waits(&state, 1), [], "waited for once");
        assert_eq!(implicit_waits(&state, 2), [(0, 5)], "other streams still wait");
        state.streams.rows[1].submitted = 6;
        assert_eq!(implicit_waits(&state, 0), [(1, 6)], "new operations are waited for");
    }
}
