//! The shared object form of the virtual GPU: `libcuda` and `libnvidia-ml` in one.
//!
//! Nothing stands here. The entry points are those of `gpubench_virtual_gpu_abi`, which a `cdylib`
//! exports because they are linked in.

pub use gpubench_virtual_gpu_abi::*;
