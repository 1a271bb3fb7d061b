//! The driver interface, one file for each kind of object.

mod context;
mod copy;
mod device;
mod event;
mod global;
mod memory;
mod module;
mod stream;

pub use copy::noisy;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::context::*;
    pub use super::copy::*;
    pub use super::device::*;
    pub use super::event::*;
    pub use super::global::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::stream::*;
}
