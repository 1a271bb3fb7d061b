//! NVML without load: calls before initialisation, invalid arguments, and field values.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CStr;
use std::ptr::{dangling_mut, null, null_mut};

use crate::driver_support::call;
use crate::nvml_support::{Error, NUMBERS, no_tenant, nvml_device, observed, ok};
use gpubench_virtual_gpu_abi::nvml::DeviceHandle;
use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::{FieldValue, MemoryV2, Temperature};
use gpubench_virtual_gpu_driver::session::TimeMode;

const UNINITIALIZED: i32 = 1;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
const INSUFFICIENT_SIZE: i32 = 7;
const ARGUMENT_VERSION_MISMATCH: i32 = 25;

#[test]
fn calls_need_initialisation() -> Result<(), Error> {
    observed(test_name!(), TimeMode::Wall, no_tenant, || {
        let mut number = 0u32;
        let mut handle: DeviceHandle = null_mut();
        let mut refused = |expected: i32| {
            assert_eq!(call!(nvmlDeviceGetCount_v2(&raw mut number)), expected);
            assert_eq!(call!(nvmlDeviceGetHandleByIndex_v2(0, &raw mut handle)), expected);
            assert_eq!(call!(nvmlSystemGetCudaDriverVersion((&raw mut number).cast())), expected);
        };
        refused(UNINITIALIZED);
        assert_eq!(call!(nvmlShutdown()), UNINITIALIZED);
        ok!(nvmlInit())?;
        ok!(nvmlInitWithFlags(1))?;
        assert_eq!(call!(nvmlInitWithFlags(8)), INVALID_ARGUMENT);
        refused(0);
        ok!(nvmlShutdown())?;
        refused(0);
        ok!(nvmlShutdown())?;
        assert_eq!(call!(nvmlShutdown()), UNINITIALIZED);
        refused(UNINITIALIZED);
        for (getter, _) in NUMBERS {
            let mut found = 0;
            // SAFETY: a valid pointer.
            assert_eq!(unsafe { getter(handle, &raw mut found) }, UNINITIALIZED);
        }
        let text = |code| {
            // SAFETY: the library's texts are static.
            unsafe { CStr::from_ptr(nvmlErrorString(code)) }.to_string_lossy().into_owned()
        };
        assert_eq!((text(0), text(3)), ("Success".to_owned(), "Not Supported".to_owned()));
        assert_eq!(text(12_345), "Unknown Error");
        Ok(())
    })
}

#[test]
fn wrong_arguments_are_refused() -> Result<(), Error> {
    let test = test_name!();
    observed(test, TimeMode::Wall, no_tenant, || {
        let device = nvml_device()?;
        let wild = [null_mut(), dangling_mut::<u8>().cast(), (device as usize ^ 16) as _];
        // SAFETY: wrong handles and null pointers are under test; the others are valid.
        unsafe {
            let (mut number, mut handle) = (0, null_mut());
            for (index, (getter, _)) in NUMBERS.iter().enumerate() {
                for handle in wild {
                    assert_eq!(getter(handle, &raw mut number), INVALID_ARGUMENT, "{index}");
                }
                assert_eq!(getter(device, null_mut()), INVALID_ARGUMENT, "{index}");
            }
            assert_eq!(nvmlDeviceGetHandleByIndex_v2(1, &raw mut handle), INVALID_ARGUMENT);
            assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, null_mut()), INVALID_ARGUMENT);
            assert_eq!(nvmlDeviceGetHandleByUUID(null(), &raw mut handle), INVALID_ARGUMENT);
            assert_eq!(nvmlDeviceGetName(device, null_mut(), 96), INVALID_ARGUMENT);
            let mut short = [0x55; 8];
            assert_eq!(nvmlDeviceGetName(device, short.as_mut_ptr(), 8), INSUFFICIENT_SIZE);
            assert_eq!(short, [0x55; 8], "nothing is written");
            assert_eq!(nvmlSystemGetProcessName(0, short.as_mut_ptr(), 8), NOT_FOUND);
            assert_eq!(nvmlDeviceGetClockInfo(device, 4, &raw mut number), INVALID_ARGUMENT);
            assert_eq!(nvmlDeviceGetTemperature(device, 1, &raw mut number), INVALID_ARGUMENT);
            assert_eq!(nvmlDeviceGetPcieThroughput(device, 2, &raw mut number), INVALID_ARGUMENT);
            let mut memory = MemoryV2 { version: 2, ..MemoryV2::default() };
            let code = nvmlDeviceGetMemoryInfo_v2(device, &raw mut memory);
            assert_eq!(code, ARGUMENT_VERSION_MISMATCH);
            let mut temperature = Temperature::default();
            let code = nvmlDeviceGetTemperatureV(device, &raw mut temperature);
            assert_eq!(code, ARGUMENT_VERSION_MISMATCH);
            let mut errors = 9;
            let code = nvmlDeviceGetTotalEccErrors(device, 2, 0, &raw mut errors);
            assert_eq!(code, INVALID_ARGUMENT);
        }
        Ok(())
    })
}

#[test]
fn each_field_has_its_own_result() -> Result<(), Error> {
    observed(test_name!(), TimeMode::Wall, no_tenant, || {
        let device = nvml_device()?;
        let expected = [
            (186, 0, (0, 1, 12_000)),
            (185, 0, (NOT_SUPPORTED, 9, 7)),
            (186, 2, (NOT_SUPPORTED, 9, 7)),
            (186, 3, (INVALID_ARGUMENT, 9, 7)),
            (184, 0, (0, 1, 0)),
            (187, 0, (0, 1, 70_000)),
            (190, 0, (0, 1, 70_000)),
            (230, 0, (0, 1, 0)),
            (74, 0, (0, 3, 0)),
            (76, 0, (NOT_SUPPORTED, 9, 7)),
            (271, 0, (0, 3, 0)),
            (0, 0, (INVALID_ARGUMENT, 9, 7)),
            (308, 0, (INVALID_ARGUMENT, 9, 7)),
        ];
        let mut values: Vec<FieldValue> = expected
            .iter()
            .map(|&(field_id, scope_id, _)| FieldValue {
                field_id,
                scope_id,
                value_type: 9,
                value: 7,
                ..FieldValue::default()
            })
            .collect();
        let array = values.as_mut_ptr();
        ok!(nvmlDeviceGetFieldValues(device, values.len() as i32, array))?;
        assert_eq!(call!(nvmlDeviceGetFieldValues(device, 0, array)), INVALID_ARGUMENT);
        assert_eq!(call!(nvmlDeviceGetFieldValues(device, 1, null_mut())), INVALID_ARGUMENT);
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        for (value, (field, scope, expected)) in values.iter().zip(expected) {
            let found = (value.result, value.value_type, value.value);
            assert_eq!(found, expected, "field {field}, scope {scope}");
            let age_us = since_1970.as_micros() as i64 - value.timestamp_us;
            assert!((0..10_000_000).contains(&age_us), "{age_us}");
        }
        Ok(())
    })
}
