//! One typed launcher a kernel, with the cost of a launch and the check of its results.

pub mod block_trace;
pub mod empty;
pub mod fp32_chain;
pub mod l2_chase;
pub mod l2_stream;
pub mod pattern_check;
pub mod pattern_fill;
pub mod spin;
pub mod stream_copy;
pub mod stream_read;
pub mod stream_write;

/// Bytes of one access of the streaming kernels.
pub const VECTOR_BYTES: u64 = 16;

/// How often each thread of `grid` comes round to an element of `count`, for thread `thread`:
/// the elements thread, thread + T, thread + 2 T... of a grid-stride loop over T threads.
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
        let mut seen: Vec<_> = (0..7).flat_map(|t| elements_of(t, 7, 100)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert_eq!(elements_of(9, 7, 5).count(), 0);
    }
}
