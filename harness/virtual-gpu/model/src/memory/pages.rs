//! Where an allocation lies: beside small ones of its context, or in pages of its own.

use std::ops::Range;

use super::{PAGE, SPANS, is_small, taken as taken_of};
use crate::state::{State, WHOLE};

/// Room for a small allocation in a page that only this context uses.
pub(super) fn room_beside(state: &State, process: u32, context: u32, taken: u64) -> Option<u64> {
    let mut small: Vec<(u64, u64, bool)> = state
        .allocations
        .live()
        .iter()
        .filter(|a| a.live && is_small(taken_of(a.bytes)))
        .map(|a| {
            let own = a.process == process && a.context == context;
            (a.offset, a.offset + taken_of(a.bytes), own)
        })
        .collect();
    small.sort_unstable();
    let pages = small.chunk_by(|one, next| one.0 / PAGE == next.0 / PAGE);
    let mut own = pages.filter(|page| page.iter().all(|(_, _, own)| *own));
    own.find_map(|page| {
        let start = page[0].0 / PAGE * PAGE;
        let mut at = start;
        for (offset, end, _) in page {
            if at + taken <= *offset {
                break;
            }
            at = at.max(*end);
        }
        (at + taken <= start + PAGE).then_some(at)
    })
}

/// Whole pages of a GPU instance, if enough are free.
pub(super) fn new_pages(state: &State, (instance, free): (u32, u64), bytes: u64) -> Option<u64> {
    if bytes > free {
        return None;
    }
    let part = state.instances.rows[instance as usize];
    let span_bytes = state.instances.rows[WHOLE as usize].memory_bytes;
    let mut starts = (0..SPANS).map(|span| span * span_bytes + part.memory_offset);
    starts.find_map(|start| first_fit(state, start..start + part.memory_bytes, bytes))
}

fn first_fit(state: &State, range: Range<u64>, bytes: u64) -> Option<u64> {
    let mut live: Vec<(u64, u64)> = state
        .allocations
        .live()
        .iter()
        .filter(|a| a.live && range.contains(&a.offset))
        .map(|a| (a.offset, a.taken))
        .collect();
    live.sort_unstable();
    let mut at = range.start.next_multiple_of(PAGE);
    for (offset, length) in live {
        if at + bytes <= offset {
            break;
        }
        at = at.max((offset + length).next_multiple_of(PAGE));
    }
    (at + bytes <= range.end).then_some(at)
}
