//! Stream memory operations on words: waits that are met at once, later by an operation, by the
//! host, and never.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::wait_support::{AND, EQ, GEQ, NOR, STEP_NS, pinned, spin, stamps};
use super::*;

#[test]
fn words_are_written_and_met_waits_pass() -> Result<(), Error> {
    with_context(|| {
        let (stream, at) = (stream()?, alloc(16)?);
        // SAFETY: valid handles.
        unsafe {
            ok(cuMemsetD8_v2(at, 0, 16))?;
            ok(cuStreamWriteValue32_v2(stream, at, 5, 0))?;
            ok(cuStreamWriteValue64_v2(stream, at + 8, u64::MAX, 0))?;
            ok(cuStreamWaitValue32_v2(stream, at, 5, EQ))?;
            ok(cuStreamWaitValue32_v2(stream, at, 4, GEQ))?;
            ok(cuStreamWaitValue32_v2(stream, at, 4, AND))?;
            ok(cuStreamWaitValue32_v2(stream, at, 5, NOR))?;
            ok(cuStreamWaitValue64_v2(stream, at + 8, u64::MAX, GEQ))?;
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(words(at, 4)?, [5, 0, u32::MAX, u32::MAX]);
            for (pointer, flags, code, what) in [
                (at + 2, EQ, 1, "not aligned"),
                (64, EQ, 1, "unmapped memory"),
                (at, 8, 1, "no such flag"),
                (
                    at,
                    1 << 30,
                    801,
                    "a flush, which the device reports as unsupported",
                ),
            ] {
                assert_eq!(
                    cuStreamWaitValue32_v2(stream, pointer, 6, flags),
                    code,
                    "{what}"
                );
            }
            assert_eq!(
                cuStreamWriteValue32_v2(stream, at + 2, 5, 0),
                1,
                "not aligned"
            );
            assert_eq!(
                cuStreamWriteValue32_v2(stream, 64, 5, 0),
                1,
                "unmapped memory"
            );
        }
        Ok(())
    })
}

#[test]
fn a_wait_blocks_its_stream_until_another_stream_writes() -> Result<(), Error> {
    with_context(|| {
        let (first, second) = (stream()?, stream()?);
        let (flag, at) = (alloc(256)?, alloc(32)?);
        let mut event: Handle = null_mut();
        // SAFETY: valid handles and pointers.
        unsafe {
            ok(cuMemsetD8_v2(flag, 0, 256))?;
            ok(cuEventCreate(&raw mut event, 0))?;
            for (value, kind, meets) in [(1, GEQ, 1), (7, EQ, 7), (8, AND, 12), (!1, NOR, 0)] {
                ok(cuMemsetD32_v2(flag, u32::from(kind == NOR), 1))?;
                let begun = now_ns()?;
                ok(cuStreamWaitValue32_v2(second, flag, value, kind))?;
                spin(second, at + 16)?;
                ok(cuEventRecord(event, second))?;
                assert!(now_ns()? - begun < STEP_NS, "the call returns at once");
                assert_eq!(cuStreamQuery(second), 600);
                assert_eq!(cuEventQuery(event), 600);
                spin(first, at)?;
                ok(cuStreamWriteValue32_v2(first, flag, meets, 0))?;
                ok(cuEventSynchronize(event))?;
                assert_eq!(cuStreamQuery(second), 0);
                let times = stamps(at, 2)?;
                let late = times[2].checked_sub(times[1]);
                let late = late.ok_or_else(|| format!("before the write: {times:?}"))?;
                assert!(late < 100_000, "kind {kind}: late by {late} ns");
            }
        }
        Ok(())
    })
}

#[test]
fn a_wait_for_a_submitted_write_lasts_until_it_runs() -> Result<(), Error> {
    with_context(|| {
        let (first, second, flag, at) = (stream()?, stream()?, alloc(64)?, alloc(32)?);
        // SAFETY: valid handles.
        unsafe {
            ok(cuMemsetD8_v2(flag, 0, 64))?;
            spin(first, at)?;
            ok(cuStreamWriteValue64_v2(first, flag, 1, 0))?;
            ok(cuStreamWaitValue64_v2(second, flag, 1, GEQ))?;
            spin(second, at + 16)?;
            ok(cuCtxSynchronize())?;
        }
        let times = stamps(at, 2)?;
        assert!(times[2] >= times[1], "{times:?}");
        Ok(())
    })
}

#[test]
fn a_kernel_or_copy_meets_a_wait_when_it_completes() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (first, second) = (stream()?, stream()?);
        let (flag, source, at) = (alloc(1024)?, alloc(1024)?, alloc(32)?);
        let (host, host_address) = pinned()?;
        // SAFETY: valid handles and sizes.
        unsafe {
            ok(cuMemsetD32_v2(source, 9, 256))?;
            for by_kernel in [true, false] {
                ok(cuMemsetD32_v2(flag, 0, 256))?;
                host.store(0, Ordering::Relaxed);
                let word = if by_kernel { flag } else { host_address };
                ok(cuStreamWaitValue32_v2(second, word, 9, EQ))?;
                spin(second, at + 16)?;
                spin(first, at)?;
                if by_kernel {
                    let mut args = [flag, source, 64];
                    ok(launch(copy, 1, 64, first, &mut args))?;
                } else {
                    ok(cuMemcpyDtoHAsync_v2(
                        host_address as *mut _,
                        source,
                        1024,
                        first,
                    ))?;
                }
                ok(cuStreamSynchronize(second))?;
                let times = stamps(at, 2)?;
                assert!(times[2] >= times[1], "by kernel {by_kernel}: {times:?}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_host_store_meets_a_wait() -> Result<(), Error> {
    with_context(|| {
        let device = device().map_err(|code| format!("{code:?}"))?;
        let (stream, at, (word, address)) = (stream()?, alloc(16)?, pinned()?);
        // SAFETY: valid handles.
        unsafe {
            ok(cuStreamWaitValue32_v2(stream, address, 3, GEQ))?;
            spin(stream, at)?;
            device.sleep_until(now_ns()? + 5 * STEP_NS)?;
            assert_eq!(cuStreamQuery(stream), 600, "not written yet");
            word.store(3, Ordering::Relaxed);
            let stored = now_ns()?;
            ok(cuStreamSynchronize(stream))?;
            let times = stamps(at, 1)?;
            assert!(
                (stored..stored + 100_000).contains(&times[0]),
                "{stored} {times:?}"
            );
        }
        Ok(())
    })
}

#[test]
fn streams_that_depend_on_a_waiting_stream_wait_too() -> Result<(), Error> {
    with_context(|| {
        let (free, other, at, (word, address)) = (stream()?, stream()?, alloc(64)?, pinned()?);
        let (mut blocking, mut event): (Handle, Handle) = (null_mut(), null_mut());
        let legacy = 1 as Handle;
        // SAFETY: valid handles and pointers.
        unsafe {
            ok(cuStreamCreate(&raw mut blocking, 0))?;
            ok(cuEventCreate(&raw mut event, 0))?;
            ok(cuStreamWaitValue32_v2(blocking, address, 1, EQ))?;
            ok(cuEventRecord(event, blocking))?;
            ok(cuStreamWaitEvent(other, event, 0))?;
            spin(other, at)?;
            spin(legacy, at + 16)?;
            spin(free, at + 32)?;
            ok(cuStreamSynchronize(free))?;
            assert_eq!(cuStreamQuery(other), 600, "waits for the event");
            assert_eq!(cuStreamQuery(legacy), 600, "waits for the blocking stream");
            word.store(1, Ordering::Relaxed);
            ok(cuCtxSynchronize())?;
            let times = stamps(at, 3)?;
            assert!(times[0] > times[5] && times[2] > times[5], "{times:?}");
        }
        Ok(())
    })
}

#[test]
fn a_waiting_stream_and_its_context_can_be_destroyed() -> Result<(), Error> {
    with_context(|| {
        let (held, at, (word, address)) = (stream()?, alloc(16)?, pinned()?);
        let mut forgotten: Handle = null_mut();
        // SAFETY: valid handles and pointers.
        unsafe {
            ok(cuStreamWaitValue32_v2(held, address, 1, EQ))?;
            spin(held, at)?;
            let begun = now_ns()?;
            ok(cuStreamDestroy_v2(held))?;
            assert!(now_ns()? - begun < STEP_NS, "destruction waits for nothing");
            word.store(1, Ordering::Relaxed);
            ok(cuCtxSynchronize())?;
            let times = stamps(at, 1)?;
            assert!(
                times[1] - times[0] >= STEP_NS,
                "queued work still runs: {times:?}"
            );
            // An unmet wait ends with the context.
            ok(cuStreamCreate(&raw mut forgotten, 1))?;
            ok(cuStreamWaitValue32_v2(forgotten, address, 7, EQ))?;
            spin(forgotten, at)?;
        }
        Ok(())
    })
}

#[test]
fn a_deadlocked_wait_is_reported_with_its_word_and_streams() -> Result<(), Error> {
    with_context(|| {
        let device = device().map_err(|code| format!("{code:?}"))?;
        let (held, at, (word, address)) = (stream()?, alloc(16)?, pinned()?);
        let mut slot = 0;
        // SAFETY: valid handles and pointers.
        unsafe {
            ok(cuStreamGetId(held, &raw mut slot))?;
            ok(cuStreamWaitValue32_v2(held, address, 1, EQ))?;
            spin(held, at)?;
        }
        let message = match device.wait_held(u32::try_from(slot)?, 2) {
            Err(error) => error.to_string(),
            Ok(()) => return Err("the wait cannot have been met".into()),
        };
        for part in [
            format!("what stream {slot} holds back"),
            format!("the word at {address:#x} to equal 0x1, for stream {slot}"),
            format!("\"cuda-stream-{slot}\""),
        ] {
            assert!(
                message.contains(&part),
                "{message:?} should contain {part:?}"
            );
        }
        // SAFETY: a valid handle.
        unsafe {
            assert_eq!(
                cuStreamSynchronize(held),
                702,
                "a program gets the code of a timeout"
            );
            word.store(1, Ordering::Relaxed);
            ok(cuStreamSynchronize(held))
        }
    })
}
