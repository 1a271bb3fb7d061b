//! libnvidia-ml: what monitoring programs see, one file for each kind of question.
//!
//! Identity and limits come from the machine file; whatever changes with time is read from the
//! model after it has come up to the present. What the model does not know is not answered: those
//! names stay stubs that say NOT_SUPPORTED. Deliberately absent: everything that changes a setting,
//! but for MIG and accounting.

#[macro_use]
mod entry;

mod accounting;
mod clocks;
mod confidential;
mod events;
mod fields;
pub mod gpm;
mod handles;
mod health;
mod history;
mod identity;
mod library;
mod link;
mod lookup;
mod memory;
mod memory_limits;
pub mod mig;
mod modes;
mod objects;
mod power;
mod processes;
pub mod returns;
mod samples;
mod system;
mod target;
pub mod types;
mod utilization;
mod wait_policy;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::accounting::*;
    pub use super::clocks::*;
    pub use super::confidential::*;
    pub use super::events::*;
    pub use super::fields::*;
    pub use super::gpm::*;
    pub use super::health::*;
    pub use super::identity::*;
    pub use super::library::*;
    pub use super::link::*;
    pub use super::lookup::*;
    pub use super::memory::*;
    pub use super::memory_limits::*;
    pub use super::mig::calls::*;
    pub use super::modes::*;
    pub use super::power::*;
    pub use super::processes::*;
    pub use super::samples::*;
    pub use super::system::*;
    pub use super::utilization::*;
}

pub use entry::DeviceHandle;
use entry::{check_not_null, check_version, put, put_each, put_list, put_text, read};
