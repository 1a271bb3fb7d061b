//! Calls on captures.

use std::ffi::{c_int, c_uint};

use crate::code::{self, Code};
use crate::graph::capture::{ACTIVE, add_missing, check_tips, status_of};
use crate::graph::entries::Capture;
use crate::handles::Handle;
use crate::process::process;

/// The status of a stream (`CUstreamCaptureStatus`), and what `view` reads of an active capture.
pub fn info<R>(
    stream: Handle,
    view: impl FnOnce(&mut Capture) -> R,
) -> Result<(c_int, Option<R>), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let capture = tables.captures.get_mut(&entry.slot);
    let status = status_of(capture.as_deref());
    Ok((status, capture.filter(|_| status == ACTIVE).map(view)))
}

/// Adds nodes to those that the next node of a capture depends on, or replaces them.
pub fn update_tips(stream: Handle, tips: Vec<usize>, flags: c_uint) -> Result<(), Code> {
    let process = process()?;
    let entry = process.stream(stream)?;
    let mut tables = process.ready()?;
    let graph = tables
        .captures
        .get(&entry.slot)
        .map(|capture| capture.graph);
    check_tips(&tables, graph.ok_or(code::INVALID_VALUE)?, &tips)?;
    let capture = tables.captures.get_mut(&entry.slot);
    let capture = capture.ok_or(code::INVALID_VALUE)?;
    // CU_STREAM_ADD_CAPTURE_DEPENDENCIES and CU_STREAM_SET_... are 0 and 1 (cuda.h).
    match flags {
        0 => add_missing(&mut capture.tips, &tips),
        1 => capture.tips = tips,
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}
