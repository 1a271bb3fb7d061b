//! Device code: CUDA sources, checked-in PTX, typed launchers and the thin driver layer.
//!
//! `driver` talks to libcuda; `CATALOGUE` lists the kernels; each module under `kernel` holds the
//! launcher of one kernel with its cost and its check. The amount of load is the tenant's decision,
//! and the meaning of a figure the scorer's.

mod catalogue;
pub mod driver;
pub mod kernel;
mod kernel_set;
mod ptx_text;
mod sizes;
mod verify;

pub use catalogue::{CATALOGUE, Kernel, KernelInfo};
pub use kernel::Cost;
pub use kernel_set::{KernelSet, Launcher};
pub use verify::VerifyError;
pub use verify::pattern_word;
