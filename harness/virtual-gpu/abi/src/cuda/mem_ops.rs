//! Words in memory that streams write and wait for: one at a time, in batches, and as nodes.
//!
//! What comes in as single calls is a batch of one. A stream takes the operations of a batch one
//! after the other; a recording keeps the batch as one node. `values` carries them out.
#![expect(
    unsafe_code,
    reason = "a C interface is made of raw pointers and exported names"
)]

use std::ffi::{c_int, c_uint, c_ulonglong};

use super::action::{Action, Pace};
use super::copies::read;
use super::global::entries;
use super::graph::capture;
use super::values::{Word, check};
use super::{backlog, graph};
use crate::process::process;
use crate::put;
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::state::hold::Test;

/// A batch has fewer operations than this (cuStreamBatchMemOp).
const MOST: c_uint = 256;

/// `CUstreamBatchMemOpType` (cuda.h).
const WAIT_32: c_int = 1;
const WRITE_32: c_int = 2;
const FLUSH: c_int = 3;
const WAIT_64: c_int = 4;
const WRITE_64: c_int = 5;
const BARRIER: c_int = 6;
const REDUCTION: c_int = 8;

/// `CU_STREAM_WAIT_VALUE_FLUSH` and `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER` (cuda.h).
const WAIT_FLUSH: c_uint = 1 << 30;
const NO_BARRIER: c_uint = 1;

/// Which form of the calls: they differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    First,
    Second,
}

/// `CUstreamBatchMemOpParams`: a union of which all members begin with the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct MemOp {
    pub operation: c_int,
    /// Flags of operations that have no address.
    pub flags: c_uint,
    /// Address, value, and the flags in the low half of the third.
    pub words: [u64; 5],
}

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BatchNode {
    pub context: Handle,
    pub count: c_uint,
    pub ops: *const MemOp,
    pub flags: c_uint,
}

/// What an operation is to the device.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meaning {
    Write(Word),
    Await(Word),
    /// Orders what the model orders anyway.
    Barrier,
}

impl MemOp {
    fn on(operation: c_int, pointer: u64, value: u64, flags: c_uint) -> Self {
        Self {
            operation,
            flags: 0,
            words: [pointer, value, flags.into(), 0, 0],
        }
    }

    /// What it is, if it can be done at all.
    ///
    /// # Errors
    /// For unknown operations and flags, and for what the device says it cannot do.
    pub(super) fn meaning(&self, form: Form) -> Result<Meaning, Code> {
        let [pointer, value, flags, ..] = self.words;
        let flags = flags as c_uint;
        let word = |bytes, kind| {
            let value = match bytes {
                4 => value & u64::from(u32::MAX),
                _ => value,
            };
            let test = Test { bytes, kind, value };
            Word { pointer, test }
        };
        match self.operation {
            WAIT_32 => check_wait(flags).map(|kind| Meaning::Await(word(4, kind))),
            WAIT_64 => check_wait(flags).map(|kind| Meaning::Await(word(8, kind))),
            WRITE_32 => check_write(flags, form).map(|()| Meaning::Write(word(4, 0))),
            WRITE_64 => check_write(flags, form).map(|()| Meaning::Write(word(8, 0))),
            // System-wide or of the device, and of the second form only (cuda.h).
            BARRIER if self.flags > 1 => Err(code::INVALID_VALUE),
            BARRIER if form == Form::Second => Ok(Meaning::Barrier),
            FLUSH | REDUCTION if self.flags != 0 => Err(code::INVALID_VALUE),
            // The device says that it cannot flush (CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES).
            BARRIER | FLUSH | REDUCTION => Err(code::NOT_SUPPORTED),
            _ => Err(code::INVALID_VALUE),
        }
    }
}

/// The kind of comparison.
fn check_wait(flags: c_uint) -> Result<c_uint, Code> {
    match flags & !3 {
        0 => Ok(flags),
        // The flush needs a device that can do one, as above.
        WAIT_FLUSH => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}

fn check_write(flags: c_uint, form: Form) -> Result<(), Code> {
    match flags {
        0 => Ok(()),
        NO_BARRIER if form == Form::First => Ok(()),
        // "Not supported in the v2 API" (CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, cuda.h).
        NO_BARRIER => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}

entries! {
    fn cuStreamWriteValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_one(stream, MemOp::on(WRITE_32, pointer, value.into(), flags), Form::First)
    }

    fn cuStreamWriteValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_one(stream, MemOp::on(WRITE_32, pointer, value.into(), flags), Form::Second)
    }

    fn cuStreamWriteValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_one(stream, MemOp::on(WRITE_64, pointer, value, flags), Form::First)
    }

    fn cuStreamWriteValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_one(stream, MemOp::on(WRITE_64, pointer, value, flags), Form::Second)
    }

    fn cuStreamWaitValue32(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_one(stream, MemOp::on(WAIT_32, pointer, value.into(), flags), Form::First)
    }

    fn cuStreamWaitValue32_v2(stream: Handle, pointer: u64, value: c_uint, flags: c_uint) {
        queue_one(stream, MemOp::on(WAIT_32, pointer, value.into(), flags), Form::Second)
    }

    fn cuStreamWaitValue64(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_one(stream, MemOp::on(WAIT_64, pointer, value, flags), Form::First)
    }

    fn cuStreamWaitValue64_v2(stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint) {
        queue_one(stream, MemOp::on(WAIT_64, pointer, value, flags), Form::Second)
    }

    fn cuStreamBatchMemOp(stream: Handle, count: c_uint, ops: *const MemOp, flags: c_uint) {
        // SAFETY: the caller's array of `count` operations.
        queue(stream, unsafe { gather(count, ops, flags, Form::First) }?, Form::First)
    }

    fn cuStreamBatchMemOp_v2(stream: Handle, count: c_uint, ops: *const MemOp, flags: c_uint) {
        // SAFETY: the caller's array of `count` operations.
        queue(stream, unsafe { gather(count, ops, flags, Form::Second) }?, Form::Second)
    }

    fn cuGraphAddBatchMemOpNode(
        node: *mut Handle,
        graph: Handle,
        after: *const Handle,
        count: usize,
        params: *const BatchNode,
    ) {
        // SAFETY: the caller's arrays, structure and place.
        unsafe { graph::enter(node, graph, (after, count), node_action(params)) }
    }

    fn cuGraphBatchMemOpNodeSetParams(node: Handle, params: *const BatchNode) {
        // SAFETY: the caller's structure.
        graph::replace_node(node, unsafe { node_action(params) })
    }

    fn cuGraphBatchMemOpNodeGetParams(node: Handle, params: *mut BatchNode) {
        let process = process()?;
        let tables = process.ready()?;
        let Action::Batch(ops) = &tables.nodes.get(node)?.action else {
            return Err(code::INVALID_VALUE);
        };
        // The array stays the node's own (cuGraphBatchMemOpNodeGetParams).
        let found = BatchNode {
            context: std::ptr::null_mut(),
            count: ops.len() as c_uint,
            ops: ops.as_ptr(),
            flags: 0,
        };
        // SAFETY: the caller's place, checked for null.
        unsafe { put(params, found) }
    }

    fn cuGraphExecBatchMemOpNodeSetParams(
        exec: Handle,
        node: Handle,
        params: *const BatchNode,
    ) {
        // SAFETY: the caller's structure.
        graph::replace_step(exec, node, unsafe { node_action(params) })
    }
}

/// Whether a batch may take another one's place in a graph that is ready to launch: count and types
/// cannot change (cuGraphExecBatchMemOpNodeSetParams).
#[must_use]
pub(super) fn is_alike(old: &[MemOp], new: &[MemOp]) -> bool {
    let types = |ops: &[MemOp]| ops.iter().map(|op| op.operation).collect::<Vec<_>>();
    types(old) == types(new)
}

/// The operations of a batch, each of which can be done.
///
/// # Safety
/// `ops` is null or has `count` entries.
unsafe fn gather(
    count: c_uint,
    ops: *const MemOp,
    flags: c_uint,
    form: Form,
) -> Result<Vec<MemOp>, Code> {
    if count >= MOST || flags != 0 {
        return Err(code::INVALID_VALUE);
    }
    let mut out = Vec::new();
    for index in 0..count as usize {
        // SAFETY: an array of that many structures, checked for null.
        let op = unsafe { read(ops.wrapping_add(index)) }?;
        op.meaning(form)?;
        out.push(op);
    }
    Ok(out)
}

/// # Safety
/// `params` is null or valid, with the array that it names.
unsafe fn node_action(params: *const BatchNode) -> Result<Action, Code> {
    // SAFETY: the caller's contract.
    let ops = unsafe {
        let params = read(params)?;
        graph::known(params.context)?;
        gather(params.count, params.ops, params.flags, Form::Second)?
    };
    check_all(&ops, Form::Second)?;
    Ok(Action::Batch(ops))
}

fn queue_one(stream: Handle, op: MemOp, form: Form) -> Result<(), Code> {
    op.meaning(form)?;
    queue(stream, vec![op], form)
}

/// Has a stream do all of them, or none if one of them cannot be done.
fn queue(stream: Handle, ops: Vec<MemOp>, form: Form) -> Result<(), Code> {
    let process = process()?;
    let stream = process.stream(stream)?;
    check_all(&ops, form)?;
    let left = capture::recorded(process, &stream, Action::Batch(ops.clone()), Pace::Later)?;
    if left.is_none() {
        return Ok(());
    }
    for op in &ops {
        let action = match op.meaning(form)? {
            Meaning::Write(word) => Action::Write(word),
            Meaning::Await(word) => Action::Await(word),
            Meaning::Barrier => Action::Empty,
        };
        backlog::pass(process, &stream, action, Pace::Later)?;
    }
    Ok(())
}

/// Whether every word lies in memory of the program.
fn check_all(ops: &[MemOp], form: Form) -> Result<(), Code> {
    let process = process()?;
    for op in ops {
        if let Meaning::Write(word) | Meaning::Await(word) = op.meaning(form)? {
            check(process, &word)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BatchNode, Form, Meaning, MemOp};

    #[test]
    fn the_structures_are_those_of_the_header() {
        assert_eq!((size_of::<MemOp>(), size_of::<BatchNode>()), (48, 32));
        assert_eq!(std::mem::offset_of!(MemOp, words), 8);
        assert_eq!(std::mem::offset_of!(BatchNode, ops), 16);
    }

    #[test]
    fn each_type_of_operation_means_what_the_header_says() {
        let op = |operation, flags, third| MemOp {
            operation,
            flags,
            words: [64, (7 << 32) | 5, third, 0, 0],
        };
        for (operation, flags, third, first, second) in [
            (1, 0, 3, 0, 0),
            (1, 0, 1 << 30, 801, 801),
            (1, 0, 4, 1, 1),
            (2, 0, 1, 0, 801),
            (2, 0, 2, 1, 1),
            (3, 0, 0, 801, 801),
            (3, 1, 0, 1, 1),
            (4, 0, 1, 0, 0),
            (5, 0, 0, 0, 0),
            (6, 1, 0, 801, 0),
            (6, 2, 0, 1, 1),
            (7, 0, 0, 1, 1),
            (8, 0, 0, 801, 801),
            (0, 0, 0, 1, 1),
        ] {
            let op = op(operation, flags, third);
            let code = |form| op.meaning(form).map_or_else(|code| code.0, |_| 0);
            let found = (code(Form::First), code(Form::Second));
            assert_eq!(found, (first, second), "{op:?}");
        }
        let narrow = op(2, 0, 0).meaning(Form::First);
        assert!(matches!(narrow, Ok(Meaning::Write(word)) if word.test.value == 5));
        let wide = op(4, 0, 1).meaning(Form::First);
        assert!(matches!(wide, Ok(Meaning::Await(word))
            if word.test.value == (7 << 32) | 5 && word.test.kind == 1));
    }
}
