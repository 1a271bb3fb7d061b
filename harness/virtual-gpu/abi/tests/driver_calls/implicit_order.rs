//! Implicit order: the legacy default stream and blocking streams wait for each other; streams with
//! `CU_STREAM_NON_BLOCKING` do not.

use std::ptr::null_mut;

use super::*;

const STEP_NS: u64 = 2_000_000;

const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Submits a spin of one step to each of the streams, in this order. Returns when each began, from
/// the start of the first, in whole steps.
fn starts(streams: &[Handle]) -> Result<Vec<u64>, Error> {
    let spin = function(SPIN, "spin")?;
    let stamps = alloc(16 * streams.len())?;
    for (at, &stream) in streams.iter().enumerate() {
        let mut args = [STEP_NS, 9 * STEP_NS, stamps + 16 * at as u64];
        ok(launch(spin, 1, 32, stream, &mut args))?;
    }
    ok!(cuCtxSynchronize())?;
    let mut times = vec![0_u64; 2 * streams.len()];
    ok!(cuMemcpyDtoH_v2(times.as_mut_ptr().cast(), stamps, 16 * streams.len()))?;
    ok!(cuMemFree_v2(stamps))?;
    Ok(times.chunks(2).map(|pair| (pair[0] - times[0] + STEP_NS / 2) / STEP_NS).collect())
}

fn made(flags: u32) -> Result<Handle, Error> {
    let mut stream: Handle = null_mut();
    ok!(cuStreamCreate(&raw mut stream, flags))?;
    Ok(stream)
}

#[test]
fn blocking_streams_and_the_legacy_stream_wait_for_each_other() -> Result<(), Error> {
    with_context(|| {
        let (legacy, own) = (LEGACY as Handle, PER_THREAD as Handle);
        let (a, b, free) = (made(0)?, made(0)?, made(1)?);
        for (what, streams, expected) in [
            ("blocking streams overlap", vec![a, b, own], vec![0, 0, 0]),
            ("legacy waits for both", vec![a, b, legacy], vec![0, 0, 1]),
            ("both wait for legacy", vec![legacy, a, b], vec![0, 1, 1]),
            ("legacy work separates them", vec![a, legacy, b], vec![0, 1, 2]),
            ("the null handle is legacy", vec![a, null_mut(), b], vec![0, 1, 2]),
            ("per-thread streams block", vec![own, legacy, own], vec![0, 1, 2]),
            ("a non-blocking stream does not wait", vec![a, legacy, free], vec![0, 1, 0]),
            ("and no stream waits for it", vec![free, legacy, a], vec![0, 0, 1]),
        ] {
            assert_eq!(starts(&streams)?, expected, "{what}");
        }
        Ok(())
    })
}

#[test]
fn a_query_of_the_legacy_stream_includes_blocking_streams() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (blocking, free, stamps) = (made(0)?, made(1)?, alloc(16)?);
        let legacy = LEGACY as Handle;
        ok(launch(spin, 1, 32, free, &mut [4 * STEP_NS, 9 * STEP_NS, stamps]))?;
        assert_eq!(call!(cuStreamQuery(legacy)), 0, "non-blocking streams are not included");
        ok(launch(spin, 1, 32, blocking, &mut [STEP_NS, 9 * STEP_NS, stamps]))?;
        assert_eq!(call!(cuStreamQuery(legacy)), 600);
        ok!(cuStreamSynchronize(legacy))?;
        assert_eq!(call!(cuStreamQuery(blocking)), 0);
        assert_eq!(
            call!(cuStreamQuery(free)),
            600,
            "the wait does not include non-blocking streams"
        );
        Ok(())
    })
}

#[test]
fn the_legacy_stream_invalidates_a_capture_of_a_blocking_stream() -> Result<(), Error> {
    with_context(|| {
        let (blocking, free, at) = (made(0)?, made(1)?, alloc(16)?);
        let mut graph: Handle = null_mut();
        ok!(cuStreamBeginCapture_v2(free, 0))?;
        ok!(cuMemsetD8Async(at, 0, 16, LEGACY as Handle))?;
        ok!(cuStreamEndCapture(free, &raw mut graph))?;
        ok!(cuGraphDestroy(graph))?;
        ok!(cuStreamBeginCapture_v2(blocking, 0))?;
        assert_eq!(call!(cuMemsetD8Async(at, 0, 16, LEGACY as Handle)), 906);
        assert_eq!(call!(cuStreamEndCapture(blocking, &raw mut graph)), 901);
        Ok(())
    })
}
