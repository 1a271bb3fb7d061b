//! The virtual GPU under one name: its packages, for programs in Rust.
//!
//! The entry points in C are those of `gpubench-virtual-gpu-abi`, which the shared object exports.

pub use gpubench_virtual_gpu_driver::{
    backing_store, crash, device, host_process, kernel_log, rules, session, shm,
};
pub use gpubench_virtual_gpu_model::{cgroup, machine, mig, mps, state};
pub use gpubench_virtual_gpu_vendor_tools::{NAMES, nvidia_cuda_mps};
