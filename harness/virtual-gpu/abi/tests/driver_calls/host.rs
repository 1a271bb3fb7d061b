//! Functions of the program in a stream: called when the stream gets there, by a thread of the
//! driver, while the thread that queued them goes on.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use super::waiting::{STEP_NS, spin, stamps};
use super::*;

/// Sum of what the functions were given.
static SEEN: AtomicU64 = AtomicU64::new(0);
/// When the last of them was called.
static CALLED_NS: AtomicU64 = AtomicU64::new(0);

fn note_call(value: u64) {
    let now_ns = device().map_or(0, |device| device.now_ns());
    CALLED_NS.store(now_ns, Ordering::Relaxed);
    SEEN.fetch_add(value, Ordering::Relaxed);
}

unsafe extern "C" fn note(data: *mut c_void) {
    note_call(data as u64);
}

unsafe extern "C" fn note_status(_: Handle, status: i32, data: *mut c_void) {
    note_call(data as u64 + status as u64);
}

/// Takes a step of the host's time.
unsafe extern "C" fn dawdle(data: *mut c_void) {
    if let Ok(device) = device() {
        let _ = device.sleep_until(device.now_ns() + STEP_NS);
    }
    note_call(data as u64);
}

#[test]
fn a_function_is_called_when_its_stream_gets_there_and_its_caller_goes_on() -> Result<(), Error> {
    with_context(|| {
        let (stream, at, started) = (stream()?, alloc(16)?, now_ns()?);
        // SAFETY: valid handles; the functions take any data.
        unsafe {
            spin(stream, at)?;
            ok(cuLaunchHostFunc(stream, Some(note), 5 as *mut c_void))?;
            let (function, data) = (Some(note_status as _), 7 as *mut c_void);
            ok(cuStreamAddCallback(stream, function, data, 0))?;
            assert!(
                now_ns()? - started < STEP_NS / 10,
                "the calls return at once"
            );
            assert_eq!(SEEN.load(Ordering::Relaxed), 0, "not called yet");
            assert_eq!(cuStreamQuery(stream), 600);
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(SEEN.load(Ordering::Relaxed), 12);
            let late = CALLED_NS
                .load(Ordering::Relaxed)
                .checked_sub(stamps(at, 1)?[1]);
            assert!(late.is_some_and(|late| late < 100_000), "{late:?}");
            assert_eq!(cuLaunchHostFunc(stream, None, null_mut()), 1);
            assert_eq!(cuStreamAddCallback(stream, function, null_mut(), 1), 1);
        }
        Ok(())
    })
}

#[test]
fn what_follows_waits_for_the_function_and_other_streams_do_not() -> Result<(), Error> {
    with_context(|| {
        let (slow, other, at) = (stream()?, stream()?, alloc(48)?);
        SEEN.store(0, Ordering::Relaxed);
        // SAFETY: valid handles; the function takes any data.
        unsafe {
            spin(slow, at)?;
            ok(cuLaunchHostFunc(slow, Some(dawdle), 2 as *mut c_void))?;
            spin(slow, at + 16)?;
            spin(other, at + 32)?;
            ok(cuCtxSynchronize())?;
        }
        let times = stamps(at, 3)?;
        assert_eq!(SEEN.load(Ordering::Relaxed), 2);
        assert!(
            times[2] - times[1] >= STEP_NS,
            "the function lies between: {times:?}"
        );
        assert!(times[4] < times[1], "beside the first: {times:?}");
        Ok(())
    })
}

#[test]
fn a_graph_with_a_function_does_not_hold_its_caller() -> Result<(), Error> {
    with_context(|| {
        let (stream, at) = (stream()?, alloc(32)?);
        let (mut graph, mut exec): (Handle, Handle) = (null_mut(), null_mut());
        SEEN.store(0, Ordering::Relaxed);
        // SAFETY: valid handles and places; the function takes any data.
        unsafe {
            ok(cuStreamBeginCapture_v2(stream, 0))?;
            spin(stream, at)?;
            ok(cuLaunchHostFunc(stream, Some(note), 3 as *mut c_void))?;
            spin(stream, at + 16)?;
            ok(cuStreamEndCapture(stream, &raw mut graph))?;
            ok(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0))?;
            let started = now_ns()?;
            ok(cuGraphLaunch(exec, stream))?;
            assert!(
                now_ns()? - started < STEP_NS / 10,
                "the launch returns at once"
            );
            ok(cuGraphExecDestroy(exec))?;
            ok(cuGraphDestroy(graph))?;
            ok(cuStreamSynchronize(stream))?;
        }
        let (times, called) = (stamps(at, 2)?, CALLED_NS.load(Ordering::Relaxed));
        assert_eq!(SEEN.load(Ordering::Relaxed), 3);
        assert!(
            times[1] <= called && called <= times[2],
            "{times:?} {called}"
        );
        Ok(())
    })
}

#[test]
fn a_broken_context_is_told_to_callbacks_and_calls_no_functions() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (stream, at) = (stream()?, alloc(16)?);
        SEEN.store(0, Ordering::Relaxed);
        // SAFETY: valid handles; the functions take any data.
        unsafe {
            spin(stream, at)?;
            ok(launch(copy, 1, 32, stream, &mut [64, at, 1]))?;
            ok(cuLaunchHostFunc(stream, Some(note), 10_000 as *mut c_void))?;
            let callback = Some(note_status as _);
            ok(cuStreamAddCallback(stream, callback, 2 as *mut c_void, 0))?;
            assert_eq!(cuStreamSynchronize(stream), 700);
        }
        assert_eq!(
            SEEN.load(Ordering::Relaxed),
            702,
            "the callback alone, with the status"
        );
        Ok(())
    })
}
