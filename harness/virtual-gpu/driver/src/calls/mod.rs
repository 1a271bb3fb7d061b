//! What calls mean, on arguments that have been read.

pub mod array;
pub mod context;
pub mod copies;
pub mod device;
pub mod events;
pub mod fills;
pub mod function;
pub mod graphs;
pub mod green;
pub mod host;
pub mod launches;
pub mod library;
pub mod managed;
pub mod memory_ops;
pub mod module;
pub mod pointer;
