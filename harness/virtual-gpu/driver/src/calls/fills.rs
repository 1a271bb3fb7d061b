//! Calls that fill memory.

use crate::code::Code;
use crate::fill_shape::Fill;
use crate::handles::Handle;
use crate::issue::perform;
use crate::operation::{Action, WaitPolicy};
use crate::process::process;

/// A fill of one row of elements.
pub fn row(pointer: u64, value: u32, element: u64, count: usize) -> Fill {
    rows((pointer, 0), (value, element), (count, 1))
}

/// A fill of several rows: pointer and pitch, value and bytes of an element, width and height.
pub fn rows(
    (pointer, pitch): (u64, usize),
    (value, element): (u32, u64),
    (width, height): (usize, usize),
) -> Fill {
    let (pitch, width, height) = (pitch as u64, width as u64, height as u64);
    Fill {
        pointer,
        pitch,
        value,
        element,
        width,
        height,
    }
}

/// Fills in a stream, or in the default stream with a wait.
pub fn queue(fill: Fill, stream: Option<Handle>) -> Result<(), Code> {
    let process = process()?;
    let policy = if stream.is_some() {
        WaitPolicy::Later
    } else {
        WaitPolicy::Now
    };
    let stream = process.stream(stream.unwrap_or(std::ptr::null_mut()))?;
    perform(process, &stream, Action::Fill(fill), policy)
}
