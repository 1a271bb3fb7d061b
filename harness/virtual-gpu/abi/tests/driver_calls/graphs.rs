//! Graphs built by node calls and by capture.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_virtual_gpu_abi::cuda::layout::{KernelNode, MemsetNode};

use super::*;

pub fn new_graph() -> Result<Handle, Error> {
    let mut graph: Handle = null_mut();
    // SAFETY: a valid pointer.
    unsafe { ok(cuGraphCreate(&raw mut graph, 0)) }?;
    Ok(graph)
}

pub fn ready(graph: Handle) -> Result<Handle, Error> {
    let mut exec: Handle = null_mut();
    // SAFETY: a valid pointer and handle.
    unsafe { ok(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0)) }?;
    Ok(exec)
}

pub fn set(to: u64, value: u32, count: usize) -> MemsetNode {
    MemsetNode {
        to,
        pitch: 0,
        value,
        element_bytes: 4,
        width: count,
        height: 1,
    }
}

/// Adds a node after its dependencies.
pub fn add(
    graph: Handle,
    after: &[Handle],
    make: impl FnOnce(*mut Handle, Handle, *const Handle, usize) -> i32,
) -> Result<Handle, Error> {
    let mut node: Handle = null_mut();
    ok(make(&raw mut node, graph, after.as_ptr(), after.len()))?;
    Ok(node)
}

#[test]
fn nodes_run_in_the_order_of_their_dependencies() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (from, to) = (alloc(256)?, alloc(256)?);
        let (graph, mut args) = (new_graph()?, [to, from, 16]);
        let mut list = params(&mut args);
        let kernel = KernelNode {
            function: copy,
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            params: list.as_mut_ptr(),
            extra: null_mut(),
        };
        let fill = set(from, 7, 64);
        // SAFETY: valid structures, pointers and handles.
        unsafe {
            let filled = add(graph, &[], |n, g, a, c| {
                cuGraphAddMemsetNode(n, g, a, c, &raw const fill, null_mut())
            })?;
            add(graph, &[filled], |n, g, a, c| {
                cuGraphAddKernelNode(n, g, a, c, &raw const kernel)
            })?;
            let twice = add(graph, &[filled, filled], |n, g, a, c| {
                cuGraphAddEmptyNode(n, g, a, c)
            });
            assert!(twice.is_err(), "the same dependency twice");
            let exec = ready(graph)?;
            let mut count = 0;
            ok(cuGraphGetNodes(graph, null_mut(), &raw mut count))?;
            assert_eq!(count, 2);
            ok(cuGraphLaunch(exec, null_mut()))?;
            assert_eq!(words(to, 64)?, [7; 64]);
            ok(cuGraphExecDestroy(exec))?;
            assert_eq!(cuGraphLaunch(exec, null_mut()), 400);
            ok(cuGraphDestroy(graph))?;
            assert_eq!(cuGraphDestroy(graph), 400);
        }
        Ok(())
    })
}

#[test]
fn branches_overlap_and_join() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (graph, stamps) = (new_graph()?, alloc(64)?);
        let root = add(graph, &[], |n, g, a, c| {
            // SAFETY: valid pointers and handles.
            unsafe { cuGraphAddEmptyNode(n, g, a, c) }
        })?;
        let mut branches = Vec::new();
        for index in 0..3 {
            let mut args = [2_000_000, 9_000_000, stamps + 16 * index];
            let mut list = params(&mut args);
            let kernel = KernelNode {
                function: spin,
                grid: [1, 1, 1],
                block: [32, 1, 1],
                shared_bytes: 0,
                params: list.as_mut_ptr(),
                extra: null_mut(),
            };
            branches.push(add(graph, &[root], |n, g, a, c| {
                // SAFETY: valid structures, pointers and handles.
                unsafe { cuGraphAddKernelNode(n, g, a, c, &raw const kernel) }
            })?);
        }
        let mut args = [1_000, 9_000_000, stamps + 48];
        let mut list = params(&mut args);
        let last = KernelNode {
            function: spin,
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared_bytes: 0,
            params: list.as_mut_ptr(),
            extra: null_mut(),
        };
        add(graph, &branches, |n, g, a, c| {
            // SAFETY: valid structures, pointers and handles.
            unsafe { cuGraphAddKernelNode(n, g, a, c, &raw const last) }
        })?;
        let exec = ready(graph)?;
        let mut times = [0_u64; 8];
        // SAFETY: valid handles and a buffer of that size.
        unsafe {
            ok(cuGraphLaunch(exec, null_mut()))?;
            ok(cuCtxSynchronize())?;
            ok(cuMemcpyDtoH_v2(times.as_mut_ptr().cast(), stamps, 64))?;
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))?;
        }
        let first_end = times[1].min(times[3]).min(times[5]);
        let last_end = times[1].max(times[3]).max(times[5]);
        for start in [times[0], times[2], times[4]] {
            assert!(start < first_end, "branches overlap: {times:?}");
        }
        assert!(
            times[6] >= last_end,
            "the last one waits for all: {times:?}"
        );
        Ok(())
    })
}

#[test]
fn capture_follows_forked_streams() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (first, second) = (stream()?, stream()?);
        let (from, to, side) = (alloc(256)?, alloc(256)?, alloc(256)?);
        let (mut fork, mut join, mut graph): (Handle, Handle, Handle) =
            (null_mut(), null_mut(), null_mut());
        let (mut status, mut count) = (9, 0);
        // SAFETY: valid pointers and handles.
        unsafe {
            ok(cuEventCreate(&raw mut fork, 2))?;
            ok(cuEventCreate(&raw mut join, 2))?;
            ok(cuMemsetD32_v2(to, 0, 64))?;
            ok(cuStreamBeginCapture_v2(first, 1))?;
            ok(cuStreamIsCapturing(first, &raw mut status))?;
            assert_eq!(status, 1);
            ok(cuMemsetD32Async(from, 5, 64, first))?;
            ok(cuEventRecord(fork, first))?;
            ok(cuStreamWaitEvent(second, fork, 0))?;
            ok(cuMemsetD32Async(side, 6, 64, second))?;
            ok(launch(copy, 1, 32, first, &mut [to, from, 16]))?;
            ok(cuEventRecord(join, second))?;
            ok(cuStreamWaitEvent(first, join, 0))?;
            assert_eq!(cuEventQuery(join), 907);
            ok(cuStreamEndCapture(first, &raw mut graph))?;
            assert_eq!(words(to, 64)?, [0; 64], "captured, not run");
            ok(cuGraphGetNodes(graph, null_mut(), &raw mut count))?;
            assert_eq!(count, 3);
            let exec = ready(graph)?;
            ok(cuGraphLaunch(exec, first))?;
            ok(cuStreamSynchronize(first))?;
            assert_eq!(
                (words(to, 64)?, words(side, 64)?),
                (vec![5; 64], vec![6; 64])
            );
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))?;

            // Calls that cannot be captured, and captures that are invalidated.
            assert_eq!(
                cuStreamBeginCapture_v2(null_mut(), 1),
                900,
                "the legacy stream"
            );
            ok(cuStreamBeginCapture_v2(first, 1))?;
            assert_eq!(cuStreamSynchronize(first), 900);
            assert_eq!(cuStreamEndCapture(first, &raw mut graph), 901);
            ok(cuStreamBeginCapture_v2(first, 1))?;
            ok(cuEventRecord(fork, first))?;
            ok(cuStreamWaitEvent(second, fork, 0))?;
            ok(cuMemsetD32Async(side, 6, 64, second))?;
            assert_eq!(cuStreamEndCapture(second, &raw mut graph), 903);
            assert_eq!(cuStreamEndCapture(first, &raw mut graph), 904);
            assert!(graph.is_null());
            assert_eq!(cuStreamEndCapture(first, &raw mut graph), 1);
            ok(cuStreamBeginCapture_v2(first, 1))?;
            assert_eq!(
                cuStreamWaitEvent(first, join, 0),
                905,
                "work outside the capture"
            );
            ok(cuStreamEndCapture(first, &raw mut graph))?;
            ok(cuGraphDestroy(graph))
        }
    })
}
