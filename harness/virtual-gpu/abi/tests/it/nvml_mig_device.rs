//! MIG devices: device queries on the handle of a compute instance.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CString;
use std::ptr::null_mut;

use gpubench_kernels::Kernel;
use gpubench_virtual_gpu_abi::cuda::calls::*;
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::mig::types::DeviceAttributes;
use gpubench_virtual_gpu_abi::nvml::types::{
    Bar1Memory, EventData, Memory, ProcessInfo, ProcessUtilizationSample, Utilization,
};
use gpubench_virtual_gpu_driver::{kernel_log, process};

use crate::driver_support::call;
use crate::nvml_support::mig::{divided, filled, mode, out, set_mode};
use crate::nvml_support::{
    Error, Tenant, alloc, as_root, context, figure, function, launch, no_tenant, ok, ready, text,
    wait_for_go,
};

const STORE: &str = Kernel::FaultIllegalStore.info().ptx;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
const IN_USE: i32 = 19;
const MIB: u64 = 1 << 20;
/// Memory of half of hopper's slots.
const HALF: u64 = (81_920 - 640) / 2 * MIB;

fn uuid_of(device: DeviceHandle) -> Result<String, Error> {
    text(96, |p, n| call!(nvmlDeviceGetUUID(device, p, n)))
}

fn at(parent: DeviceHandle, index: u32) -> Result<DeviceHandle, i32> {
    out(null_mut(), |to| call!(nvmlDeviceGetMigDeviceHandleByIndex(parent, index, to)))
}

#[test]
fn a_mig_device_is_found_by_index_and_name() -> Result<(), Error> {
    as_root(test_name!(), "hopper", no_tenant, || {
        let parent = divided()?;
        let (first, second) = (filled(parent)?, filled(parent)?);
        assert_eq!(at(parent, 0), Ok(first.device));
        assert_eq!(at(parent, 1), Ok(second.device));
        assert_eq!((at(parent, 2), at(parent, 7)), (Err(NOT_FOUND), Err(INVALID_ARGUMENT)));
        assert_eq!(at(first.device, 0), Err(NOT_SUPPORTED), "it has none of its own");
        let number = |getter, device| figure::<u32>(getter, device);
        assert_eq!(number(nvmlDeviceGetIndex, second.device)?, 1);
        assert_eq!(number(nvmlDeviceIsMigDeviceHandle, second.device)?, 1);
        assert_eq!(number(nvmlDeviceIsMigDeviceHandle, parent)?, 0);
        let ids = [nvmlDeviceGetGpuInstanceId, nvmlDeviceGetComputeInstanceId];
        // SAFETY: a valid pointer.
        let both = |device| ids.map(|getter| out(9, |to| unsafe { getter(device, to) }));
        assert_eq!(both(first.device), [Ok(1), Ok(0)]);
        assert_eq!(both(second.device), [Ok(2), Ok(0)]);
        assert_eq!(both(parent), [Err(INVALID_ARGUMENT); 2]);
        let up = nvmlDeviceGetDeviceHandleFromMigDeviceHandle;
        assert_eq!(
            // SAFETY: a valid pointer.
            out(null_mut(), |to| unsafe { up(second.device, to) }),
            Ok(parent)
        );
        let uuids = [uuid_of(first.device)?, uuid_of(second.device)?, uuid_of(parent)?];
        assert!(uuids[0].starts_with("MIG-") && uuids[0] != uuids[1], "{uuids:?}");
        for (uuid, device) in uuids.iter().zip([first.device, second.device, parent]) {
            assert_eq!(by_uuid(uuid)?, Ok(device), "{uuid}");
        }
        let old = format!("MIG-{}/2/0", uuids[2]);
        assert_eq!(by_uuid(&old)?, Ok(second.device), "the format of older drivers");
        let name = text(96, |p, n| call!(nvmlDeviceGetName(first.device, p, n)))?;
        assert_eq!(name, "Virtual Hopper 80GB MIG 3g.40gb");
        ok!(nvmlComputeInstanceDestroy(first.compute))?;
        assert_eq!(by_uuid(&uuids[0])?, Err(NOT_FOUND), "it is destroyed");
        let gone = figure::<u32>(nvmlDeviceGetIndex, first.device).err();
        assert_eq!(gone.map(|e| e.to_string()).as_deref(), Some("code 2"));
        assert_eq!(at(parent, 0), Ok(second.device), "the remaining ones move up");
        Ok(())
    })
}

fn by_uuid(uuid: &str) -> Result<Result<DeviceHandle, i32>, Error> {
    let uuid = CString::new(uuid)?;
    Ok(out(null_mut(), |to| call!(nvmlDeviceGetHandleByUUID(uuid.as_ptr(), to))))
}

#[test]
fn a_mig_device_has_its_own_memory_and_processes() -> Result<(), Error> {
    let test = test_name!();
    let tenant = || {
        context()?;
        alloc(64 << 20)?;
        ready()?;
        wait_for_go()
    };
    as_root(test, "hopper", tenant, || {
        let parent = divided()?;
        let (first, second) = (filled(parent)?, filled(parent)?);
        let uuid = uuid_of(second.device)?;
        let tenant = Tenant::start_with(test, &[("CUDA_VISIBLE_DEVICES", &uuid)])?;
        let taken = (64 + 512) * MIB;
        let used = |device| figure::<Memory>(nvmlDeviceGetMemoryInfo, device);
        let (mine, other) = (used(second.device)?, used(first.device)?);
        assert_eq!((mine.total, mine.used, mine.free), (HALF, taken, HALF - taken));
        assert_eq!((other.total, other.used), (HALF, 0));
        assert_eq!(used(parent)?.used, taken + 640 * MIB);
        let window = figure::<Bar1Memory>(nvmlDeviceGetBAR1MemoryInfo, second.device)?;
        assert_eq!(window.total, 128 * MIB);
        let listed = (tenant.pid(), taken, 2, 0);
        assert_eq!(processes(second.device)?, [listed]);
        assert_eq!(processes(first.device)?, []);
        assert_eq!(processes(parent)?, [listed]);
        assert_eq!(call!(nvmlComputeInstanceDestroy(second.compute)), IN_USE);
        ok!(nvmlComputeInstanceDestroy(first.compute))?;
        ok!(nvmlGpuInstanceDestroy(first.gpu))?;
        assert_eq!(set_mode(parent, 0), Ok(IN_USE));
        assert_eq!(mode(parent), Ok((1, 0)), "the mode is pending");
        tenant.kill()?;
        assert_eq!(set_mode(parent, 0), Ok(0), "the device is idle");
        Ok(())
    })
}

/// Process id, memory, and the two instance ids.
fn processes(device: DeviceHandle) -> Result<Vec<(u32, u64, u32, u32)>, Error> {
    let mut infos = [ProcessInfo::default(); 8];
    let mut count = 8;
    let list = nvmlDeviceGetComputeRunningProcesses_v3;
    // SAFETY: an array of that length.
    ok(unsafe { list(device, &raw mut count, infos.as_mut_ptr()) })?;
    let found = infos[..count as usize].iter();
    Ok(found
        .map(|p| (p.pid, p.used_gpu_memory, p.gpu_instance_id, p.compute_instance_id))
        .collect())
}

#[test]
fn device_wide_queries_are_not_supported() -> Result<(), Error> {
    as_root(test_name!(), "hopper", no_tenant, || {
        let parent = divided()?;
        let device = filled(parent)?.device;
        for (index, (getter, _)) in crate::nvml_support::NUMBERS.iter().enumerate() {
            let known = [nvmlDeviceGetIndex, nvmlDeviceIsMigDeviceHandle, nvmlDeviceGetComputeMode];
            if known.iter().any(|&known| std::ptr::fn_addr_eq(known, *getter)) {
                continue;
            }
            // SAFETY: a valid pointer.
            let code = out(0, |to| unsafe { getter(device, to) });
            assert_eq!(code, Err(NOT_SUPPORTED), "number {index} of the list");
        }
        for handle in [device, parent] {
            let rates = figure::<Utilization>(nvmlDeviceGetUtilizationRates, handle).err();
            assert_eq!(rates.map(|e| e.to_string()).as_deref(), Some("code 3"));
            let mut samples = [ProcessUtilizationSample::default(); 4];
            let mut count = 4;
            let ask = nvmlDeviceGetProcessUtilization;
            // SAFETY: an array of that length.
            let code = unsafe { ask(handle, samples.as_mut_ptr(), &raw mut count, 0) };
            assert_eq!(code, NOT_SUPPORTED);
        }
        let attributes = |device| {
            out(DeviceAttributes::default(), |to| call!(nvmlDeviceGetAttributes_v2(device, to)))
        };
        assert_eq!(attributes(parent), Err(NOT_SUPPORTED));
        let found = attributes(device).map_err(|code| format!("code {code}"))?;
        assert_eq!((found.multiprocessor_count, found.shared.copy_engine_count), (60, 3));
        let slices = (found.gpu_instance_slice_count, found.compute_instance_slice_count);
        assert_eq!((slices, found.memory_size_mib * MIB), ((3, 3), HALF));
        Ok(())
    })
}

/// Fails its context with a store to an unmapped address on request.
fn faulty() -> Result<(), Error> {
    let context = context()?;
    let kernel = function(STORE, "fault_illegal_store")?;
    ready()?;
    wait_for_go()?;
    launch(kernel, 1, 1, &mut [16, 1])?;
    assert_eq!(call!(cuCtxSynchronize()), 700);
    call!(cuCtxDestroy_v2(context));
    Ok(())
}

#[test]
fn an_event_names_its_instance() -> Result<(), Error> {
    let test = test_name!();
    as_root(test, "hopper", faulty, || {
        let parent = divided()?;
        filled(parent)?;
        let second = filled(parent)?;
        let uuid = uuid_of(second.device)?;
        // SAFETY: zeroes are a value of the plain structure; pointers and handles are valid.
        unsafe {
            let mut set = null_mut();
            ok(nvmlEventSetCreate(&raw mut set))?;
            let register = nvmlDeviceRegisterEvents;
            assert_eq!(register(second.device, 8, set), NOT_SUPPORTED, "only on the device");
            ok(register(parent, 8, set))?;
            let tenant = Tenant::start_with(test, &[("CUDA_VISIBLE_DEVICES", &uuid)])?;
            tenant.finish()?;
            let mut event: EventData = std::mem::zeroed();
            ok(nvmlEventSetWait_v2(set, &raw mut event, 5_000))?;
            assert_eq!((event.device, event.event_data), (parent, 31));
            assert_eq!((event.gpu_instance_id, event.compute_instance_id), (2, 0));
        }
        let device = process::device().map_err(|code| format!("{code:?}"))?;
        let log = std::fs::read_to_string(kernel_log::path(device.dir()))?;
        let lines: Vec<&str> = log.lines().collect();
        let prefix = "NVRM: Xid (PCI:0000:01:00 GPU-I:02 GPU-CI:00): 31, pid=";
        assert!(lines.len() == 1 && lines[0].contains(prefix), "{lines:?}");
        Ok(())
    })
}
