//! NVML on the machine `h100-80` returns the values of an H100 80GB HBM3 (driver 580.159.04,
//! 2026-11-22), as far as the model has them.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::c_uint;

use crate::driver_support::call;
use crate::nvml_support::mig::out;
use crate::nvml_support::{Error, as_root, figure, no_tenant, nvml_device, ok};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::mig::types::GpuInstanceProfileInfoV2;
use gpubench_virtual_gpu_abi::nvml::types::{Bar1Memory, FieldValue, MemoryV2, version_of};

/// A clock query.
type Clock = unsafe extern "C" fn(DeviceHandle, c_uint, *mut c_uint) -> i32;

#[test]
fn h100_80_matches_the_recorded_device() -> Result<(), Error> {
    as_root(test_name!(), "h100-80", no_tenant, || {
        let device = nvml_device()?;
        memory(device)?;
        clocks(device);
        fields(device)?;
        profiles(device);
        for engines in [nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization] {
            let (mut percent, mut period_us) = (9, 0);
            // SAFETY: valid pointers.
            ok(unsafe { engines(device, &raw mut percent, &raw mut period_us) })?;
            assert_eq!((percent, period_us), (0, 100_000));
        }
        // SAFETY: valid pointers.
        let absent = unsafe {
            out(std::ptr::null_mut(), |to| nvmlDeviceGetMigDeviceHandleByIndex(device, 0, to))
        };
        assert_eq!(absent.err(), Some(6), "NOT_FOUND while the mode is off");
        Ok(())
    })
}

fn memory(device: DeviceHandle) -> Result<(), Error> {
    let request = MemoryV2 { version: version_of::<MemoryV2>(2), ..MemoryV2::default() };
    let recorded = out(request, |to| call!(nvmlDeviceGetMemoryInfo_v2(device, to)));
    let recorded = recorded.map_err(|code| format!("code {code}"))?;
    assert_eq!((recorded.total, recorded.reserved), (85_520_809_984, 503_316_480));
    assert_eq!((recorded.used, recorded.free), (0, 85_017_493_504));
    let window = figure::<Bar1Memory>(nvmlDeviceGetBAR1MemoryInfo, device)?;
    assert_eq!(window.total, 137_438_953_472);
    Ok(())
}

fn clocks(device: DeviceHandle) {
    let calls: [Clock; 4] = [
        nvmlDeviceGetClockInfo,
        nvmlDeviceGetMaxClockInfo,
        nvmlDeviceGetApplicationsClock,
        nvmlDeviceGetDefaultApplicationsClock,
    ];
    // By kind: graphics, SM, memory, video.
    let recorded =
        [[Ok(1980); 4], [Ok(1980); 4], [Ok(2619); 4], [Ok(1545), Ok(1545), Err(3), Err(3)]];
    for (kind, recorded) in (0..).zip(recorded) {
        // SAFETY: a valid pointer.
        let found = calls.map(|call| out(0, |to| unsafe { call(device, kind, to) }));
        assert_eq!(found, recorded, "clocks of kind {kind}");
    }
}

fn fields(device: DeviceHandle) -> Result<(), Error> {
    // Number, type and value; types: 1 unsigned int, 3 unsigned long long.
    for (number, recorded) in [
        (1, Ok((3, Some(1)))),
        (2, Ok((3, Some(1)))),
        (3, Ok((3, Some(0)))),
        (6, Ok((3, Some(0)))),
        (7, Err(3)),
        (80, Ok((3, None))),
        (94, Ok((1, Some(0)))),
        (95, Ok((1, Some(0)))),
        (142, Ok((3, Some(0)))),
        (145, Ok((3, Some(0)))),
        (184, Ok((1, Some(1)))),
        (187, Ok((1, Some(200_000)))),
        (188, Ok((1, Some(700_000)))),
        (191, Ok((3, None))),
        (197, Ok((1, None))),
        (198, Ok((1, None))),
        (273, Err(3)),
        (274, Err(2)),
        (289, Err(2)),
    ] {
        let mut field = FieldValue { field_id: number, ..FieldValue::default() };
        ok!(nvmlDeviceGetFieldValues(device, 1, &raw mut field))?;
        let found = match field.result {
            0 => Ok(field.value_type),
            code => Err(code),
        };
        assert_eq!(found, recorded.map(|(kind, _)| kind), "field {number}");
        if let Ok((_, Some(value))) = recorded {
            assert_eq!(field.value, value, "field {number}");
        }
    }
    Ok(())
}

fn profiles(device: DeviceHandle) {
    // Id, slices, maximum, SMs, copy engines, decoders, JPEG engines, optical flow, MiB.
    let recorded = [
        (0, Ok([19, 1, 7, 16, 1, 1, 1, 0, 9984])),
        (1, Ok([14, 2, 3, 32, 2, 2, 2, 0, 20_096])),
        (2, Ok([9, 3, 2, 60, 3, 3, 3, 0, 40_448])),
        (3, Ok([5, 4, 1, 64, 4, 4, 4, 0, 40_448])),
        (4, Ok([0, 7, 1, 132, 8, 7, 7, 1, 81_152])),
        (5, Err(3)),
        (7, Ok([20, 1, 1, 16, 1, 1, 1, 1, 9984])),
        (9, Ok([15, 1, 4, 26, 1, 1, 1, 0, 20_096])),
        (16, Err(3)),
        (17, Err(2)),
    ];
    for (number, recorded) in recorded {
        // SAFETY: zeros are a value of this plain structure, and the pointer is valid.
        let info = unsafe {
            let mut request: GpuInstanceProfileInfoV2 = std::mem::zeroed();
            request.version = version_of::<GpuInstanceProfileInfoV2>(2);
            out(request, |to| nvmlDeviceGetGpuInstanceProfileInfoV(device, number, to))
        };
        let found = info.map(|info| {
            [
                info.id,
                info.counts.slice_count,
                info.counts.instance_count,
                info.counts.multiprocessor_count,
                info.counts.copy_engine_count,
                info.counts.decoder_count,
                info.counts.jpeg_count,
                info.counts.ofa_count,
                info.memory_size_mib as u32,
            ]
        });
        assert_eq!(found, recorded, "profile {number}");
    }
}
