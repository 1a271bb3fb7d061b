//! The driver of the virtual GPU: one process's side of a device that several processes share.
//!
//! `shm` is the file in which they share it, `session` the folder around that file, `device` one
//! process's handle on it, `backing_store` the contents of device memory, `kernel_log` the host's
//! log. `placement` decides where the contexts of the process run.

pub mod addresses;
pub mod backing_store;
pub mod code;
pub mod cost;
pub mod crash;
pub mod device;
pub mod diagnostics;
pub mod entries;
pub mod exports;
pub mod handles;
pub mod host_process;
pub mod kernel_log;
pub mod last_writers;
pub mod placement;
pub mod session;
pub mod shm;
pub mod stall;
