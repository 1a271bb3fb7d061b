//! Calls on streams.

use std::ffi::{c_int, c_uint};

use super::after_wait;
use crate::code::{self, Code, refuse};
use crate::execute::perform;
use crate::graph::capture;
use crate::handles::Handle;
use crate::launch;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;
use crate::stream::{NON_BLOCKING, finish, open, wait_until_idle};
use gpubench_virtual_gpu_model::state::order;

/// Makes a stream of the current context.
pub fn create(flags: c_uint, priority: c_int) -> Result<Handle, Code> {
    refuse(flags > NON_BLOCKING, code::INVALID_VALUE)?;
    let process = process()?;
    let context = process.current()?;
    let entry = open(process, &context, flags, priority)?;
    process.tables().streams.insert(entry)
}

/// Destroys a stream; what is queued in it still runs.
pub fn destroy(stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = *process.ready()?.streams.get(stream)?;
    process.tables().captures.remove(&entry.slot);
    finish(process, entry.slot)?;
    process.tables().streams.remove(stream)?;
    Ok(())
}

pub fn synchronize(stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    capture::forbid(process, &entry)?;
    wait_until_idle(process, entry.slot)?;
    after_wait(process, entry.context)
}

pub fn query(stream: Handle) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    capture::forbid(process, &entry)?;
    process.charge(process.host().query_ns)?;
    process.device.catch_up()?;
    let idle = process.device.transact(|state, _| {
        let mut covered = order::covered(state, entry.slot as usize).into_iter();
        covered.all(|(slot, seq)| state.streams.rows[slot as usize].completed >= seq)
    })?;
    process.check_sticky(entry.context)?;
    refuse(!idle, code::NOT_READY)?;
    launch::finish_reruns(process, entry.context)
}

pub fn wait_event(stream: Handle, event: Handle, flags: c_uint) -> Result<(), Code> {
    refuse(flags > 1, code::INVALID_VALUE)?;
    let process = process()?;
    let entry = process.stream(stream)?;
    process.ready()?.events.get(event)?;
    // CU_EVENT_WAIT_EXTERNAL (cuda.h) makes a node of a wait that otherwise joins captures.
    if flags == 0 && capture::join(process, &entry, event)? {
        return Ok(());
    }
    let action = Action::Wait(event as usize);
    perform(process, &entry, action, WaitPolicy::Later)
}
