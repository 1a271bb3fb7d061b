//! GPM counters under load in virtual time, and clocks under the power cap.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::gpm::GpmSupport;
use gpubench_virtual_gpu_abi::nvml::types::FieldValue;
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_model::machine::Machine;

use crate::driver_support::call;
use crate::nvml_support::gpm::metrics;
use crate::nvml_support::mig::{divided, filled, out};
use crate::nvml_support::{
    Error, alloc, context, figure, function, in_virtual_time, launch, nvml_device, ok, quiet,
};

const COPY: &str = Kernel::StreamCopy.info().ptx;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NO_DATA: i32 = 21;
/// More than the L2 of [`slow`] holds.
const BYTES: usize = 4 << 20;
const WINDOW_NS: u64 = 120_000_000;

/// A Hopper with a small L2 and a tenth of the bandwidth, which makes short kernels last longer.
fn slow() -> Result<Machine, Error> {
    let mut machine = quiet("hopper")?;
    machine.memory.l2_kib = 1024;
    machine.memory.dram_gb_per_s = 335.0;
    machine.memory.sm_dram_gb_per_s = 6.4;
    Ok(machine)
}

/// Queues copies on four SMs that last longer than the window in total.
fn load() -> Result<(), Error> {
    context()?;
    let (from, to) = (alloc(BYTES)?, alloc(BYTES)?);
    let copy = function(COPY, "stream_copy")?;
    let mut args = [to, from, BYTES as u64 / 16];
    for _ in 0..500 {
        launch(copy, 4, 256, &mut args)?;
    }
    Ok(())
}

fn sample() -> Result<Handle, Error> {
    let mut sample = null_mut();
    ok!(nvmlGpmSampleAlloc(&raw mut sample))?;
    Ok(sample)
}

/// Percentages of time, SMs and DRAM between two samples of one instance.
fn percentages(pair: [Handle; 2]) -> Result<[f64; 3], Error> {
    let found = metrics(pair, &[1, 2, 10]).map_err(|code| format!("code {code}"))?;
    let mut out = [0.0; 3];
    for (to, (result, value)) in out.iter_mut().zip(found) {
        ok(result)?;
        *to = value;
    }
    Ok(out)
}

fn close(found: [f64; 3], want: [f64; 3]) {
    for (f, w) in found.iter().zip(want) {
        assert!((f / w - 1.0).abs() < 0.01, "{found:?} is not {want:?}");
    }
}

#[test]
fn gpm_counts_kernels_and_copies() -> Result<(), Error> {
    in_virtual_time(test_name!(), &slow()?, |clock| {
        let device = nvml_device()?;
        let mut support = GpmSupport { version: 1, is_supported: 7 };
        ok!(nvmlGpmQueryDeviceSupport(device, &raw mut support))?;
        assert_eq!(support.is_supported, 1);
        let (first, second) = (sample()?, sample()?);
        assert_eq!(metrics([first, second], &[1]), Err(INVALID_ARGUMENT), "empty samples");
        load()?;
        ok!(nvmlGpmSampleGet(device, first))?;
        clock.sleep_until(clock.now_ns() + WINDOW_NS)?;
        ok!(nvmlGpmSampleGet(device, second))?;
        // Four of 132 SMs, each at 6.4 of the device's 335 GB/s.
        let (sms, dram) = (400.0 / 132.0, 100.0 * 4.0 * 6.4 / 335.0);
        close(percentages([first, second])?, [100.0, sms, dram]);
        let rest = metrics([first, second], &[30, 20, 60, 0, 477]).map_err(|c| format!("{c}"))?;
        let wrong = (INVALID_ARGUMENT, 0.0);
        let absent = (NOT_SUPPORTED, 0.0);
        assert_eq!(rest, [absent, (0, 0.0), (0, 0.0), wrong, wrong]);
        let backwards = metrics([second, first], &[1]).map_err(|c| format!("{c}"))?;
        assert_eq!(backwards, [wrong]);
        ok!(nvmlGpmSampleFree(first))?;
        assert_eq!(call!(nvmlGpmSampleFree(first)), INVALID_ARGUMENT);
        ok!(cuCtxSynchronize())?;
        copies_are_counted_as_received(clock, device, second)
    })
}

fn copies_are_counted_as_received(
    clock: &Device,
    device: DeviceHandle,
    first: Handle,
) -> Result<(), Error> {
    let (second, to) = (sample()?, alloc(BYTES)?);
    let host = vec![0u8; BYTES];
    ok!(nvmlGpmSampleGet(device, first))?;
    let began_ns = clock.now_ns();
    ok!(cuMemcpyHtoD_v2(to, host.as_ptr().cast(), BYTES))?;
    ok!(nvmlGpmSampleGet(device, second))?;
    let soon = metrics([first, second], &[21]).map_err(|c| format!("{c}"))?;
    assert_eq!(soon, [(NO_DATA, 0.0)], "less than a refresh has passed");
    clock.sleep_until(began_ns + WINDOW_NS)?;
    ok!(nvmlGpmSampleGet(device, second))?;
    let found = metrics([first, second], &[21, 20]).map_err(|c| format!("{c}"))?;
    assert!((found[0].1 / (4.0 / 0.12) - 1.0).abs() < 0.01, "{found:?}");
    assert_eq!(found[1], (0, 0.0));
    Ok(())
}

#[test]
fn gpm_counts_per_instance() -> Result<(), Error> {
    in_virtual_time(test_name!(), &slow()?, |clock| {
        let parent = divided()?;
        let made = filled(parent)?;
        let idle = filled(parent)?;
        let pairs = [(); 3].map(|()| [sample(), sample()]);
        let mut handles = Vec::new();
        for [first, second] in pairs {
            handles.push([first?, second?]);
        }
        load()?;
        let ends = |end: usize| [0, 1, 2].map(|k: usize| handles[k][end]);
        for [all, mine, neighbour] in [ends(0), ends(1)] {
            ok!(nvmlGpmSampleGet(parent, all))?;
            ok!(nvmlGpmSampleGet(made.device, mine))?;
            ok!(nvmlGpmSampleGet(idle.device, neighbour))?;
            clock.sleep_until(clock.now_ns() + WINDOW_NS)?;
        }
        let (sms, dram) = (400.0 / 132.0, 100.0 * 4.0 * 6.4 / 335.0);
        close(percentages(handles[0])?, [100.0, sms, dram]);
        // The same four of now 60 SMs, and half of the bandwidth.
        close(percentages(handles[1])?, [100.0, 400.0 / 60.0, 2.0 * dram]);
        assert_eq!(percentages(handles[2])?, [0.0; 3], "its neighbour");
        assert_eq!(metrics([handles[0][0], handles[1][1]], &[1]), Err(INVALID_ARGUMENT));
        Ok(())
    })
}

#[test]
fn the_power_cap_lowers_the_clock_and_is_reported() -> Result<(), Error> {
    let mut machine = slow()?;
    // Above idle, the load draws half of 630 W times its 7.6 % of DRAM, and more.
    machine.power.cap_w = 80.0;
    in_virtual_time(test_name!(), &machine, |clock| {
        let device = nvml_device()?;
        let mhz = |getter: unsafe extern "C" fn(DeviceHandle, u32, *mut u32) -> i32, kind| {
            // SAFETY: a valid pointer.
            out(0, |to| unsafe { getter(device, kind, to) })
        };
        assert_eq!(mhz(nvmlDeviceGetClockInfo, 1), Ok(1980));
        load()?;
        let began_ns = clock.now_ns();
        clock.sleep_until(began_ns + WINDOW_NS)?;
        let level = clock.shared().read(|state| state.clock)? as f64 / f64::from(1 << 20);
        assert!((0.1..0.95).contains(&level), "{level}");
        let lowered = mhz(nvmlDeviceGetClockInfo, 1).map_err(|code| format!("code {code}"))?;
        assert!((f64::from(lowered) - 1980.0 * level).abs() <= 1.0, "{lowered}");
        assert_eq!(mhz(nvmlDeviceGetMaxClockInfo, 1), Ok(1980));
        assert_eq!(mhz(nvmlDeviceGetApplicationsClock, 0), Ok(1980));
        assert_eq!(mhz(nvmlDeviceGetClockInfo, 2), Ok(2619), "the memory keeps its own");
        assert_eq!(figure::<u64>(nvmlDeviceGetCurrentClocksEventReasons, device)?, 4);
        let mut field = FieldValue { field_id: 186, ..FieldValue::default() };
        ok!(nvmlDeviceGetFieldValues(device, 1, &raw mut field))?;
        assert!((79_900..=80_000).contains(&field.value), "{} mW", field.value);
        Ok(())
    })
}
