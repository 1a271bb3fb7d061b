//! The threads that take part in the clock, and what they wait for.

/// Where a clock participant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Standing {
    /// The slot is free.
    #[default]
    Free,
    /// Announced by its creator and not there yet: the clock stands.
    Expected,
    /// Running: the clock stands.
    Running,
    /// Waiting for its condition.
    Waiting,
}

/// What a waiting participant waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Condition {
    /// Nothing but its own ready time.
    #[default]
    Time,
    /// A stream has completed everything up to a sequence number.
    Stream,
    /// Every stream of a context is idle.
    Context,
    /// Room in a stream's ring for that many operations.
    Room,
    /// Another participant's unpark.
    Unpark,
    /// So much of what a stream held back has been carried out.
    Held,
    /// The wait for a word that has this row and number is over.
    Word,
}

/// One clock participant: a thread.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Participant {
    /// Where it stands.
    pub standing: Standing,
    /// What it waits for.
    pub condition: Condition,
    /// An unpark came that no park has taken yet.
    pub token: bool,
    /// Process slot, once joined; [`super::NONE`] before.
    pub process: u32,
    /// Kernel thread id, for reports of stalls.
    pub tid: u32,
    /// Stream, context or row of the condition.
    pub target: u32,
    /// Sequence number of the condition.
    pub seq: u64,
    /// Not before this instant.
    pub ready_ns: u64,
    /// When the clock was last granted to it.
    pub granted_ns: u64,
}
