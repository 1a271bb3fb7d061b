//! One typed launcher per kernel, with the cost of a launch and a check of its results.

pub mod arithmetic;
pub mod faults;
pub mod inference;
pub mod memory;
pub mod on_chip;
pub mod streams;
pub mod timing;
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
