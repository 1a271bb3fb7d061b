//! Host functions in a stream: a thread of the driver calls them in stream order, and the thread
//! that queued them continues.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use super::wait_support::{STEP_NS, spin, stamps};
use super::*;

/// Sum of the arguments of all calls.
static ARGUMENT_SUM: AtomicU64 = AtomicU64::new(0);
/// Time of the last call.
static CALLED_NS: AtomicU64 = AtomicU64::new(0);

fn note_call(value: u64) {
    let now_ns = device().map_or(0, |device| device.now_ns());
    CALLED_NS.store(now_ns, Ordering::Relaxed);
    ARGUMENT_SUM.fetch_add(value, Ordering::Relaxed);
}

unsafe extern "C" fn note(data: *mut c_void) {
    note_call(data as u64);
}

unsafe extern "C" fn note_status(_: Handle, status: i32, data: *mut c_void) {
    note_call(data as u64 + status as u64);
}

/// Sleeps for one step of virtual time.
unsafe extern "C" fn sleep_a_step(data: *mut c_void) {
    if let Ok(device) = device() {
        let _ = device.sleep_until(device.now_ns() + STEP_NS);
    }
    note_call(data as u64);
}

#[test]
fn a_host_function_is_called_in_stream_order_without_blocking_its_caller() -> Result<(), Error> {
    with_context(|| {
        let (stream, at, started) = (stream()?, alloc(16)?, now_ns()?);
        // SAFETY: valid handles; the functions accept any data.
        unsafe {
            spin(stream, at)?;
            ok(cuLaunchHostFunc(stream, Some(note), 5 as *mut c_void))?;
            let (function, data) = (Some(note_status as _), 7 as *mut c_void);
            ok(cuStreamAddCallback(stream, function, data, 0))?;
            assert!(
                now_ns()? - started < STEP_NS / 10,
                "the calls return at once"
            );
            assert_eq!(ARGUMENT_SUM.load(Ordering::Relaxed), 0, "not called yet");
            assert_eq!(cuStreamQuery(stream), 600);
            ok(cuStreamSynchronize(stream))?;
            assert_eq!(ARGUMENT_SUM.load(Ordering::Relaxed), 12);
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
fn only_its_own_stream_waits_for_a_host_function() -> Result<(), Error> {
    with_context(|| {
        let (slow, other, at) = (stream()?, stream()?, alloc(48)?);
        ARGUMENT_SUM.store(0, Ordering::Relaxed);
        // SAFETY: valid handles; the function accepts any data.
        unsafe {
            spin(slow, at)?;
            ok(cuLaunchHostFunc(slow, Some(sleep_a_step), 2 as *mut c_void))?;
            spin(slow, at + 16)?;
            spin(other, at + 32)?;
            ok(cuCtxSynchronize())?;
        }
        let times = stamps(at, 3)?;
        assert_eq!(ARGUMENT_SUM.load(Ordering::Relaxed), 2);
        assert!(
            times[2] - times[1] >= STEP_NS,
            "the function runs in between: {times:?}"
        );
        assert!(times[4] < times[1], "concurrent with the first: {times:?}");
        Ok(())
    })
}

#[test]
fn a_graph_with_a_host_function_does_not_block_its_caller() -> Result<(), Error> {
    with_context(|| {
        let (stream, at) = (stream()?, alloc(32)?);
        let (mut graph, mut exec): (Handle, Handle) = (null_mut(), null_mut());
        ARGUMENT_SUM.store(0, Ordering::Relaxed);
        // SAFETY: valid handles and pointers; the function accepts any data.
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
        assert_eq!(ARGUMENT_SUM.load(Ordering::Relaxed), 3);
        assert!(
            times[1] <= called && called <= times[2],
            "{times:?} {called}"
        );
        Ok(())
    })
}

#[test]
fn after_a_fault_only_callbacks_are_called_with_the_error() -> Result<(), Error> {
    with_context(|| {
        let copy = function(COPY, "stream_copy")?;
        let (stream, at) = (stream()?, alloc(16)?);
        ARGUMENT_SUM.store(0, Ordering::Relaxed);
        // SAFETY: valid handles; the functions accept any data.
        unsafe {
            spin(stream, at)?;
            ok(launch(copy, 1, 32, stream, &mut [64, at, 1]))?;
            ok(cuLaunchHostFunc(stream, Some(note), 10_000 as *mut c_void))?;
            let callback = Some(note_status as _);
            ok(cuStreamAddCallback(stream, callback, 2 as *mut c_void, 0))?;
            assert_eq!(cuStreamSynchronize(stream), 700);
        }
        assert_eq!(
            ARGUMENT_SUM.load(Ordering::Relaxed),
            702,
            "only the callback, with the status"
        );
        Ok(())
    })
}
