//! What a tenant does: the clock seam, load generation, the sample log and the workloads.
//!
//! Runs in the tenant process. Nothing here judges: samples go out, scoring happens elsewhere.

pub mod child;
pub mod clock;
pub mod device;
pub mod fault;
pub mod generator;
pub mod load;
pub mod log;
pub mod probe;
pub mod timer_selftest;
pub mod user_victim;
