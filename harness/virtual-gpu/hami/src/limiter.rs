//! The bucket that holds launches back: a launch costs as many tokens as its grid has blocks,
//! whatever they do and however long they take, and waits only while the bucket is overdrawn.
//!
//! The bucket is filled every 120 ms by an amount that follows the process's own utilisation of the
//! last second as the management library reports it (HAMi-core at 8f3a89c,
//! `multiprocess_utilization_watcher.c`, whose steps these are: `delta`, `change_token`). The real
//! library has a thread for that; here the filling is caught up with at each launch, so that it
//! happens in virtual time too.

use std::sync::{Mutex, PoisonError};

use crate::{clock, settings};

/// Time between two fillings.
const PERIOD_NS: u64 = 120_000_000;
/// Pause of a launch that waits, before it looks again.
const TICK_NS: u64 = 10_000_000;
/// A launch that waits longer than this goes through: better late than never.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Tokens that the bucket holds for each thread that the device can have.
const TOKENS_PER_THREAD: i64 = 32;
/// The least distance from the limit, in percent, that a step answers.
const LEAST_OFF: i64 = 5;
/// By what a step is divided: the square of the SMs, times their threads, times the distance.
const STEP_DIVISOR: i64 = 2_560;

/// The bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Tokens there are; below zero after a launch that overdrew it.
    tokens: i64,
    /// Tokens that one filling adds.
    share: i64,
    /// What the bucket holds.
    capacity: i64,
    /// When it was last filled.
    filled_ns: u64,
    /// Nothing goes before the next filling.
    over: bool,
    /// Everything goes until then.
    starts_ns: u64,
}

impl Bucket {
    /// An empty bucket for a device of that many SMs, which is looked at from `starts_ns` on.
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

    /// Fills it once: by more than last time if the process stayed under its limit, by less if not.
    fn fill(&mut self, limit: u32, utilisation: u32, (sm_count, threads_per_sm): (u32, u32)) {
        // Overdrawn in spite of all that it can be filled with: it grows.
        if self.share == self.capacity && self.tokens < 0 {
            self.capacity *= 2;
            self.share = self.capacity;
        }
        let (sms, limit) = (i64::from(sm_count), i64::from(limit));
        let off = (limit - i64::from(utilisation)).abs().max(LEAST_OFF);
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

    /// Whether a launch may go; it then pays.
    fn take(&mut self, blocks: u64) -> bool {
        if self.tokens < 0 || self.over {
            return false;
        }
        self.tokens -= i64::try_from(blocks).unwrap_or(i64::MAX / 2);
        true
    }
}

static BUCKET: Mutex<Option<Bucket>> = Mutex::new(None);

/// Holds a launch of that many blocks back until it may go under this limit, in percent.
/// `utilisation` is asked at each filling.
pub fn wait(blocks: u64, percent: f64, shape: (u32, u32), utilisation: &dyn Fn() -> u32) {
    let began_ns = clock::now_ns();
    // The bucket counts in whole percent, as the management library does.
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
                let Some(left_ns) = shut_for(into_ns, percent) else {
                    return;
                };
                drop(held);
                if !clock::sleep_until(now_ns + left_ns) {
                    return;
                }
                continue;
            }
            let due = now_ns.saturating_sub(bucket.filled_ns) / PERIOD_NS;
            if due > 0 {
                let utilisation = utilisation();
                // Where long launches are no bypass, what they took counts, and not their blocks.
                bucket.over = settings::get().is_patched("durations") && utilisation > limit;
                for _ in 0..due.min(100) {
                    bucket.fill(limit, utilisation, shape);
                }
                bucket.filled_ns += due * PERIOD_NS;
            }
            if bucket.take(blocks) || now_ns - began_ns > PATIENCE_NS {
                return;
            }
        }
        if !clock::sleep_until(now_ns + TICK_NS) {
            return;
        }
    }
}

/// Where launches go in the first part of each period alone, that part being the limit: how long
/// one has to wait, so far into a period.
fn shut_for(into_ns: u64, percent: f64) -> Option<u64> {
    let open_ns = (PERIOD_NS as f64 * percent / 100.0).round() as u64;
    (into_ns >= open_ns).then_some(PERIOD_NS - into_ns)
}

#[cfg(test)]
mod tests {
    use super::{Bucket, PERIOD_NS, shut_for};

    #[test]
    fn one_that_acts_in_steps_is_open_for_the_limit_of_each() {
        for (into_ns, left_ns) in [
            (0, None),
            (PERIOD_NS / 2 - 1, None),
            (PERIOD_NS / 2, Some(PERIOD_NS / 2)),
            (PERIOD_NS - 1, Some(1)),
        ] {
            assert_eq!(shut_for(into_ns, 50.0), left_ns);
        }
    }

    #[test]
    fn one_launch_may_overdraw_and_the_next_waits() {
        let mut bucket = Bucket::new(4, 100, 0);
        assert!(bucket.take(1_000_000), "the first goes whatever it costs");
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
        assert_eq!(
            bucket.share,
            2_000 + 4_000 * 80 / 51,
            "far off it is quicker"
        );
        assert_eq!(bucket.tokens, -5_000 + 2_000 + 2_000 + 4_000 * 80 / 51);
        bucket.fill(50, 90, shape);
        bucket.fill(50, 90, shape);
        assert_eq!(bucket.share, 0);
        bucket.fill(50, 48, shape);
        assert_eq!(bucket.share, 500, "at least five percent");
    }

    #[test]
    fn a_bucket_that_is_overdrawn_at_its_fullest_grows() {
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
