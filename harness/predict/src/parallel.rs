//! Independent jobs on several threads; results are in the order of the jobs.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

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

// Percentiles by linear interpolation between order statistics, equal to NumPy's to the last bit.
//
// Hyndman and Fan (1996), definition 7. NumPy interpolates from the nearer order statistic
// (`_lerp` in `numpy/lib/_function_base_impl.py`), which decides the last bit; this file does the
// same.

/// Percentiles of the values, in rising order of the percents; `None` without values. Reorders the
/// values by selection, without a full sort.
pub fn percentiles<const N: usize>(values: &mut [f64], percents: [f64; N]) -> Option<[f64; N]> {
    debug_assert!(percents.is_sorted(), "percents must rise");
    if values.is_empty() {
        return None;
    }
    let last = values.len() - 1;
    // Values before this index are smaller than all values after it.
    let mut selected = 0;
    Some(percents.map(|percent| {
        let virtual_index = last as f64 * (percent / 100.0);
        let below = (virtual_index.floor() as usize).min(last);
        let gamma = virtual_index - below as f64;
        let rest = &mut values[selected..];
        let (_, low, above) = rest.select_nth_unstable_by(below - selected, f64::total_cmp);
        let low = *low;
        let high = above.iter().copied().min_by(f64::total_cmp).unwrap_or(low);
        selected = below;
        let step = high - low;
        if gamma >= 0.5 { high - step * (1.0 - gamma) } else { low + step * gamma }
    }))
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
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

    #[test]
    fn the_last_bit_equals_numpy() {
        // numpy.percentile([4.5, 5.0, 6.5, 7.9], 99); low + step * gamma would differ in the last
        // bit.
        let found = percentiles(&mut [4.5, 5.0, 6.5, 7.9], [99.0]).map(|[value]| value.to_bits());
        assert_eq!(found, Some(LAST));
        let from_below = 6.5 + (7.9 - 6.5) * (3.0 * 0.99_f64 - 2.0);
        assert_ne!(from_below.to_bits(), LAST);
        assert_eq!(percentiles(&mut [], [50.0]), None);
    }

    const LAST: u64 = 0x401f_6e97_8d4f_df3b;
}
