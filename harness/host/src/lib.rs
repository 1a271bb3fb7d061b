//! What touches a machine: devices, the sharing mechanisms, and tenant processes.
//!
//! Modules stand in the order of use; each may use those above it.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests start processes"))]

pub mod device;

pub mod mechanism;

pub mod tenant;
