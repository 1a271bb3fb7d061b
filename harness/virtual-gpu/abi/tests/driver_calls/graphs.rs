//! Graphs built by capture.

use std::ptr::null_mut;

use super::*;

pub fn new_graph() -> Result<Handle, Error> {
    let mut graph: Handle = null_mut();
    ok!(cuGraphCreate(&raw mut graph, 0))?;
    Ok(graph)
}

pub fn ready(graph: Handle) -> Result<Handle, Error> {
    let mut exec: Handle = null_mut();
    ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0))?;
    Ok(exec)
}

/// An event without timing.
fn event() -> Result<Handle, Error> {
    let mut event: Handle = null_mut();
    ok!(cuEventCreate(&raw mut event, 2))?;
    Ok(event)
}

#[test]
fn branches_overlap_and_join() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (root, stamps, fork) = (stream()?, alloc(64)?, event()?);
        let (mut graph, mut times): (Handle, _) = (null_mut(), [0_u64; 8]);
        ok!(cuStreamBeginCapture_v2(root, 1))?;
        ok!(cuMemsetD8Async(stamps, 0, 64, root))?;
        ok!(cuEventRecord(fork, root))?;
        for index in 0..3 {
            let (branch, join) = (stream()?, event()?);
            ok!(cuStreamWaitEvent(branch, fork, 0))?;
            let mut args = [2_000_000, 9_000_000, stamps + 16 * index];
            ok(launch(spin, 1, 32, branch, &mut args))?;
            ok!(cuEventRecord(join, branch))?;
            ok!(cuStreamWaitEvent(root, join, 0))?;
        }
        let mut args = [1_000, 9_000_000, stamps + 48];
        ok(launch(spin, 1, 32, root, &mut args))?;
        ok!(cuStreamEndCapture(root, &raw mut graph))?;
        let exec = ready(graph)?;
        ok!(cuGraphLaunch(exec, null_mut()))?;
        ok!(cuCtxSynchronize())?;
        ok!(cuMemcpyDtoH_v2(times.as_mut_ptr().cast(), stamps, 64))?;
        ok!(cuGraphExecDestroy(exec))?;
        assert_eq!(call!(cuGraphLaunch(exec, null_mut())), 400);
        ok!(cuGraphDestroy(graph))?;
        assert_eq!(call!(cuGraphDestroy(graph)), 400);
        let first_end = times[1].min(times[3]).min(times[5]);
        let last_end = times[1].max(times[3]).max(times[5]);
        for start in [times[0], times[2], times[4]] {
            assert!(start < first_end, "branches overlap: {times:?}");
        }
        assert!(times[6] >= last_end, "the last one waits for all: {times:?}");
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
        let mut status = 9;
        ok!(cuEventCreate(&raw mut fork, 2))?;
        ok!(cuEventCreate(&raw mut join, 2))?;
        ok!(cuMemsetD32_v2(to, 0, 64))?;
        ok!(cuStreamBeginCapture_v2(first, 1))?;
        ok!(cuStreamIsCapturing(first, &raw mut status))?;
        assert_eq!(status, 1);
        ok!(cuMemsetD32Async(from, 5, 64, first))?;
        ok!(cuEventRecord(fork, first))?;
        ok!(cuStreamWaitEvent(second, fork, 0))?;
        ok!(cuMemsetD32Async(side, 6, 64, second))?;
        ok(launch(copy, 1, 32, first, &mut [to, from, 16]))?;
        ok!(cuEventRecord(join, second))?;
        ok!(cuStreamWaitEvent(first, join, 0))?;
        assert_eq!(call!(cuEventQuery(join)), 907);
        ok!(cuStreamEndCapture(first, &raw mut graph))?;
        assert_eq!(words(to, 64)?, [0; 64], "captured, not run");
        let exec = ready(graph)?;
        ok!(cuGraphLaunch(exec, first))?;
        ok!(cuStreamSynchronize(first))?;
        assert_eq!((words(to, 64)?, words(side, 64)?), (vec![5; 64], vec![6; 64]));
        ok!(cuGraphExecDestroy(exec))?;
        ok!(cuGraphDestroy(graph))?;

        // Calls that cannot be captured, and captures that are invalidated.
        assert_eq!(call!(cuStreamBeginCapture_v2(null_mut(), 1)), 900, "the legacy stream");
        ok!(cuStreamBeginCapture_v2(first, 1))?;
        assert_eq!(call!(cuStreamSynchronize(first)), 900);
        assert_eq!(call!(cuStreamEndCapture(first, &raw mut graph)), 901);
        ok!(cuStreamBeginCapture_v2(first, 1))?;
        ok!(cuEventRecord(fork, first))?;
        ok!(cuStreamWaitEvent(second, fork, 0))?;
        ok!(cuMemsetD32Async(side, 6, 64, second))?;
        assert_eq!(call!(cuStreamEndCapture(second, &raw mut graph)), 903);
        assert_eq!(call!(cuStreamEndCapture(first, &raw mut graph)), 904);
        assert!(graph.is_null());
        assert_eq!(call!(cuStreamEndCapture(first, &raw mut graph)), 1);
        ok!(cuStreamBeginCapture_v2(first, 1))?;
        assert_eq!(call!(cuStreamWaitEvent(first, join, 0)), 905, "work outside the capture");
        ok!(cuStreamEndCapture(first, &raw mut graph))?;
        ok!(cuGraphDestroy(graph))
    })
}
