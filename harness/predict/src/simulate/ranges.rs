//! The ranges of the values of a scenario. Beyond them a model is of nothing that runs, and sums
//! and products leave the numbers that a computer holds.

use crate::error::Range;

/// Requests of one simulated run: what a laptop holds.
pub const REQUESTS_MAX: f64 = 2e8;

/// Times of requests and slices.
pub const MILLISECONDS: Range =
    Range::new("a number above 0 and at most 3600000, an hour", |ms| ms > 0.0 && ms <= 3.6e6);
/// The same with nothing.
pub const NO_OR_MILLISECONDS: Range =
    Range::new("a number of at least 0 and at most 3600000, an hour", |ms| {
        (0.0..=3.6e6).contains(&ms)
    });
/// Simulated time.
pub const DURATION: Range =
    Range::new("a number above 0 and at most 31536000, a year", |s| s > 0.0 && s <= 31_536_000.0);
/// Requests per second.
pub const RATE: Range =
    Range::new("a number above 0 and at most 1000000000", |per_s| per_s > 0.0 && per_s <= 1e9);
/// Factors on a time or a rate.
pub const FACTOR: Range =
    Range::new("a number above 0 and at most 1000000", |factor| factor > 0.0 && factor <= 1e6);
/// Factors of contention.
pub const CONTENTION: Range = Range::new("a number of at least 0 and at most 1000000", |factor| {
    (0.0..=1e6).contains(&factor)
});
