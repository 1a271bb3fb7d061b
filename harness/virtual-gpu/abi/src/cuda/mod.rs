//! The driver interface, one file for each kind of object.
//!
//! `action` is what a stream can be told to do: `copy`, `fill` and `host` carry it out, `graph`
//! keeps it. The other files are the entry points around one kind of object.

pub mod action;
mod array;
mod attributes;
pub mod backlog;
mod context;
mod context_forms;
mod copies;
mod copy;
mod device;
mod event;
pub mod fill;
mod function;
mod global;
pub mod graph;
mod green;
mod host;
mod ipc;
mod launching;
pub mod layout;
mod library;
pub mod managed;
pub mod mem_ops;
mod memory;
mod module;
mod per_thread;
mod pinned;
mod pointer;
mod pool;
mod stream;
mod values;
mod versions;
mod virtual_memory;

pub use copy::{Copy, move_bytes, noisy};
pub use ipc::is_usable;
pub use per_thread::{default_stream_of_thread, null_stream};
pub use pinned::covering as pinned_covering;
pub use values::Store;

/// Every entry point by its exported name, for programs in Rust.
pub mod calls {
    pub use super::array::*;
    pub use super::context::*;
    pub use super::context_forms::*;
    pub use super::copies::*;
    pub use super::device::*;
    pub use super::event::*;
    pub use super::fill::*;
    pub use super::function::*;
    pub use super::global::*;
    pub use super::graph::calls::*;
    pub use super::green::*;
    pub use super::host::*;
    pub use super::ipc::*;
    pub use super::launching::*;
    pub use super::library::*;
    pub use super::managed::*;
    pub use super::mem_ops::*;
    pub use super::memory::*;
    pub use super::module::*;
    pub use super::per_thread::*;
    pub use super::pinned::*;
    pub use super::pointer::*;
    pub use super::pool::*;
    pub use super::stream::*;
    pub use super::virtual_memory::*;
}
