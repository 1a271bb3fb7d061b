//! Faults that have happened, and that the driver has not noticed yet.

use super::{Cause, Xid};

/// Maximum number of them. The answer to one more is logged at once.
pub const PENDING_FAULTS: usize = 32;

/// One fault until its Xids are logged.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct PendingFault {
    /// When they are; 0 if the slot is free.
    pub due_ns: u64,
    /// What happened.
    pub cause: Option<Cause>,
    /// Row of the MPS server of the culprit, [`NONE`](super::NONE) without MPS.
    pub server: u32,
    /// The Xid with the name of the culprit, without a number.
    pub xid: Xid,
}
