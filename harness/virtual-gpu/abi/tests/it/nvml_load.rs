//! NVML beside a tenant in another process: memory, processes, power, utilisation, the host link.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::{
    FieldValue, Memory, MemoryV2, NO_INSTANCES, ProcessInfo, ProcessInfoV1,
    ProcessUtilizationSample, Utilization, version_of,
};
use gpubench_virtual_gpu_driver::session::TimeMode;

use crate::driver_support::call;
use crate::nvml_support::{
    Error, Tenant, alloc, context, eventually, figure, function, launch, nvml_device, observed, ok,
    ready, text, wait_for_go,
};

const COPY: &str = Kernel::StreamCopy.info().ptx;
const INVALID_ARGUMENT: i32 = 2;
const NOT_FOUND: i32 = 6;
const INSUFFICIENT_SIZE: i32 = 7;
const MIB: u64 = 1 << 20;

#[test]
fn a_tenants_memory_is_counted_and_freed() -> Result<(), Error> {
    let test = test_name!();
    let tenant = || {
        context()?;
        alloc(100 << 20)?;
        ready()?;
        wait_for_go()
    };
    observed(test, TimeMode::Wall, tenant, || {
        let device = nvml_device()?;
        let memory = || figure::<Memory>(nvmlDeviceGetMemoryInfo, device);
        let before = memory()?;
        assert_eq!((before.total, before.used), (16_384 * MIB, 256 * MIB));
        let mut count = 0;
        ok!(nvmlDeviceGetComputeRunningProcesses_v3(device, &raw mut count, null_mut()))?;

        let tenant = Tenant::start(test)?;
        let taken = (100 + 104) * MIB;
        let after = memory()?;
        assert_eq!((after.used - before.used, before.free - after.free), (taken, taken));
        let mut second = MemoryV2 { version: version_of::<MemoryV2>(2), ..MemoryV2::default() };
        ok!(nvmlDeviceGetMemoryInfo_v2(device, &raw mut second))?;
        assert_eq!((second.reserved, second.used), (256 * MIB, taken));
        assert_eq!(second.reserved + second.used + second.free, second.total);

        the_lists_name_the_tenant(device, tenant.pid(), taken)?;
        tenant.kill()?;
        assert_eq!(memory()?.used, before.used, "a killed tenant's memory is free");
        Ok(())
    })
}

/// The process lists of a device with one tenant, and the handling of their length.
fn the_lists_name_the_tenant(device: DeviceHandle, pid: u32, taken: u64) -> Result<(), Error> {
    let mut count = 0;
    let mut infos = [ProcessInfo::default(); 3];
    // SAFETY: valid pointers and arrays.
    unsafe {
        // The first form lists the same processes, without instances.
        let mut first = [ProcessInfoV1::default(); 3];
        let mut listed = 3;
        let place = first.as_mut_ptr();
        ok(nvmlDeviceGetComputeRunningProcesses(device, &raw mut listed, place))?;
        let found = first.map(|one| (one.pid, one.used_gpu_memory));
        assert_eq!((listed, found), (1, [(pid, taken), (0, 0), (0, 0)]));
        let list = nvmlDeviceGetComputeRunningProcesses_v3;
        assert_eq!(list(device, &raw mut count, null_mut()), INSUFFICIENT_SIZE);
        assert_eq!(count, 1);
        assert_eq!(list(device, &raw mut count, null_mut()), INVALID_ARGUMENT);
        assert_eq!(list(device, null_mut(), infos.as_mut_ptr()), INVALID_ARGUMENT);
        count = 3;
        ok(list(device, &raw mut count, infos.as_mut_ptr()))?;
        assert_eq!(count, 1);
        let (graphics, mps) =
            (nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3);
        for none in [graphics, mps] {
            count = 3;
            ok(none(device, &raw mut count, null_mut()))?;
            assert_eq!(count, 0);
        }
        let name = text(256, |p, n| nvmlSystemGetProcessName(pid, p, n))?;
        assert_eq!(name, std::env::current_exe()?.display().to_string());
    }
    assert_eq!((infos[0].pid, infos[0].used_gpu_memory), (pid, taken));
    assert_eq!(infos[0].gpu_instance_id, NO_INSTANCES.0);
    assert_eq!(infos[1].pid, 0, "only the first element is written");
    Ok(())
}

/// Copies 4 MiB to 4 MiB, more than the L2 holds, on four SMs, until the test ends it.
fn load() -> Result<(), Error> {
    context()?;
    let bytes = 4usize << 20;
    let (from, to) = (alloc(bytes)?, alloc(bytes)?);
    let copy = function(COPY, "stream_copy")?;
    let mut args = [to, from, bytes as u64 / 16];
    launch(copy, 4, 256, &mut args)?;
    ok!(cuCtxSynchronize())?;
    ready()?;
    let end = std::thread::spawn(wait_for_go);
    while !end.is_finished() {
        for _ in 0..100 {
            launch(copy, 4, 256, &mut args)?;
        }
        ok!(cuCtxSynchronize())?;
    }
    Ok(())
}

#[test]
fn power_energy_and_utilisation_rise_with_load() -> Result<(), Error> {
    let test = test_name!();
    observed(test, TimeMode::Wall, load, || {
        let device = nvml_device()?;
        let reasons = || figure::<u64>(nvmlDeviceGetCurrentClocksEventReasons, device);
        let celsius = || {
            let mut found = 0;
            ok!(nvmlDeviceGetTemperature(device, 0, &raw mut found))?;
            Ok::<_, Error>(found)
        };
        assert_eq!(figure::<u32>(nvmlDeviceGetPowerUsage, device)?, 12_000);
        assert_eq!((reasons()?, celsius()?), (1, 39), "30 + 50 x 12/70 degrees");
        let (min, max) = watts_over(device, Duration::from_millis(300))?;
        assert!(min <= 12.0 && max >= 12.0, "{min} to {max} W idle");
        assert!(max < 24.0, "{max} W idle");
        let mut samples = [ProcessUtilizationSample::default(); 64];
        let mut used = |since_us: u64| {
            let mut count = samples.len() as u32;
            let array = samples.as_mut_ptr();
            let code =
                call!(nvmlDeviceGetProcessUtilization(device, array, &raw mut count, since_us));
            (code, samples[..count as usize * usize::from(code == 0)].to_vec())
        };
        assert_eq!(used(0).0, NOT_FOUND, "the device was never used");

        let tenant = Tenant::start(test)?;
        // Every reading is repeated until it holds: on a loaded host the tenant can starve.
        eventually("half of a window busy, on four SMs of 24 GB/s each", || {
            let found = figure::<Utilization>(nvmlDeviceGetUtilizationRates, device)?;
            // Both cover one window: DRAM is 30 % in use while the kernel runs.
            Ok(found.gpu > 50 && (found.gpu * 3 / 10).abs_diff(found.memory) <= 1)
        })?;
        eventually("no reason to be idle, warmer, and above idle power", || {
            let power_mw = figure::<u32>(nvmlDeviceGetPowerUsage, device)?;
            Ok(reasons()? == 0 && celsius()? > 39 && power_mw > 13_000)
        })?;
        eventually("more energy than at rest", || {
            let (min, _) = watts_over(device, Duration::from_millis(100))?;
            Ok(min > 13.0)
        })?;
        let (code, first) = used(0);
        assert_eq!((code, first.len()), (0, 1));
        assert_eq!(first[0].pid, tenant.pid());
        assert_eq!(used(first[0].time_stamp_us).0, NOT_FOUND, "no window has passed since");
        eventually("a sample since the last one", || {
            let (code, next) = used(first[0].time_stamp_us);
            let later = next.first().is_some_and(|s| s.time_stamp_us > first[0].time_stamp_us);
            // DRAM is 30 % in use while the kernel runs, so its busy time is 30 %.
            let share = |s: &ProcessUtilizationSample| (s.sm_util * 3 / 10).abs_diff(s.mem_util);
            Ok(code == 0 && later && next[0].sm_util > 50 && share(&next[0]) <= 1)
        })?;
        eventually("a sample of the last second, stamped by the host's clock", || {
            in_the_last_second(&mut used)
        })?;
        tenant.finish()?;
        eventually("rest", || Ok(reasons()? == 1 && celsius()? == 39))?;
        Ok(())
    })
}

/// Whether a query for the last second by the host's clock, as in utilisation-based limiters,
/// returns a sample of a busy process with a current timestamp.
fn in_the_last_second(
    used: &mut impl FnMut(u64) -> (i32, Vec<ProcessUtilizationSample>),
) -> Result<bool, Error> {
    let unix_us = || -> Result<u64, Error> {
        Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
    };
    let before_us = unix_us()?;
    let (code, found) = used(before_us - 1_000_000);
    // The two clocks are read at different instants.
    let span_us = before_us - 20_000..unix_us()? + 20_000;
    let sound = |s: &ProcessUtilizationSample| s.sm_util > 50 && span_us.contains(&s.time_stamp_us);
    Ok(code == 0 && found.first().is_some_and(sound))
}

/// Bounds of the mean power by the energy counter: the host may delay this thread at any point.
fn watts_over(device: DeviceHandle, span: Duration) -> Result<(f64, f64), Error> {
    let outer = Instant::now();
    let before = figure::<u64>(nvmlDeviceGetTotalEnergyConsumption, device)?;
    let inner = Instant::now();
    std::thread::sleep(span);
    let inner = inner.elapsed();
    let after = figure::<u64>(nvmlDeviceGetTotalEnergyConsumption, device)?;
    // The counter counts whole millijoules.
    let joules = |slack: f64| ((after - before) as f64 + slack) / 1e3;
    Ok((joules(-1.0) / outer.elapsed().as_secs_f64(), joules(1.0) / inner.as_secs_f64()))
}

#[test]
fn link_traffic_is_counted_per_direction() -> Result<(), Error> {
    let test = test_name!();
    let tenant = || {
        context()?;
        let bytes = 64usize << 20;
        let buffer = alloc(bytes)?;
        let mut pinned = null_mut();
        ok!(cuMemHostAlloc(&raw mut pinned, bytes, 0))?;
        let copy = || ok!(cuMemcpyHtoDAsync_v2(buffer, pinned, bytes, null_mut()));
        copy()?;
        ready()?;
        let end = std::thread::spawn(wait_for_go);
        while !end.is_finished() {
            copy()?;
            copy()?;
            ok!(cuCtxSynchronize())?;
        }
        Ok(())
    };
    observed(test, TimeMode::Wall, tenant, || {
        let device = nvml_device()?;
        let gb_per_s = |counter| {
            let (mut kib, began) = (0, Instant::now());
            ok!(nvmlDeviceGetPcieThroughput(device, counter, &raw mut kib))?;
            assert!(began.elapsed() >= Duration::from_millis(20), "the call covers its window");
            Ok::<_, Error>(f64::from(kib) * 1024.0 / 1e9)
        };
        assert_eq!((gb_per_s(0)?, gb_per_s(1)?), (0.0, 0.0));
        let tenant = Tenant::start(test)?;
        // The device receives up to 12 GB/s; the tenant's own memcpy leaves gaps.
        let mut rates = Vec::new();
        eventually("traffic to the device", || {
            rates.push(gb_per_s(1)?);
            Ok(rates.iter().any(|rate| *rate > 1.0))
        })?;
        assert!(rates.iter().all(|rate| *rate <= 12.1), "{rates:?}");
        assert_eq!(gb_per_s(0)?, 0.0, "nothing is sent");
        tenant.finish()?;
        let mut counted =
            [197, 198].map(|field_id| FieldValue { field_id, result: -1, ..FieldValue::default() });
        ok!(nvmlDeviceGetFieldValues(device, 2, counted.as_mut_ptr()))?;
        assert_eq!((counted[0].result, counted[0].value), (0, 0), "sent");
        let copies = counted[1].value / (64 * MIB);
        assert!(copies > 2 && counted[1].value == copies * 64 * MIB, "{counted:?}");
        Ok(())
    })
}
