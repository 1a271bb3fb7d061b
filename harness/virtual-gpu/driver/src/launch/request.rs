//! A requested launch, and the key that identifies it.

use super::shape::Shape;
use crate::entries::{ContextPlacement, FunctionEntry, StreamEntry};

/// One requested launch.
#[derive(Debug)]
pub struct Request<'a> {
    pub function: &'a FunctionEntry,
    pub stream: StreamEntry,
    pub shape: Shape,
    pub params: Vec<u8>,
}

/// Inputs of a launch, memory contents aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) hash: u64,
    pub(crate) name: String,
    pub(crate) context: u32,
    pub(crate) placement: ContextPlacement,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Its blocks are executed together, since they may wait for each other.
    pub(crate) cooperative: bool,
    pub(crate) params: Vec<u8>,
}
