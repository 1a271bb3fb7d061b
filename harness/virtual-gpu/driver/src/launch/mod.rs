//! Launching a kernel: executes it, computes its cost, queues it on the device.
//!
//! A launch is executed when it is made; its time passes in the model. `cache` avoids executing
//! identical launches. Launches too large to execute in full are sampled (`sampling`): their
//! outputs count as unwritten, and reading them fails. Kernels that read `%globaltimer` are
//! executed again once the model knows when they ran (`rerun`).

pub mod cache;
mod clocking;
mod execute;
mod faults;
mod kernel;
mod outcome;
mod ranges;
pub(crate) mod request;
mod rerun;
mod rerun_data;
mod residence;
mod run;
mod sampling;
pub mod shape;
mod start;
pub(crate) mod state;

pub use clocking::Clocking;
pub use kernel::kernel_of;
pub use request::{Key, Request};
pub use rerun::{finish_reruns, finish_reruns_into, has_reruns, rerun_copy, rerun_writes};
pub use residence::{blocks_per_sm, check, check_residence};
pub(crate) use sampling::Extent;
pub use start::launch;
