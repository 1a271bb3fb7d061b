//! Interval estimates and tests for scoring, comparison and prediction: pure functions of numbers.
//!
//! No I/O, no clock, no global state. A function returns a typed result or the reason why there is
//! none ([`NoEstimate`]); it never returns NaN. Identical values are legal input: a variance of
//! zero gives an interval of width zero.
//!
//! The unit of inference is the block or the session, never the request: every interval is computed
//! from one number per block. Thresholds, levels and verdicts belong to the caller.

pub mod change_point;
pub mod effect;
pub mod estimate;
pub mod power;
pub mod proportion;
pub mod quantile;
pub mod queue;
pub mod ratio;
pub mod schedule;
pub mod serial;
pub mod series;
pub mod student_t;
pub mod summary;
pub mod two_sample;

pub use effect::Effect;
pub use estimate::Confidence;
pub use estimate::{Estimate, NoEstimate};
pub use quantile::Sorted;
pub use ratio::LogRatio;
pub use schedule::ScheduleRng;
pub use schedule::{Bursts, ScheduleError, poisson_schedule_ns, schedule_hash, schedule_ns};
