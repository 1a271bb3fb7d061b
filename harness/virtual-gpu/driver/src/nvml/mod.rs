//! What calls of the management interface (NVML) mean, on arguments that `abi` has read.
//!
//! Identity and limits come from the machine file. Values that change with time are read from the
//! model after it has advanced to the present. No call changes a setting, except MIG mode
//! and compute mode.
//!
//! Numbers of kinds, counters and fields are those of nvml.h.

pub mod clocks;
mod error;
pub mod events;
pub mod fields;
pub mod gpm;
pub mod health;
mod history;
pub mod identity;
pub mod library;
pub mod link;
pub mod memory;
pub mod mig;
pub mod modes;
mod objects;
pub mod power;
pub mod processes;
pub mod utilization;

pub use error::Error;
