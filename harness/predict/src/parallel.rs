//! Independent jobs on several threads; results are in the order of the jobs.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs every job once. The results do not depend on the number of threads.
pub fn map<T: Sync, R: Send>(
    jobs: &[T],
    threads: NonZeroUsize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let keep = |result| {
        // A panic in another thread ends the scope, so a poisoned lock is never read.
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
    };
    let worker = || {
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(index) else { return };
            keep((index, work(job)));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(jobs.len()) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        for threads in [1, 3, 200] {
            let threads = NonZeroUsize::new(threads).expect("not zero");
            let squares = map(&jobs, threads, |job| job * job);
            assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        }
        assert!(map(&[] as &[u8], NonZeroUsize::MIN, |job| *job).is_empty());
    }
}
