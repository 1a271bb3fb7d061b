//! One typed launcher per kernel, with the cost of a launch and a check of its results.

pub mod atomic_add;
pub mod block_slots;
pub mod block_trace;
pub mod empty;
pub mod fault_assert;
pub mod fault_bad_pc;
pub mod fault_bad_space;
pub mod fault_hang;
pub mod fault_illegal_store;
pub mod fault_misaligned;
pub mod fault_printf;
pub mod fault_shared_oob;
pub mod fault_stack;
pub mod fault_trap;
pub mod fp32_chain;
pub mod fp64_chain;
pub mod int_chain;
pub mod issue_mix;
pub mod l1_stream;
pub mod l2_chase;
pub mod l2_stream;
pub mod matmul;
pub mod matvec;
mod numeric;
pub mod page_mark;
pub mod page_scan;
pub mod pattern_check;
pub mod pattern_fill;
pub mod rmsnorm;
pub mod shared_stream;
pub mod softmax;
pub mod spin;
pub mod stream_copy;
pub mod stream_read;
pub mod stream_write;
pub mod tensor_chain;
pub mod tick;
pub mod tlb_stride;

/// Bytes of one access of the streaming kernels.
pub const VECTOR_BYTES: u64 = 16;

/// Number of elements that thread `thread` of `grid` visits: the elements thread, thread + T,
/// thread + 2 T... of a grid-stride loop of T threads over `count` elements.
pub(crate) fn elements_of(
    thread: u64,
    total_threads: u64,
    count: u64,
) -> impl Iterator<Item = u64> {
    let step = usize::try_from(total_threads.max(1)).unwrap_or(usize::MAX);
    (thread..count).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_stride_loop_visits_every_element_once() {
        let mut visited: Vec<_> = (0..7).flat_map(|t| elements_of(t, 7, 100)).collect();
        visited.sort_unstable();
        assert_eq!(visited, (0..100).collect::<Vec<_>>());
        assert_eq!(elements_of(9, 7, 5).count(), 0);
    }
}
