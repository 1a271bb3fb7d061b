//! Batched memory operations (`cuStreamBatchMemOp`): in streams, captured, and as graph nodes.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::{null, null_mut};

use gpubench_virtual_gpu_abi::cuda::mem_ops::BatchNode;
use gpubench_virtual_gpu_driver::memory_op::MemOp;

use super::wait_support::{EQ, GEQ, STEP_NS, pinned, spin, stamps};
use super::*;

const WAIT_32: i32 = 1;
const WRITE_32: i32 = 2;
const FLUSH: i32 = 3;
const WAIT_64: i32 = 4;
const WRITE_64: i32 = 5;
const BARRIER: i32 = 6;

fn op(operation: i32, pointer: u64, value: u64, flags: u32) -> MemOp {
    MemOp {
        operation,
        flags: 0,
        words: [pointer, value, flags.into(), 0, 0],
    }
}

fn barrier(flags: u32) -> MemOp {
    MemOp {
        flags,
        ..op(BARRIER, 0, 0, 0)
    }
}

fn batch(stream: Handle, ops: &[MemOp]) -> i32 {
    // SAFETY: an array of that length.
    unsafe { cuStreamBatchMemOp_v2(stream, ops.len() as u32, ops.as_ptr(), 0) }
}

fn node(ops: &[MemOp]) -> BatchNode {
    BatchNode {
        context: null_mut(),
        count: ops.len() as u32,
        ops: ops.as_ptr(),
        flags: 0,
    }
}

#[test]
fn a_batch_runs_in_order_or_not_at_all() -> Result<(), Error> {
    with_context(|| {
        let (stream, at) = (stream()?, alloc(24)?);
        // SAFETY: memory of that size, arrays of the given length.
        unsafe {
            ok(cuMemsetD8_v2(at, 0, 24))?;
            ok(batch(
                stream,
                &[
                    op(WRITE_32, at, 5, 0),
                    barrier(1),
                    op(WAIT_32, at, 5, EQ),
                    op(WRITE_64, at + 8, u64::MAX, 0),
                    op(WAIT_64, at + 8, u64::MAX, GEQ),
                    op(WRITE_32, at, 6, 0),
                ],
            ))?;
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(words(at, 4)?, [6, 0, u32::MAX, u32::MAX]);
            let flush = MemOp {
                flags: 0,
                ..op(FLUSH, 0, 0, 0)
            };
            for (bad, code, what) in [
                (op(7, at, 1, 0), 1, "no such operation"),
                (op(WAIT_32, at + 2, 1, 0), 1, "not aligned"),
                (op(WRITE_32, 64, 1, 0), 1, "unmapped memory"),
                (op(WRITE_32, at, 1, 2), 1, "no such flag"),
                (op(WRITE_32, at, 1, 1), 801, "a flag of v1"),
                (barrier(2), 1, "no such barrier"),
                (
                    flush,
                    801,
                    "a flush, which the device reports as unsupported",
                ),
            ] {
                let found = batch(stream, &[op(WRITE_32, at, 9, 0), bad]);
                assert_eq!(found, code, "{what}");
            }
            let many = vec![op(WRITE_32, at, 9, 0); 256];
            assert_eq!(batch(stream, &many), 1, "too many");
            assert_eq!(cuStreamBatchMemOp_v2(stream, 1, null(), 0), 1, "no array");
            assert_eq!(cuStreamBatchMemOp_v2(stream, 1, many.as_ptr(), 1), 1);
            let fence = barrier(0);
            let first = cuStreamBatchMemOp(stream, 1, &raw const fence, 0);
            assert_eq!(first, 801, "barriers need v2");
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(words(at, 1)?, [6], "no refused batch had an effect");
            ok(batch(stream, &many[..255]))?;
            ok(batch(stream, &[]))?;
            assert_eq!(words(at, 1)?, [9]);
        }
        Ok(())
    })
}

#[test]
fn operations_after_a_batch_wait_for_its_words() -> Result<(), Error> {
    with_context(|| {
        let (first, second) = (stream()?, stream()?);
        let (flags, at) = (alloc(16)?, alloc(32)?);
        // SAFETY: memory of that size.
        unsafe { ok(cuMemsetD8_v2(flags, 0, 16)) }?;
        let begun = now_ns()?;
        let ops = [op(WAIT_32, flags, 1, EQ), op(WRITE_32, flags + 4, 1, 0)];
        ok(batch(second, &ops))?;
        spin(second, at + 16)?;
        assert!(now_ns()? - begun < STEP_NS, "the call returns at once");
        spin(first, at)?;
        ok(batch(first, &[op(WRITE_32, flags, 1, 0)]))?;
        // SAFETY: a valid handle.
        unsafe { ok(cuStreamSynchronize(second)) }?;
        let times = stamps(at, 2)?;
        assert!(times[2] >= times[1], "{times:?}");
        assert_eq!(words(flags, 2)?, [1, 1]);
        Ok(())
    })
}

#[test]
fn a_captured_batch_is_one_node_that_waits_at_every_launch() -> Result<(), Error> {
    with_context(|| {
        let (recorded, other) = (stream()?, stream()?);
        let (at, (word, address)) = (alloc(48)?, pinned()?);
        let (mut graph, mut exec): (Handle, Handle) = (null_mut(), null_mut());
        let mut count = 0;
        // SAFETY: valid handles, pointers and arrays.
        unsafe {
            ok(cuMemsetD8_v2(at, 0, 48))?;
            ok(cuStreamBeginCapture_v2(recorded, 0))?;
            let ops = [op(WAIT_32, address, 1, EQ), op(WRITE_32, at + 32, 7, 0)];
            ok(batch(recorded, &ops))?;
            spin(recorded, at)?;
            ok(cuStreamWriteValue32_v2(recorded, at + 36, 8, 0))?;
            ok(cuStreamEndCapture(recorded, &raw mut graph))?;
            ok(cuGraphGetNodes(graph, null_mut(), &raw mut count))?;
            assert_eq!(count, 3);

            ok(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0))?;
            ok(cuGraphLaunch(exec, recorded))?;
            spin(other, at + 16)?;
            ok(cuStreamSynchronize(other))?;
            assert_eq!(cuStreamQuery(recorded), 600, "not written yet");
            word.store(1, std::sync::atomic::Ordering::Relaxed);
            ok(cuStreamSynchronize(recorded))?;
            let times = stamps(at, 2)?;
            assert!(times[0] >= times[3], "{times:?}");
            assert_eq!(words(at + 32, 2)?, [7, 8]);
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))
        }
    })
}

#[test]
fn a_graph_and_a_stream_wait_for_each_others_writes() -> Result<(), Error> {
    with_context(|| {
        let (graphs, other) = (stream()?, stream()?);
        let (flags, at) = (alloc(16)?, alloc(32)?);
        let (mut graph, mut exec, mut made): (Handle, Handle, Handle) =
            (null_mut(), null_mut(), null_mut());
        // SAFETY: valid handles, pointers and arrays.
        unsafe {
            ok(cuMemsetD8_v2(flags, 0, 16))?;
            ok(cuGraphCreate(&raw mut graph, 0))?;
            let bad = node(&[op(7, flags, 1, 0)]);
            let refused = cuGraphAddBatchMemOpNode(&raw mut made, graph, null(), 0, &raw const bad);
            assert_eq!(refused, 1);
            let ops = [op(WRITE_32, flags, 1, 0), op(WAIT_32, flags + 4, 1, GEQ)];
            let params = node(&ops);
            ok(cuGraphAddBatchMemOpNode(
                &raw mut made,
                graph,
                null(),
                0,
                &raw const params,
            ))?;
            ok(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0))?;
            // The other stream writes its word after a step.
            ok(cuStreamWaitValue32_v2(other, flags, 1, EQ))?;
            spin(other, at)?;
            ok(cuStreamWriteValue32_v2(other, flags + 4, 1, 0))?;
            ok(cuGraphLaunch(exec, graphs))?;
            spin(graphs, at + 16)?;
            ok(cuCtxSynchronize())?;
            let times = stamps(at, 2)?;
            assert!(times[2] >= times[1], "{times:?}");
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))
        }
    })
}
