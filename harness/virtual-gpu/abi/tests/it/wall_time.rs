//! Wall time: a second of the model is a second of `CLOCK_MONOTONIC`, and contexts are time-sliced.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::time::{Duration, Instant};

use gpubench_virtual_gpu_abi::cuda::calls::*;
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

#[test]
fn a_kernel_takes_its_time_and_contexts_are_time_sliced() -> Result<(), Error> {
    let test = test_name!("a_kernel_takes_its_time_and_contexts_are_time_sliced");
    let machine = Machine::load("turing")?;
    let session = Session::new(TimeMode::Wall, 1);
    observed_on(test, &session, &machine, no_tenant, contexts_are_time_sliced)
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
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a worker panicked".into())))
            .collect::<Result<Vec<_>, _>>()
    })?;
    assert!(both.iter().all(|waited| *waited >= Duration::from_millis(30)), "{both:?}");
    Ok(())
}
