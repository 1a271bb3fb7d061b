//! The model of a GPU: what a device is at one instant, and what it does as time passes.
//!
//! `machine` is the description of a device, `state` its content at one instant, `simulation` the
//! rules by which time changes it, `pump` the rule by which virtual time is granted to
//! participants. `mig` divides a device, `mps` joins processes on it, `memory` and `cgroup` count
//! its memory, `compute_mode` admits contexts, `lifecycle` ends processes and contexts. All of it
//! is data and functions on data; processes, locks and calls are the driver's.

pub mod cgroup;
pub mod compute_mode;
pub mod lifecycle;
pub mod machine;
pub mod memory;
pub mod mig;
pub mod mps;
pub mod noise;
pub mod pump;
pub mod simulation;
pub mod state;
pub mod table;
