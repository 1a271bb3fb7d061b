//! Calls on graphs.

pub mod capture;
pub mod edit;
pub mod exec;
pub mod memory;

/// Every entry point on graphs.
pub mod calls {
    pub use super::capture::*;
    pub use super::edit::*;
    pub use super::exec::*;
    pub use super::memory::*;
}
