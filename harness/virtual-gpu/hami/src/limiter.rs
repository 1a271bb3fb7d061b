//! The token bucket of launches. A launch costs as many tokens as its grid has blocks, regardless
//! of their duration, and waits only while the bucket is overdrawn.
//!
//! The bucket is filled every 120 ms by an amount that follows the process's utilisation over the
//! last second as NVML reports it (HAMi-core at 8f3a89c, `multiprocess_utilization_watcher.c`:
//! `delta`, `change_token`). The real library fills it from a thread; here each launch performs the
//! fillings that are due, which works in virtual time too.

use std::sync::{Mutex, PoisonError};

use crate::{clock, settings};

/// Time between two fillings.
const PERIOD_NS: u64 = 120_000_000;
/// Interval at which a waiting launch checks again.
const TICK_NS: u64 = 10_000_000;
/// Longest wait: a launch then passes.
const MAX_WAIT_NS: u64 = 60_000_000_000;

/// Tokens that the bucket holds per thread of the device.
const TOKENS_PER_THREAD: i64 = 32;
/// Smallest distance from the limit, in percent, that a step uses.
const MIN_DISTANCE: i64 = 5;
/// Divisor of a step: SMs squared, times threads per SM, times the distance.
const STEP_DIVISOR: i64 = 2_560;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Tokens in the bucket; below zero after a launch that overdrew it.
    tokens: i64,
    share: i64,
    capacity: i64,
    filled_ns: u64,
    /// No launch passes before the next filling.
    over: bool,
    /// Every launch passes until then.
    starts_ns: u64,
}

impl Bucket {
    /// An empty bucket for a device with that many SMs; filled from `starts_ns` on.
    pub const fn new(sm_count: u32, threads_per_sm: u32, starts_ns: u64) -> Self {
        Self {
            tokens: 0,
            share: 0,
            capacity: sm_count as i64 * threads_per_sm as i64 * TOKENS_PER_THREAD,
            filled_ns: starts_ns,
            over: false,
            starts_ns,
        }
    }

    /// Fills the bucket once: by more than last time if the process is under its limit, by less if
    /// not.
    fn fill(&mut self, limit: u32, utilisation: u32, (sm_count, threads_per_sm): (u32, u32)) {
        // Overdrawn despite a filling of the whole capacity: the capacity grows.
        if self.share == self.capacity && self.tokens < 0 {
            self.capacity *= 2;
            self.share = self.capacity;
        }
        let (sms, limit) = (i64::from(sm_count), i64::from(limit));
        let off = (limit - i64::from(utilisation)).abs().max(MIN_DISTANCE);
        let mut step = sms * sms * i64::from(threads_per_sm) * off / STEP_DIVISOR;
        if off > limit / 2 {
            step = step * off * 2 / (limit + 1);
        }
        self.share = if i64::from(utilisation) <= limit {
            (self.share + step).min(self.capacity)
        } else {
            (self.share - step).max(0)
        };
        self.tokens = (self.tokens + self.share).min(self.capacity);
    }

    /// Whether a launch may pass; if so, takes its tokens.
    fn take(&mut self, blocks: u64) -> bool {
        if self.tokens < 0 || self.over {
            return false;
        }
        self.tokens -= i64::try_from(blocks).unwrap_or(i64::MAX / 2);
        true
    }
}

static BUCKET: Mutex<Option<Bucket>> = Mutex::new(None);

/// Delays a launch of that many blocks until the limit, in percent, allows it. `utilisation` is
/// queried at each filling.
pub fn wait(blocks: u64, percent: f64, shape: (u32, u32), utilisation: &dyn Fn() -> u32) {
    let began_ns = clock::now_ns();
    // The bucket works in whole percent, like the management library.
    let limit = percent.round() as u32;
    loop {
        let now_ns = clock::now_ns();
        {
            let mut held = BUCKET.lock().unwrap_or_else(PoisonError::into_inner);
            let bucket = held.get_or_insert_with(|| {
                let late_ns = settings::get().limiter_start_ms * 1_000_000;
                Bucket::new(shape.0, shape.1, now_ns + late_ns)
            });
            if now_ns < bucket.starts_ns {
                return;
            }
            if settings::get().limiter_paced {
                let into_ns = (now_ns - bucket.starts_ns) % PERIOD_NS;
                let Some(left_ns) = closed_for(into_ns, percent) else { return };
                drop(held);
                if !clock::sleep_until(now_ns + left_ns) {
                    return;
                }
                continue;
            }
            let due = now_ns.saturating_sub(bucket.filled_ns) / PERIOD_NS;
            if due > 0 {
                let utilisation = utilisation();
                // Where the bypass by long launches is patched, no launch passes while utilisation
                // is above the limit.
                bucket.over = settings::get().is_patched("durations") && utilisation > limit;
                for _ in 0..due.min(100) {
                    bucket.fill(limit, utilisation, shape);
                }
                bucket.filled_ns += due * PERIOD_NS;
            }
            if bucket.take(blocks) || now_ns - began_ns > MAX_WAIT_NS {
                return;
            }
        }
        if !clock::sleep_until(now_ns + TICK_NS) {
            return;
        }
    }
}

/// Remaining wait at `into_ns` into a period, where launches pass only in the first part of each
/// period, which is the limit.
fn closed_for(into_ns: u64, percent: f64) -> Option<u64> {
    let open_ns = (PERIOD_NS as f64 * percent / 100.0).round() as u64;
    (into_ns >= open_ns).then_some(PERIOD_NS - into_ns)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, PERIOD_NS, closed_for};

    #[test]
    fn the_paced_limiter_is_open_for_the_limit_of_each_period() {
        for (into_ns, left_ns) in [
            (0, None),
            (PERIOD_NS / 2 - 1, None),
            (PERIOD_NS / 2, Some(PERIOD_NS / 2)),
            (PERIOD_NS - 1, Some(1)),
        ] {
            assert_eq!(closed_for(into_ns, 50.0), left_ns);
        }
    }

    #[test]
    fn one_launch_can_overdraw_and_the_next_waits() {
        let mut bucket = Bucket::new(4, 100, 0);
        assert!(bucket.take(1_000_000), "the first passes at any cost");
        assert!(!bucket.take(1));
        assert_eq!(bucket.tokens, -1_000_000);
    }

    #[test]
    fn the_filling_follows_the_utilisation() {
        let shape = (10, 2_560);
        let mut bucket = Bucket::new(10, 2_560, 0);
        assert!(bucket.take(5_000));
        bucket.fill(50, 30, shape);
        assert_eq!(bucket.share, 2_000, "20 percent off, 10 SMs squared");
        assert!(!bucket.take(1), "still overdrawn");
        bucket.fill(50, 10, shape);
        assert_eq!(bucket.share, 2_000 + 4_000 * 80 / 51, "a larger distance fills faster");
        assert_eq!(bucket.tokens, -5_000 + 2_000 + 2_000 + 4_000 * 80 / 51);
        bucket.fill(50, 90, shape);
        bucket.fill(50, 90, shape);
        assert_eq!(bucket.share, 0);
        bucket.fill(50, 48, shape);
        assert_eq!(bucket.share, 500, "at least five percent");
    }

    #[test]
    fn an_overdrawn_full_bucket_grows() {
        let shape = (4, 100);
        let mut bucket = Bucket::new(4, 100, 0);
        assert_eq!(bucket.capacity, 12_800);
        for _ in 0..2_000 {
            bucket.fill(50, 0, shape);
        }
        assert_eq!((bucket.share, bucket.tokens), (12_800, 12_800));
        assert!(bucket.take(1_000_000));
        bucket.fill(50, 0, shape);
        assert_eq!((bucket.share, bucket.capacity), (25_600, 25_600));
    }
}
