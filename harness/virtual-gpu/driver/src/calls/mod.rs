//! What calls mean, on arguments that `abi` has read.

pub mod array;
pub mod context;
pub mod copies;
pub mod device;
pub mod event;
pub mod fills;
pub mod graph;
pub mod green;
pub mod image;
pub mod ipc;
pub mod launches;
pub mod library;
pub mod managed;
pub mod memory;
pub mod module;
pub mod pinned;
pub mod pool;
pub mod stream;
pub mod virtual_memory;

use crate::code::Code;
use crate::launch;
use crate::pool::trim_all;
use crate::process::Process;

/// Ends a call that has waited for work of a context: charges for the wait, brings the results,
/// returns surplus memory of the pools, and reports an error that sticks to the context.
fn after_wait(process: &Process, context: u32) -> Result<(), Code> {
    process.charge(process.host().sync_ns)?;
    launch::finish_reruns(process, context)?;
    trim_all(process)?;
    process.check_sticky(context)
}

fn wait_for_context(process: &Process, context: u32) -> Result<(), Code> {
    process.device.wait_context(context)?;
    launch::finish_reruns(process, context)
}
