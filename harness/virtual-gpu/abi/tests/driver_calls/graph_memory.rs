//! Memory allocated by graphs: mapped while a graph uses it, kept for the next graph, and counted
//! for the process all the time.

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::AllocNode;
use gpubench_virtual_gpu_model::memory;

use super::graphs::{new_graph, ready};
use super::memory::pool_properties;
use super::*;

const BYTES: usize = 4 << 20;

fn alloc_node() -> AllocNode {
    AllocNode {
        pool: pool_properties(0),
        access: std::ptr::null(),
        access_count: 0,
        bytes: BYTES,
        pointer: 0,
    }
}

/// Device memory of the process.
fn account() -> Result<u64, Error> {
    let device = device().map_err(|code| format!("{code:?}"))?;
    let slot = device.process()?;
    Ok(device.transact(|state, _| memory::process_bytes(state, slot))?)
}

fn settle() -> Result<(), Error> {
    ok!(cuCtxSynchronize())
}

fn trim() -> Result<(), Error> {
    ok!(cuDeviceGraphMemTrim(0))
}

#[test]
fn freed_graph_memory_is_kept_for_the_next_graph() -> Result<(), Error> {
    with_context(|| {
        let (before, graph, mut node) = (account()?, new_graph()?, alloc_node());
        let taken = || Ok::<_, Error>((account()? - before) / BYTES as u64);
        let (mut made, none): (Handle, _) = (null_mut(), std::ptr::null());
        ok!(cuGraphAddMemAllocNode(&raw mut made, graph, none, 0, &raw mut node))?;
        let exec = ready(graph)?;
        assert_eq!(taken()?, 0, "nothing yet");
        ok!(cuGraphLaunch(exec, null_mut()))?;
        assert_eq!(taken()?, 1);
        ok!(cuMemsetD32_v2(node.pointer, 3, 1 << 20))?;
        assert_eq!(words(node.pointer, 2)?, [3, 3]);
        trim()?;
        assert_eq!(taken()?, 1, "in use");
        assert_eq!(call!(cuGraphLaunch(exec, null_mut())), 1, "not freed yet");
        for _ in 0..2 {
            ok!(cuMemFreeAsync(node.pointer, null_mut()))?;
            settle()?;
            assert_eq!(taken()?, 1, "kept");
            ok!(cuGraphLaunch(exec, null_mut()))?;
            assert_eq!(taken()?, 1, "used again");
        }
        ok!(cuMemFreeAsync(node.pointer, null_mut()))?;
        trim()?;
        assert_eq!(taken()?, 0, "freed");
        assert_eq!(call!(cuDeviceGraphMemTrim(1)), 101, "no such device");
        ok!(cuGraphExecDestroy(exec))?;
        ok!(cuGraphDestroy(graph))
    })
}

#[test]
fn captured_allocations_belong_to_the_graph() -> Result<(), Error> {
    with_context(|| {
        let (before, stream) = (account()?, stream()?);
        let (mut graph, mut pointer): (Handle, u64) = (null_mut(), 0);
        ok!(cuStreamBeginCapture_v2(stream, 0))?;
        ok!(cuMemAllocAsync(&raw mut pointer, BYTES, stream))?;
        ok!(cuMemsetD32Async(pointer, 5, BYTES / 4, stream))?;
        ok!(cuStreamEndCapture(stream, &raw mut graph))?;
        assert_eq!(account()?, before, "captured, not executed");
        let exec = ready(graph)?;
        ok!(cuGraphLaunch(exec, stream))?;
        ok!(cuStreamSynchronize(stream))?;
        assert_eq!(words(pointer, 2)?, [5, 5]);
        assert_eq!(account()? - before, BYTES as u64);
        // Any free function works (CUDA C++ Programming Guide, "Graph Memory Nodes").
        ok!(cuMemFree_v2(pointer))?;
        assert_eq!(call!(cuMemFree_v2(pointer)), 1, "freed already");
        assert_eq!(account()? - before, BYTES as u64, "kept for graphs");
        trim()?;
        assert_eq!(account()?, before);
        // Memory of the next graph is in use when the context is destroyed, and is freed with
        // it.
        ok!(cuGraphLaunch(exec, stream))?;
        ok!(cuGraphExecDestroy(exec))?;
        ok!(cuGraphDestroy(graph))
    })
}
