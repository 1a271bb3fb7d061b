//! MIG through NVML: mode, profiles, creation and destruction of instances, and permissions.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ptr::null_mut;

use crate::driver_support::call;
use crate::nvml_support::mig::{
    THREE, create, create_compute, describe_compute, divided, filled, mode, out, set_mode,
};
use crate::nvml_support::{
    Error, as_root, as_user, figure, in_virtual_time, no_tenant, nvml_device, ok, quiet,
};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::mig::InstanceHandle;
use gpubench_virtual_gpu_abi::nvml::mig::types::{
    ComputeInstanceProfileInfoV2, GpuInstanceInfo, GpuInstanceProfileInfoV2,
    GpuInstanceProfileInfoV3, Placement,
};
use gpubench_virtual_gpu_abi::nvml::types::{FieldValue, version_of};
use gpubench_virtual_gpu_driver::process;

const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NO_PERMISSION: i32 = 4;
const NOT_FOUND: i32 = 6;
const RESET_REQUIRED: i32 = 16;
const IN_USE: i32 = 19;
const NO_ROOM: i32 = 23;
/// Profile ids of hopper: `1g.10gb` and `4g.40gb`.
const ONE: u32 = 19;
const FOUR: u32 = 5;

fn on(test: &str, machine: &str, body: fn() -> Result<(), Error>) -> Result<(), Error> {
    as_root(test, machine, no_tenant, body)
}

fn text(characters: &[i8]) -> String {
    let bytes = characters.iter().take_while(|c| **c != 0);
    bytes.map(|c| char::from(c.cast_unsigned())).collect()
}

fn profile_info(device: DeviceHandle, number: u32) -> Result<GpuInstanceProfileInfoV2, i32> {
    // SAFETY: zeros are a value of this plain structure, and the pointer is valid.
    unsafe {
        let mut request: GpuInstanceProfileInfoV2 = std::mem::zeroed();
        request.version = version_of::<GpuInstanceProfileInfoV2>(2);
        out(request, |to| nvmlDeviceGetGpuInstanceProfileInfoV(device, number, to))
    }
}

fn resetless(device: DeviceHandle) -> Result<u64, Error> {
    let mut field = FieldValue { field_id: 184, ..FieldValue::default() };
    ok!(nvmlDeviceGetFieldValues(device, 1, &raw mut field))?;
    ok(field.result)?;
    Ok(field.value)
}

#[test]
fn profiles_and_placements_are_listed_before_the_mode_is_on() -> Result<(), Error> {
    on(test_name!(), "hopper", || {
        let device = nvml_device()?;
        assert_eq!((mode(device), resetless(device)?), (Ok((0, 0)), 1));
        assert_eq!(figure::<u32>(nvmlDeviceGetMaxMigDeviceCount, device)?, 0);
        assert_eq!(create(device, THREE, None), Err(NOT_SUPPORTED));
        let info = |number| profile_info(device, number);
        let three = info(2).map_err(|code| format!("code {code}"))?;
        let counts = three.counts;
        assert_eq!((three.id, counts.slice_count, counts.instance_count), (THREE, 3, 2));
        assert_eq!((counts.multiprocessor_count, counts.copy_engine_count), (60, 3));
        assert_eq!(three.memory_size_mib, (81_920 - 640) / 2);
        assert_eq!(info(5).err(), Some(NOT_SUPPORTED), "8 slices are not on this device");
        assert_eq!(info(0x12).err(), Some(INVALID_ARGUMENT), "where lists of profiles end");
        named_profiles(device)?;
        let mut places = [Placement::default(); 8];
        let mut count = 0;
        let all = nvmlDeviceGetGpuInstancePossiblePlacements_v2;
        // SAFETY: as above, and the array is large enough.
        unsafe {
            ok(all(device, THREE, null_mut(), &raw mut count))?;
            assert_eq!(count, 2);
            ok(all(device, THREE, places.as_mut_ptr(), &raw mut count))?;
            assert_eq!(all(device, 77, null_mut(), &raw mut count), NOT_SUPPORTED);
        }
        let placed = |start| Placement { start, size: 4 };
        assert_eq!(places[..3], [placed(0), placed(4), Placement::default()]);
        Ok(())
    })
}

fn named_profiles(device: DeviceHandle) -> Result<(), Error> {
    // SAFETY: all zeroes is a value of these plain structures; pointers are valid.
    unsafe {
        let mut second: GpuInstanceProfileInfoV2 = std::mem::zeroed();
        let ask = nvmlDeviceGetGpuInstanceProfileInfoV;
        assert_eq!(ask(device, 2, &raw mut second), INVALID_ARGUMENT, "no version");
        second.version = version_of::<GpuInstanceProfileInfoV2>(2);
        ok(ask(device, 2, &raw mut second))?;
        assert_eq!((second.id, text(&second.name).as_str()), (THREE, "MIG 3g.40gb"));
        let mut third: GpuInstanceProfileInfoV3 = std::mem::zeroed();
        third.version = version_of::<GpuInstanceProfileInfoV3>(3);
        ok(ask(device, 3, (&raw mut third).cast()))?;
        assert_eq!((third.counts.slice_count, text(&third.name).as_str()), (4, "MIG 4g.40gb"));
    }
    Ok(())
}

#[test]
fn instances_can_be_created_and_found() -> Result<(), Error> {
    on(test_name!(), "hopper", || {
        let device = divided()?;
        assert_eq!(mode(device), Ok((1, 1)));
        assert_eq!(figure::<u32>(nvmlDeviceGetMaxMigDeviceCount, device)?, 7);
        assert_eq!(create(device, 77, None), Err(INVALID_ARGUMENT));
        assert_eq!(create(device, THREE, Some((1, 4))), Err(INVALID_ARGUMENT));
        assert_eq!(create(device, THREE, Some((4, 3))), Err(INVALID_ARGUMENT));
        let three = create(device, THREE, Some((4, 4))).map_err(|code| format!("{code}"))?;
        assert_eq!(create(device, THREE, Some((4, 4))), Err(NO_ROOM));
        let one = create(device, ONE, None).map_err(|code| format!("{code}"))?;
        assert_eq!(create(device, FOUR, None), Err(NO_ROOM), "only at slot 0");
        found_again(device, three)?;
        ok!(nvmlGpuInstanceDestroy(three))?;
        assert_eq!(call!(nvmlGpuInstanceDestroy(three)), INVALID_ARGUMENT, "gone");
        assert_eq!(call!(nvmlGpuInstanceDestroy(device)), INVALID_ARGUMENT);
        let again = create(device, THREE, Some((4, 4))).map_err(|code| format!("{code}"))?;
        assert_ne!(again, three, "a new instance at the same start");
        ok!(nvmlGpuInstanceDestroy(one))?;
        assert_eq!(set_mode(device, 0), Ok(0));
        assert_eq!(mode(device), Ok((0, 0)));
        assert_eq!(set_mode(device, 2), Err(INVALID_ARGUMENT));
        Ok(())
    })
}

fn found_again(device: DeviceHandle, three: InstanceHandle) -> Result<(), Error> {
    let mut handles: [InstanceHandle; 2] = [null_mut(); 2];
    let mut count = 0;
    // SAFETY: valid pointers; the array has room for the profile's maximum.
    unsafe {
        let list = nvmlDeviceGetGpuInstances;
        ok(list(device, THREE, handles.as_mut_ptr(), &raw mut count))?;
        assert_eq!((count, handles), (1, [three, null_mut()]));
        let mut info: GpuInstanceInfo = std::mem::zeroed();
        ok(nvmlGpuInstanceGetInfo(three, &raw mut info))?;
        assert_eq!((info.device, info.profile_id), (device, THREE));
        assert_eq!(info.placement, Placement { start: 4, size: 4 });
        let by_id = |id| out(null_mut(), |to| nvmlDeviceGetGpuInstanceById(device, id, to));
        assert_eq!(by_id(info.id), Ok(three));
        assert_eq!(by_id(13), Err(NOT_FOUND));
        assert_eq!(nvmlGpuInstanceGetInfo(null_mut(), &raw mut info), INVALID_ARGUMENT);
    }
    Ok(())
}

#[test]
fn compute_instances_divide_the_slices() -> Result<(), Error> {
    on(test_name!(), "hopper", || {
        let device = divided()?;
        let gpu = create(device, THREE, None).map_err(|code| format!("{code}"))?;
        let info = |number| {
            out(
                // SAFETY: a valid pointer, or zeroes for a plain structure.
                unsafe { std::mem::zeroed::<ComputeInstanceProfileInfoV2>() },
                // SAFETY: a valid pointer.
                |to| unsafe {
                    (*to).version = version_of::<ComputeInstanceProfileInfoV2>(2);
                    nvmlGpuInstanceGetComputeInstanceProfileInfoV(gpu, number, 0, to)
                },
            )
        };
        let facts = |number| {
            info(number).map(|found: ComputeInstanceProfileInfoV2| {
                let info = found.info;
                let counts = (info.id, info.instance_count, info.multiprocessor_count);
                (counts, text(&found.name))
            })
        };
        assert_eq!(facts(0), Ok(((0, 3, 20), "MIG 1c.3g.40gb".to_owned())));
        assert_eq!(facts(1), Ok(((1, 1, 40), "MIG 2c.3g.40gb".to_owned())));
        assert_eq!(facts(2), Ok(((2, 1, 60), "MIG 3g.40gb".to_owned())));
        assert_eq!(facts(3).err(), Some(NOT_SUPPORTED));
        assert_eq!(facts(9).err(), Some(INVALID_ARGUMENT));
        let one = || create_compute(gpu, 0).map_err(|code| format!("{code}"));
        let (first, middle, last) = (one()?, one()?, one()?);
        assert_eq!(create_compute(gpu, 0), Err(NO_ROOM));
        assert_eq!(create_compute(gpu, 3), Err(NOT_SUPPORTED));
        let places = [first, middle, last].map(|one| describe_compute(one).map(|i| i.placement));
        let place = |start| Ok(Placement { start, size: 1 });
        assert_eq!(places, [0, 1, 2].map(place));
        assert_eq!(call!(nvmlGpuInstanceDestroy(gpu)), IN_USE);
        ok!(nvmlComputeInstanceDestroy(middle))?;
        assert_eq!(call!(nvmlComputeInstanceDestroy(middle)), INVALID_ARGUMENT);
        ok!(nvmlComputeInstanceDestroy(last))?;
        let mut handles: [InstanceHandle; 3] = [null_mut(); 3];
        let (mut count, to) = (0, handles.as_mut_ptr());
        ok!(nvmlGpuInstanceGetComputeInstances(gpu, 0, to, &raw mut count))?;
        assert_eq!((count, handles[0]), (1, first));
        Ok(())
    })
}

#[test]
fn a_mode_that_needs_a_reset_stays_pending() -> Result<(), Error> {
    on(test_name!(), "a100-80", || {
        let device = nvml_device()?;
        assert_eq!((set_mode(device, 1), resetless(device)?), (Ok(RESET_REQUIRED), 0));
        assert_eq!(mode(device), Ok((0, 1)));
        assert_eq!(create(device, THREE, None), Err(NOT_SUPPORTED));
        assert_eq!((set_mode(device, 0), mode(device)), (Ok(0), Ok((0, 0))));
        Ok(())
    })
}

#[test]
fn a_device_without_mig_reports_not_supported() -> Result<(), Error> {
    on(test_name!(), "turing", || {
        let device = nvml_device()?;
        assert_eq!(mode(device), Err(NOT_SUPPORTED));
        assert_eq!(set_mode(device, 1), Err(NOT_SUPPORTED));
        let code = profile_info(device, 0).err();
        assert_eq!((code, resetless(device)?), (Some(NOT_SUPPORTED), 0));
        Ok(())
    })
}

#[test]
fn without_privilege_only_the_mode_can_be_read() -> Result<(), Error> {
    as_user(test_name!(), "hopper", no_tenant, || {
        let device = nvml_device()?;
        assert_eq!(set_mode(device, 1), Err(NO_PERMISSION));
        assert_eq!(mode(device), Ok((0, 0)));
        let mut count = 0;
        let places = nvmlDeviceGetGpuInstancePossiblePlacements_v2;
        // SAFETY: valid pointers.
        let code = unsafe { places(device, THREE, null_mut(), &raw mut count) };
        assert_eq!(code, NO_PERMISSION);
        // Another process turns the mode on.
        let shared = process::device().map_err(|code| format!("{code:?}"))?;
        let machine = shared.machine();
        shared
            .transact(|state, _| gpubench_virtual_gpu_model::mig::set_mode(state, machine, true))?;
        assert_eq!(create(device, THREE, None), Err(NO_PERMISSION));
        let memory = figure::<gpubench_virtual_gpu_abi::nvml::types::Memory>;
        let refused = memory(nvmlDeviceGetMemoryInfo, device).err().map(|e| e.to_string());
        assert_eq!(refused.as_deref(), Some("code 4"), "sums over all instances");
        Ok(())
    })
}

#[test]
fn creating_an_instance_takes_time() -> Result<(), Error> {
    let mut machine = quiet("hopper")?;
    machine.mig.as_mut().ok_or("no MIG")?.instance_ms = 250;
    in_virtual_time(test_name!(), &machine, |device| {
        let handle = divided()?;
        let began = device.now_ns();
        let made = filled(handle)?;
        let passed_ms = (device.now_ns() - began) / 1_000_000;
        assert_eq!(passed_ms, 500, "a GPU instance and a compute instance");
        ok!(nvmlComputeInstanceDestroy(made.compute))?;
        ok!(nvmlGpuInstanceDestroy(made.gpu))?;
        assert_eq!((device.now_ns() - began) / 1_000_000, 1000);
        Ok(())
    })
}
