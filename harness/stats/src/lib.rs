//! Interval estimates and tests for scoring, comparison and prediction: pure functions of numbers.
//!
//! No I/O, no clock, no global state. A function returns a typed result or the reason why there is
//! none ([`NoEstimate`]); it never returns NaN. Identical values are legal input: a variance of
//! zero gives an interval of width zero.
//!
//! The unit of inference is the block or the session, never the request: every interval is computed
//! from one number per block. Thresholds, levels and verdicts belong to the caller.
#![warn(missing_docs)]

pub mod bimodal;
pub mod confidence;
pub mod cusum;
pub mod design_effect;
pub mod detectable;
pub mod dose_area;
pub mod e_divisive;
pub mod effect;
pub mod estimate;
pub mod fairness;
pub mod fieller;
pub mod jitter;
pub mod log_ratio;
pub mod moments;
pub mod mover;
pub mod mser5;
pub mod multiplicity;
pub mod order_rank;
pub mod power;
pub mod proportion;
pub mod proportion_change;
pub mod quantile;
pub mod rng;
pub mod schedule;
pub mod serial;
pub mod student_t;
pub mod two_sample;

pub use confidence::Confidence;
pub use effect::Effect;
pub use estimate::{Estimate, NoEstimate};
pub use log_ratio::LogRatio;
pub use quantile::Sorted;
pub use rng::ScheduleRng;
pub use schedule::{Bursts, ScheduleError, poisson_schedule_ns, schedule_hash, schedule_ns};
