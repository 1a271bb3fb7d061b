//! Streams: order between them, host functions, words, each thread's own default stream.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[test]
fn priorities_and_queries() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (mut least, mut greatest, mut found) = (9, 9, 9);
        let mut urgent: Handle = null_mut();
        // SAFETY: valid places and handles.
        unsafe {
            ok(cuCtxGetStreamPriorityRange(
                &raw mut least,
                &raw mut greatest,
            ))?;
            assert!(greatest < least);
            ok(cuStreamCreateWithPriority(&raw mut urgent, 1, -100))?;
            ok(cuStreamGetPriority(urgent, &raw mut found))?;
            assert_eq!(found, greatest, "clamped");
            assert_eq!(cuStreamQuery(urgent), 0);
            let stamps = alloc(16)?;
            ok(launch(
                spin,
                1,
                32,
                urgent,
                &mut [1_000_000, 9_000_000, stamps],
            ))?;
            assert_eq!(cuStreamQuery(urgent), 600);
            ok(cuStreamSynchronize(urgent))?;
            assert_eq!(cuStreamQuery(urgent), 0);
            ok(cuStreamDestroy_v2(urgent))?;
            assert_eq!(cuStreamQuery(urgent), 400);
        }
        Ok(())
    })
}

#[test]
fn a_stream_waits_for_an_event_of_another() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (first, second, stamps) = (stream()?, stream()?, alloc(32)?);
        let mut event: Handle = null_mut();
        // SAFETY: valid places and handles.
        unsafe {
            ok(cuEventCreate(&raw mut event, 0))?;
            ok(launch(
                spin,
                1,
                32,
                first,
                &mut [2_000_000, 9_000_000, stamps],
            ))?;
            ok(cuEventRecord(event, first))?;
            ok(cuStreamWaitEvent(second, event, 0))?;
            ok(launch(
                spin,
                1,
                32,
                second,
                &mut [1_000, 9_000_000, stamps + 16],
            ))?;
            ok(cuCtxSynchronize())?;
        }
        let mut times = [0_u64; 4];
        // SAFETY: a buffer of that size.
        unsafe { ok(cuMemcpyDtoH_v2(times.as_mut_ptr().cast(), stamps, 32)) }?;
        assert!(times[2] >= times[1], "{times:?}");
        Ok(())
    })
}

static SEEN: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn note(data: *mut c_void) {
    SEEN.fetch_add(data as u64, Ordering::Relaxed);
}

unsafe extern "C" fn note_status(_: Handle, status: i32, data: *mut c_void) {
    SEEN.fetch_add(data as u64 + status as u64, Ordering::Relaxed);
}

#[test]
fn host_functions_run_when_their_stream_gets_there() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let (stream, stamps) = (stream()?, alloc(16)?);
        let started = now_ns()?;
        SEEN.store(0, Ordering::Relaxed);
        // SAFETY: valid handles; the functions take any data.
        unsafe {
            ok(launch(
                spin,
                1,
                32,
                stream,
                &mut [3_000_000, 9_000_000, stamps],
            ))?;
            ok(cuLaunchHostFunc(stream, Some(note), 5 as *mut c_void))?;
            ok(cuStreamAddCallback(
                stream,
                Some(note_status),
                7 as *mut c_void,
                0,
            ))?;
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(SEEN.load(Ordering::Relaxed), 12);
            assert!(now_ns()? - started >= 3_000_000);
            assert_eq!(cuLaunchHostFunc(stream, None, null_mut()), 1);
            assert_eq!(
                cuStreamAddCallback(stream, Some(note_status), null_mut(), 1),
                1
            );
        }
        Ok(())
    })
}

#[test]
fn words_are_written_and_waited_for() -> Result<(), Error> {
    with_context(|| {
        let (stream, at) = (stream()?, alloc(16)?);
        // SAFETY: valid handles.
        unsafe {
            ok(cuMemsetD8_v2(at, 0, 16))?;
            ok(cuStreamWriteValue32_v2(stream, at, 5, 0))?;
            ok(cuStreamWriteValue64_v2(stream, at + 8, u64::MAX, 0))?;
            ok(cuStreamWaitValue32_v2(stream, at, 5, 1))?;
            ok(cuStreamWaitValue64_v2(stream, at + 8, u64::MAX, 0))?;
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(words(at, 4)?, [5, 0, u32::MAX, u32::MAX]);
            assert_eq!(
                cuStreamWaitValue32_v2(stream, at, 6, 1),
                801,
                "refused, not skipped"
            );
            assert_eq!(
                cuStreamWriteValue32_v2(stream, at + 2, 5, 0),
                1,
                "not aligned"
            );
            assert_eq!(
                cuStreamWriteValue32_v2(stream, 64, 5, 0),
                1,
                "nobody's memory"
            );
        }
        Ok(())
    })
}

#[test]
fn a_thread_has_a_default_stream_of_its_own() -> Result<(), Error> {
    with_context(|| {
        let spin = function(SPIN, "spin")?;
        let stamps = alloc(16)?;
        let (mut legacy, mut own, mut named) = (0, 0, 0);
        // SAFETY: valid places and handles.
        unsafe {
            ok(cuStreamGetId(1 as Handle, &raw mut legacy))?;
            ok(cuStreamGetId(2 as Handle, &raw mut own))?;
            ok(cuStreamGetId_ptsz(null_mut(), &raw mut named))?;
            assert!(own != legacy && own == named, "{legacy} {own} {named}");
            let mut args = [1_000_000, 9_000_000, stamps];
            ok(launch(spin, 1, 32, 2 as Handle, &mut args))?;
            assert_eq!(cuStreamQuery_ptsz(null_mut()), 600);
            assert_eq!(
                cuStreamQuery(null_mut()),
                600,
                "the legacy stream waits for blocking ones, of which this is one"
            );
            ok(cuStreamSynchronize_ptsz(null_mut()))?;
        }
        Ok(())
    })
}
