//! The model of a GPU: the state of a device at one instant, and how time changes it. The README
//! lists the modules.

pub mod cgroup;
pub mod compute_mode;
pub mod lifecycle;
pub mod machine;
pub mod memory;
pub mod mig;
pub mod mps;
pub mod noise;
pub mod simulation;
pub mod state;
pub mod table;
pub mod virtual_time;
