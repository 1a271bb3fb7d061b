//! libnvidia-ml, one file for each group of queries.
//!
//! What calls mean stands in `driver::nvml`. Queries that the model cannot answer stay stubs that
//! return NOT_SUPPORTED.

#[macro_use]
mod entry;

mod device;
mod events;
pub mod gpm;
mod library;
mod load;
pub mod mig;
pub mod returns;
pub mod types;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::device::*;
    pub use super::events::*;
    pub use super::gpm::*;
    pub use super::library::*;
    pub use super::load::*;
    pub use super::mig::*;
}

use entry::{check_not_null, check_version, put, put_all, put_list, put_text, read, switch, text};
pub use types::DeviceHandle;
