//! Launching a kernel: executes it, computes its cost, queues it on the device.
//!
//! A launch is executed when it is made; its time passes in the model. `cache` avoids executing
//! identical launches. Launches too large to execute in full are sampled (`run`): their
//! outputs count as unwritten, and reading them fails. Kernels that read `%globaltimer` are
//! executed again once the model knows when they ran (`rerun`).

pub mod cache;
mod faults;
mod ranges;
pub mod request;
mod rerun;
mod residence;
mod run;
mod start;
pub(crate) mod state;

pub use request::{Key, Request, kernel_of};
pub use rerun::{
    Clocking, finish_reruns, finish_reruns_into, has_reruns, rerun_copy, rerun_writes,
};
pub use residence::{blocks_per_sm, check, check_residence};
pub(crate) use run::Extent;
pub use start::launch;
