//! The driver interface: entry points, one file for each kind of object.

/// Defines exported functions whose bodies end in a `Result`. Names in one row share a signature
/// and a body; of those, `_ptsz` and `_ptds` take the null stream as the thread's own.
macro_rules! entries {
    ($( fn $($name:ident),+ ( $($arguments:tt)* ) $body:block )*) => {
        $( entry! {
            gpubench_virtual_gpu_driver::code::Code, [ $($name),+ ] ( $($arguments)* ) $body
        } )*
    };
}

mod array;
mod context;
mod copies;
mod device;
mod event;
pub mod fill;
mod function;
mod global;
pub mod graph;
mod green;
mod ipc;
mod launching;
pub mod layout;
mod library;
pub mod managed;
mod memory;
mod module;
mod pinned;
mod pool;
mod stream;
mod versions;
mod virtual_memory;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::array::*;
    pub use super::context::*;
    pub use super::copies::*;
    pub use super::device::*;
    pub use super::event::*;
    pub use super::fill::*;
    pub use super::function::*;
    pub use super::global::*;
    pub use super::graph::calls::*;
    pub use super::green::*;
    pub use super::ipc::*;
    pub use super::launching::*;
    pub use super::library::*;
    pub use super::managed::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::pinned::*;
    pub use super::pool::*;
    pub use super::stream::*;
    pub use super::virtual_memory::*;
}
