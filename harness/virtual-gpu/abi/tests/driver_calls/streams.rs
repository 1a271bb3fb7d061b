//! Streams: priorities, queries and the order between them.

use std::ptr::null_mut;

use super::*;

#[test]
fn priorities_and_queries() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (mut least, mut greatest, mut found) = (9, 9, 9);
        let mut urgent: Handle = null_mut();
        ok!(cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest))?;
        assert!(greatest < least);
        ok!(cuStreamCreateWithPriority(&raw mut urgent, 1, -100))?;
        ok!(cuStreamGetPriority(urgent, &raw mut found))?;
        assert_eq!(found, greatest, "clamped");
        assert_eq!(call!(cuStreamQuery(urgent)), 0);
        let stamps = alloc(16)?;
        ok(launch(spin, 1, 32, urgent, &mut [1_000_000, 9_000_000, stamps]))?;
        assert_eq!(call!(cuStreamQuery(urgent)), 600);
        ok!(cuStreamSynchronize(urgent))?;
        assert_eq!(call!(cuStreamQuery(urgent)), 0);
        ok!(cuStreamDestroy_v2(urgent))?;
        assert_eq!(call!(cuStreamQuery(urgent)), 400);
        Ok(())
    })
}

#[test]
fn a_stream_waits_for_an_event_of_another() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (first, second, stamps) = (stream()?, stream()?, alloc(32)?);
        let mut event: Handle = null_mut();
        ok!(cuEventCreate(&raw mut event, 0))?;
        ok(launch(spin, 1, 32, first, &mut [2_000_000, 9_000_000, stamps]))?;
        ok!(cuEventRecord(event, first))?;
        ok!(cuStreamWaitEvent(second, event, 0))?;
        ok(launch(spin, 1, 32, second, &mut [1_000, 9_000_000, stamps + 16]))?;
        ok!(cuCtxSynchronize())?;
        let mut times = [0_u64; 4];
        ok!(cuMemcpyDtoH_v2(times.as_mut_ptr().cast(), stamps, 32))?;
        assert!(times[2] >= times[1], "{times:?}");
        Ok(())
    })
}
