//! The threads that participate in the virtual clock, and their wait conditions.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum ParticipantStatus {
    #[default]
    Free,
    /// Announced by its creator, not yet started: the clock stands.
    Expected,
    Running,
    Waiting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Condition {
    /// Its own ready time only.
    #[default]
    Time,
    /// A stream has completed everything up to a sequence number.
    Stream,
    /// Every stream of a context is idle.
    Context,
    /// Room for that many operations in a stream's ring.
    Room,
    Unpark,
}

/// One clock participant: a thread.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Participant {
    pub status: ParticipantStatus,
    pub condition: Condition,
    /// An unpark arrived that no park has consumed yet.
    pub token: bool,
    /// Process slot; [`super::NONE`] before the thread joins.
    pub process: u32,
    /// Kernel thread id, for reports of stalls.
    pub tid: u32,
    /// Stream, context or row of the condition.
    pub target: u32,
    pub seq: u64,
    /// Earliest instant at which it can run.
    pub ready_ns: u64,
    pub granted_ns: u64,
}
