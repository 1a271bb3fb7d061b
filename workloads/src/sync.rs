//! The atomics of the code that two threads or processes share without a lock.
//!
//! `tests/loom.rs` compiles that code with the atomics of loom in place of these.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
