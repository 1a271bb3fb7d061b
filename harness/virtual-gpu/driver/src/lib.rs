//! The driver of the virtual GPU: one process's side of a device that several processes share.
//!
//! `shm` is the file in which they share it, `session` the folder around that file, `device` one
//! process's handle on it, `backing_store` the contents of device memory, `kernel_log` the host's
//! log. `placement` decides where the contexts of the process run.
#![allow(
    missing_docs,
    reason = "an internal package: fields whose name says what they hold have no comment"
)]

pub mod addresses;
pub mod backing_store;
pub mod bytes;
pub mod calls;
pub mod code;
pub mod copy;
pub mod copy_shape;
pub mod cost;
pub mod crash;
pub mod device;
pub mod device_attributes;
pub mod device_memory;
pub mod diagnostics;
pub mod entries;
pub mod event;
pub mod execute;
pub mod fill;
pub mod fill_shape;
pub mod graph;
pub mod handles;
pub mod host_process;
pub mod ipc;
pub mod issue;
pub mod kernel_log;
pub mod launch;
pub mod nvml;
pub mod operation;
pub mod pinned;
pub mod placement;
pub mod planted;
pub mod pool;
pub mod process;
pub mod rules;
pub mod session;
pub mod shm;
pub mod stall;
pub mod stand_in;
pub mod stream;
pub mod submit;
pub mod tables;
pub mod virtual_memory;
