//! Green contexts: SMs of their own, one address space, common faults.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::device;

use crate::mps_support::recreate;
use crate::nvml_support::{Error, alloc, function, in_virtual_time, launch_on, ok, quiet};

const FMA: &str = Kernel::Fp32Chain.info().ptx;
const TRACE: &str = Kernel::BlockTrace.info().ptx;

/// Runs the body with two green contexts of 64 SMs each and a stream of each.
fn with_streams(
    test: &str,
    body: fn([Handle; 2], [Handle; 2]) -> Result<(), Error>,
) -> Result<(), Error> {
    in_virtual_time(test, &quiet("hopper")?, |_| {
        let greens = recreate::green(64)?;
        // The first one is current again.
        let [second, first] = recreate::streams_of([greens[1], greens[0]])?;
        body(greens, [first, second])
    })
}

/// Virtual time of the body.
fn timed(body: impl FnOnce() -> Result<(), Error>) -> Result<u64, Error> {
    let device = device().map_err(|code| format!("{code:?}"))?;
    let begin_ns = device.now_ns();
    body()?;
    // SAFETY: a call without arguments.
    unsafe { ok(cuCtxSynchronize())? };
    Ok(device.now_ns() - begin_ns)
}

#[test]
fn green_contexts_run_concurrently_on_their_sms() -> Result<(), Error> {
    let test = test_name!("green_contexts_run_concurrently_on_their_sms");
    with_streams(test, concurrent)
}

fn concurrent(_: [Handle; 2], streams: [Handle; 2]) -> Result<(), Error> {
    let chain = function(FMA, "fp32_chain")?;
    let out = alloc(4 << 20)?;
    let run = |stream: Handle| {
        let factor = u64::from(1.0f32.to_bits());
        let args = &mut [out, 2000, factor, factor];
        ok(launch_on(chain, (1024, 256, 0), stream, args))
    };
    run(streams[0])?;
    timed(|| Ok(()))?;
    let solo_ns = timed(|| run(streams[0]))?;
    let both_ns = timed(|| {
        run(streams[0])?;
        run(streams[1])
    })?;
    let twice_ns = timed(|| {
        run(streams[0])?;
        run(streams[0])
    })?;
    let close = |a: u64, b: u64| a.abs_diff(b) * 100 < b;
    // Concurrent kernels take the time of one; in one context they run one after the other.
    assert!(close(both_ns, solo_ns), "{both_ns} beside {solo_ns} solo");
    assert!(twice_ns > solo_ns * 19 / 10, "{twice_ns} one after the other");
    Ok(())
}

#[test]
fn a_fault_ends_all_contexts_of_the_process() -> Result<(), Error> {
    let test = test_name!("a_fault_ends_all_contexts_of_the_process");
    with_streams(test, fault)
}

fn fault(greens: [Handle; 2], streams: [Handle; 2]) -> Result<(), Error> {
    let chain = function(FMA, "fp32_chain")?;
    let factor = u64::from(1.0f32.to_bits());
    let args = &mut [0xdead_0000, 1, factor, factor];
    ok(launch_on(chain, (1, 256, 0), streams[0], args))?;
    // SAFETY: valid handles.
    unsafe {
        assert_eq!(cuStreamSynchronize(streams[0]), 700);
        assert_eq!(cuStreamSynchronize(streams[1]), 700);
        ok(cuGreenCtxDestroy(greens[0]))?;
        assert_eq!(cuGreenCtxDestroy(greens[0]), 400, "it is destroyed");
    }
    Ok(())
}

#[test]
fn blocks_run_on_the_sms_of_their_context() -> Result<(), Error> {
    with_streams(test_name!("blocks_run_on_the_sms_of_their_context"), placed)
}

fn placed(_: [Handle; 2], streams: [Handle; 2]) -> Result<(), Error> {
    let trace = function(TRACE, "block_trace")?;
    let mut sm_ranges = Vec::new();
    for stream in streams {
        // Four words per block, the SM first; it watches the clock for 10 us and records no gaps.
        let (rows, gaps) = (alloc(32 * 256)?, alloc(4096)?);
        let watch_ns = 10_000;
        let args = &mut [rows, gaps, 0, watch_ns, watch_ns, watch_ns];
        ok(launch_on(trace, (256, 256, 0), stream, args))?; // SAFETY: valid handle.
        unsafe { ok(cuStreamSynchronize(stream))? };
        let mut words = vec![0u64; 4 * 256];
        // SAFETY: a buffer of that length.
        unsafe { ok(cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), rows, 32 * 256))? };
        let ids: Vec<u64> = words.chunks(4).map(|row| row[0]).collect();
        let (min, max) = (ids.iter().min().copied(), ids.iter().max().copied());
        sm_ranges.push((min.unwrap_or(0), max.unwrap_or(0)));
    }
    assert_eq!(sm_ranges, [(0, 63), (64, 127)]);
    Ok(())
}
