//! The same work on many records, on as many threads as there are cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most threads: each holds one record in memory.
const THREADS_MAX: usize = 8;

/// What the work makes of each item, in their order.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(THREADS_MAX).min(items.len());
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match items.get(at) {
                Some(item) => done.push((at, work(item))),
                None => return done,
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(take_turns)).collect();
        let mut done = Vec::new();
        for thread in running {
            match thread.join() {
                Ok(found) => done.extend(found),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use super::map;

    #[test]
    fn results_are_in_the_order_of_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|item| 2 * item).collect();
        assert_eq!(map(&items, |item| 2 * item), doubled);
        assert!(map(&[], |item: &u32| *item).is_empty());
    }
}
