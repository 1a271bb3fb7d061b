//! What a tenant does: its clock, load generation, the sample log, workloads, faults and probes.
//!
//! Runs in the tenant process. It produces samples; scoring happens elsewhere.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod child;
pub mod clock;
pub mod command;
pub mod device;
pub mod fault;
pub mod generator;
pub mod load;
pub mod log;
pub mod probe;
mod sync;
pub mod timer_selftest;
pub mod user_victim;
