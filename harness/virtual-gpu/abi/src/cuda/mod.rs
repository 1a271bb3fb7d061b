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

mod arrays;
mod context;
mod device;
mod global;
mod graph;
mod launching;
pub mod layout;
mod memory;
mod module;
mod stream;
mod versions;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::arrays::*;
    pub use super::context::*;
    pub use super::device::*;
    pub use super::global::*;
    pub use super::graph::*;
    pub use super::launching::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::stream::*;
}
