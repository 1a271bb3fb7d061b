//! Where an operation is queued, and when the call returns.

use crate::entries::StreamEntry;
use crate::operation::WaitPolicy;
use crate::process::Process;

#[derive(Clone, Copy)]
pub struct Issue<'i> {
    pub process: &'i Process,
    pub stream: &'i StreamEntry,
    pub policy: WaitPolicy,
}
