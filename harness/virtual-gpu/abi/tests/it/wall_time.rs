//! Wall time: a second of the model is a second of `CLOCK_MONOTONIC`, and contexts are time-sliced.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::session::{Session, TimeMode};
use gpubench_virtual_gpu_model::machine::Machine;

use crate::driver_support::{Error, context, function, launch, ok};
use crate::nvml_support::{no_tenant, observed_on};

const SPIN: &str = ptx!("spin");

/// Spins in a context of its own and returns the waiting time of the host.
fn spin(duration: Duration) -> Result<Duration, Error> {
    let context = context()?;
    let function = function(SPIN, "spin")?;
    let ns = u64::try_from(duration.as_nanos())?;
    let begun = Instant::now();
    ok(launch(function, 1, 32, &mut [ns, 2 * ns, 0]))?;
    // SAFETY: plain calls; the context created above.
    unsafe {
        ok(cuCtxSynchronize())?;
        let waited = begun.elapsed();
        ok(cuCtxDestroy_v2(context))?;
        Ok(waited)
    }
}

static CALLED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn note(_: *mut c_void) {
    CALLED.store(true, Ordering::Release);
}

/// Waits for a word that the host stores and for a host function; neither blocks the caller.
fn a_stream_waits_for_the_host() -> Result<(), Error> {
    let (mut context, mut stream): (Handle, Handle) = (null_mut(), null_mut());
    let mut word = null_mut();
    // SAFETY: valid pointers and handles; the word is zeroed and aligned, and is never freed.
    unsafe {
        ok(cuCtxCreate_v2(&raw mut context, 0, 0))?;
        ok(cuStreamCreate(&raw mut stream, 1))?;
        ok(cuMemHostAlloc(&raw mut word, 4096, 0))?;
        ok(cuStreamWaitValue32_v2(stream, word as u64, 1, 1))?;
        ok(cuLaunchHostFunc(stream, Some(note), null_mut()))?;
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(cuStreamQuery(stream), 600);
        assert!(
            !CALLED.load(Ordering::Acquire),
            "the word is not stored yet"
        );
        AtomicU32::from_ptr(word.cast()).store(1, Ordering::Release);
        ok(cuStreamSynchronize(stream))?;
        assert!(CALLED.load(Ordering::Acquire));
        ok(cuCtxDestroy_v2(context))
    }
}

#[test]
fn a_kernel_takes_its_time_and_contexts_are_time_sliced() -> Result<(), Error> {
    let test = test_name!("a_kernel_takes_its_time_and_contexts_are_time_sliced");
    let machine = Machine::load("turing")?;
    let session = Session::new(TimeMode::Wall, 1);
    observed_on(test, &session, &machine, no_tenant, || {
        contexts_are_time_sliced()?;
        a_stream_waits_for_the_host()
    })
}

fn contexts_are_time_sliced() -> Result<(), Error> {
    let solo = spin(Duration::from_millis(30))?;
    // A sleeping thread never wakes early; the upper bounds allow for a busy host.
    assert!(solo >= Duration::from_millis(30), "{solo:?}");
    assert!(solo < Duration::from_secs(5), "{solo:?}");
    let work = || spin(Duration::from_millis(30));
    let both = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("a worker panicked".into()))
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    assert!(
        both.iter()
            .all(|waited| *waited >= Duration::from_millis(30)),
        "{both:?}"
    );
    Ok(())
}
