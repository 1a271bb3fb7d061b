//! Words in memory that streams write and wait for: one at a time, in batches, and as nodes.
//!
//! A single call is a batch of one. A stream carries out the operations of a batch one after the
//! other; a captured batch is one node.

use std::ffi::{c_uint, c_ulonglong};

use crate::arguments::read;
use crate::cuda::graph::nodes;
use gpubench_virtual_gpu_driver::calls::memory_ops::{check_all, queue, queue_one};
use gpubench_virtual_gpu_driver::code::{self, Code};
use gpubench_virtual_gpu_driver::graph::edit::known_context;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::memory_op::{Form, MemOp, WAIT_32, WAIT_64, WRITE_32, WRITE_64};
use gpubench_virtual_gpu_driver::operation::Action;

/// A batch has fewer operations than this (cuStreamBatchMemOp).
const MOST: c_uint = 256;

/// `CUDA_BATCH_MEM_OP_NODE_PARAMS`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct BatchNode {
    pub context: Handle,
    pub count: c_uint,
    pub ops: *const MemOp,
    pub flags: c_uint,
}

entries! {
    fn cuStreamWriteValue32, cuStreamWriteValue32_ptsz(
        stream: Handle, pointer: u64, value: c_uint, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WRITE_32, pointer, value.into(), flags), Form::First)
    }

    fn cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz(
        stream: Handle, pointer: u64, value: c_uint, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WRITE_32, pointer, value.into(), flags), Form::Second)
    }

    fn cuStreamWriteValue64, cuStreamWriteValue64_ptsz(
        stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WRITE_64, pointer, value, flags), Form::First)
    }

    fn cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz(
        stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WRITE_64, pointer, value, flags), Form::Second)
    }

    fn cuStreamWaitValue32, cuStreamWaitValue32_ptsz(
        stream: Handle, pointer: u64, value: c_uint, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WAIT_32, pointer, value.into(), flags), Form::First)
    }

    fn cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz(
        stream: Handle, pointer: u64, value: c_uint, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WAIT_32, pointer, value.into(), flags), Form::Second)
    }

    fn cuStreamWaitValue64, cuStreamWaitValue64_ptsz(
        stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WAIT_64, pointer, value, flags), Form::First)
    }

    fn cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz(
        stream: Handle, pointer: u64, value: c_ulonglong, flags: c_uint,
    ) {
        queue_one(stream, MemOp::on(WAIT_64, pointer, value, flags), Form::Second)
    }

    fn cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz(
        stream: Handle, count: c_uint, ops: *const MemOp, flags: c_uint,
    ) {
        queue(stream, gather(count, ops, flags, Form::First)?, Form::First)
    }

    fn cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz(
        stream: Handle, count: c_uint, ops: *const MemOp, flags: c_uint,
    ) {
        queue(stream, gather(count, ops, flags, Form::Second)?, Form::Second)
    }

    fn cuGraphAddBatchMemOpNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize,
        params: *const BatchNode,
    ) {
        nodes::enter(node, graph, (after, count), node_action(params))
    }
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
        let op = read(ops.wrapping_add(index))?;
        op.meaning(form)?;
        out.push(op);
    }
    Ok(out)
}

unsafe fn node_action(params: *const BatchNode) -> Result<Action, Code> {
    let ops = {
        let params = read(params)?;
        known_context(params.context)?;
        gather(params.count, params.ops, params.flags, Form::Second)?
    };
    check_all(&ops, Form::Second)?;
    Ok(Action::Batch(ops))
}

#[cfg(test)]
mod tests {
    use super::BatchNode;

    #[test]
    fn the_structure_is_that_of_the_header() {
        assert_eq!(size_of::<BatchNode>(), 32);
        assert_eq!(std::mem::offset_of!(BatchNode, ops), 16);
    }
}
