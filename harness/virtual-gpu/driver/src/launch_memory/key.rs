//! Everything that decides what a launch does, memory contents aside.

use crate::entries::Seat;

/// Everything that decides what a launch does, memory contents aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub(crate) hash: u64,
    pub(crate) name: String,
    pub(crate) context: u32,
    pub(crate) seat: Seat,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    /// Its blocks run together, since they may wait for each other.
    pub(crate) together: bool,
    pub(crate) params: Vec<u8>,
}
