//! libnvidia-ml, one file for each group of queries.
//!
//! What calls mean stands in `driver::nvml`. Queries that the model cannot answer stay stubs that
//! return NOT_SUPPORTED.

#[macro_use]
mod entry;

mod clocks;
mod confidential;
mod events;
mod fields;
pub mod gpm;
mod health;
mod identity;
mod library;
mod link;
mod lookup;
mod memory;
pub mod mig;
mod modes;
mod power;
mod processes;
pub mod returns;
mod system;
pub mod types;
mod utilization;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
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
    pub use super::mig::calls::*;
    pub use super::modes::*;
    pub use super::power::*;
    pub use super::processes::*;
    pub use super::system::*;
    pub use super::utilization::*;
}

use entry::{check_not_null, check_version, put, put_all, put_list, put_text, read, switch, text};
pub use types::DeviceHandle;
