//! Calls on words in memory: each is a batch of operations.

use crate::code::Code;
use crate::deferred_queue;
use crate::graph::capture;
use crate::handles::Handle;
use crate::memory_op::{Form, Meaning, MemOp};
use crate::operation::{Action, WaitPolicy};
use crate::process::process;
use crate::stream_memory_ops::check;

/// Has a stream do one operation.
pub fn queue_one(stream: Handle, op: MemOp, form: Form) -> Result<(), Code> {
    op.meaning(form)?;
    queue(stream, vec![op], form)
}

/// Has a stream do all of them, or none if one of them cannot be done.
pub fn queue(stream: Handle, ops: Vec<MemOp>, form: Form) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    check_all(&ops, form)?;
    let left = capture::recorded(
        process,
        &stream,
        Action::Batch(ops.clone()),
        WaitPolicy::Later,
    )?;
    if left.is_none() {
        return Ok(());
    }
    for op in &ops {
        let action = match op.meaning(form)? {
            Meaning::Write(word) => Action::Write(word),
            Meaning::Await(word) => Action::Await(word),
            Meaning::Barrier => Action::Empty,
        };
        deferred_queue::pass(process, &stream, action, WaitPolicy::Later)?;
    }
    Ok(())
}

/// Whether every word lies in memory of the program.
pub fn check_all(ops: &[MemOp], form: Form) -> Result<(), Code> {
    let process = process()?;
    for op in ops {
        if let Meaning::Write(word) | Meaning::Await(word) = op.meaning(form)? {
            check(process, &word)?;
        }
    }
    Ok(())
}
