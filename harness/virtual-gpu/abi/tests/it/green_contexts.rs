//! Green contexts: SMs of their own, one address space, common faults.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use gpubench_kernels::Kernel;
use gpubench_kernels::driver::{DriverError, largest_equal};
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_driver::calls::green::{Steps, split};
use gpubench_virtual_gpu_driver::entries::SmRange;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::process::device;
use gpubench_virtual_gpu_driver::rules::LENIENT;
use gpubench_virtual_gpu_model::machine::granularity;

use crate::driver_support::call;
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
    with_streams(test_name!(), concurrent)
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
    with_streams(test_name!(), fault)
}

fn fault(greens: [Handle; 2], streams: [Handle; 2]) -> Result<(), Error> {
    let chain = function(FMA, "fp32_chain")?;
    let factor = u64::from(1.0f32.to_bits());
    let args = &mut [0xdead_0000, 1, factor, factor];
    ok(launch_on(chain, (1, 256, 0), streams[0], args))?;
    assert_eq!(call!(cuStreamSynchronize(streams[0])), 700);
    assert_eq!(call!(cuStreamSynchronize(streams[1])), 700);
    ok!(cuGreenCtxDestroy(greens[0]))?;
    assert_eq!(call!(cuGreenCtxDestroy(greens[0])), 400, "it is destroyed");
    Ok(())
}

#[test]
fn blocks_run_on_the_sms_of_their_context() -> Result<(), Error> {
    with_streams(test_name!(), placed)
}

/// No program may rely on a second split for the partitions of the first.
fn placed(_: [Handle; 2], streams: [Handle; 2]) -> Result<(), Error> {
    let trace = function(TRACE, "block_trace")?;
    let of_second_split = recreate::streams_of(recreate::green(64)?)?;
    let mut sm_ranges = Vec::new();
    for stream in streams.into_iter().chain(of_second_split) {
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
    assert_eq!(sm_ranges, [(0, 63), (64, 127), (64, 127), (0, 63)]);
    Ok(())
}

#[test]
fn calls_that_break_a_documented_rule_are_refused() -> Result<(), Error> {
    with_streams(test_name!(), breaches)
}

fn breaches(greens: [Handle; 2], _: [Handle; 2]) -> Result<(), Error> {
    // SAFETY: no other thread of this process reads the environment.
    let set = |name: &str| unsafe { std::env::set_var(name, "1") };
    for (sms, allowed) in [(64, true), (66, false), (4, false)] {
        assert_eq!(recreate::green(sms).is_ok(), allowed, "{sms} of 132 SMs");
    }
    let (mut value, mut context) = (0, std::ptr::null_mut());
    assert_eq!(call!(cuDeviceGetAttribute(&raw mut value, 100_000, 0)), 1);
    ok!(cuGreenCtxDestroy(greens[0]))?;
    assert_eq!(call!(cuCtxFromGreenCtx(&raw mut context, greens[0])), 400, "it is destroyed");
    set("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    assert_eq!(call!(cuCtxCreate_v2(&raw mut context, 0, 0)), 800, "after cuInit");
    set(LENIENT);
    ok!(cuCtxCreate_v2(&raw mut context, 0, 0))?;
    recreate::green(57).map(|_| ())
}

#[test]
fn a_green_context_is_current_to_one_thread_at_a_time() -> Result<(), Error> {
    with_streams(test_name!(), one_thread)
}

/// The first one is current on this thread.
fn one_thread(greens: [Handle; 2], _: [Handle; 2]) -> Result<(), Error> {
    let (mut context, mut primary) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: valid pointers and a live green context.
    unsafe {
        ok(cuCtxFromGreenCtx(&raw mut context, greens[0]))?;
        ok(cuDevicePrimaryCtxRetain(&raw mut primary, 0))?;
    }
    let (context, primary) = (context as usize, primary as usize);
    // SAFETY: live contexts, which this function keeps.
    let set = |handle: usize| unsafe { cuCtxSetCurrent(handle as Handle) };
    // SAFETY: as above; nothing is popped into.
    let push = |handle: usize| unsafe { cuCtxPushCurrent_v2(handle as Handle) };
    let on_another = || {
        let done = std::thread::spawn(move || [set(context), push(context), set(primary)]).join();
        done.unwrap_or_default()
    };
    assert_eq!(on_another(), [201, 201, 0], "this thread has it");
    assert_eq!([push(context), set(primary)], [0, 0], "it is under the primary one");
    assert_eq!(on_another(), [201, 201, 0]);
    // SAFETY: null is no place for the handle.
    ok(unsafe { cuCtxPopCurrent_v2(std::ptr::null_mut()) })?;
    assert_eq!(set(primary), 0);
    assert_eq!(on_another(), [0, 0, 0], "no thread has it");
    assert_eq!(set(context), 0, "the other thread has ended");
    Ok(())
}

/// SMs and compute capability of chips (NVIDIA's white papers of each architecture and data sheets
/// of each card; "CUDA GPUs" for the capability), and the SMs of each half: the largest multiple
/// that the driver API documents for the capability.
const HALVES: [(&str, u32, u32, u32); 25] = [
    ("P100", 56, 6, 28),
    ("V100", 80, 7, 40),
    ("T4", 40, 7, 20),
    ("RTX 2080 Ti", 68, 7, 34),
    ("RTX 2060", 30, 7, 14),
    ("A100", 108, 8, 54),
    ("A30", 56, 8, 28),
    ("A10", 72, 8, 36),
    ("A2", 10, 8, 4),
    ("RTX A2000", 26, 8, 12),
    ("RTX A6000", 84, 8, 42),
    ("RTX 3070", 46, 8, 22),
    ("RTX 3090", 82, 8, 40),
    ("L4", 58, 8, 28),
    ("L40S", 142, 8, 70),
    ("RTX 4060 Ti", 34, 8, 16),
    ("RTX 4070 Ti SUPER", 66, 8, 32),
    ("RTX 4090", 128, 8, 64),
    ("H100 SXM", 132, 9, 64),
    ("H100 PCIe", 114, 9, 56),
    ("H200", 132, 9, 64),
    ("B200", 148, 10, 72),
    ("GB10", 48, 12, 24),
    ("RTX 5090", 170, 12, 80),
    ("RTX PRO 6000", 188, 12, 88),
];

#[test]
fn halves_are_the_largest_that_the_chip_s_steps_allow() {
    for (chip, sms, major, half) in HALVES {
        let steps = Steps::of(major, false, None);
        let whole = SmRange { first: 0, count: sms };
        let of = |least| {
            split(whole, 2, least, &steps).map_err(|code| DriverError::from_code("split", code.0))
        };
        // Before CUDA 13 the driver does not say what its steps are.
        let (least, multiple) = granularity(major, false);
        for known in [[1, 1], [least, multiple]] {
            let asked = largest_equal(sms, 2, known, |least| Ok(of(least)?.fit));
            let size = asked.and_then(of).map(|split| split.size);
            assert_eq!(size, Ok(half), "{chip}, {known:?}");
        }
    }
    let few = largest_equal(8, 3, [1, 1], |least| Ok(8 / least.next_multiple_of(8)));
    assert_eq!(few, Err(DriverError::Groups { made: 1, wanted: 3 }));
}
