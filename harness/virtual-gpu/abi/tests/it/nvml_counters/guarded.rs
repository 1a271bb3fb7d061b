//! Values that depend on permissions or on the machine's circumstances.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use std::ffi::CString;
use std::path::Path;

use gpubench_virtual_gpu_abi::nvml::calls::*;
use gpubench_virtual_gpu_abi::nvml::types::{
    ConfComputeMemSizeInfo, ConfComputeSettings, ConfComputeSystemCaps, EccSramErrorStatus,
    GetMemoryLimits, Memory, SetMemoryLimits, version_of,
};
use gpubench_virtual_gpu_driver::process;

use super::in_virtual_time;
use crate::nvml_support::mig::out;
use crate::nvml_support::{Error, alloc, as_user, context, no_tenant, nvml_device, quiet};

const INVALID: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NO_PERMISSION: i32 = 4;
const NOT_FOUND: i32 = 6;
const OPERATING_SYSTEM: i32 = 17;
const MISMATCH: i32 = 25;

#[test]
fn sram_errors_need_root_and_a_valid_version() -> Result<(), Error> {
    let test = test_name!("sram_errors_need_root_and_a_valid_version");
    as_user(test, "hopper", no_tenant, || {
        let device = nvml_device()?;
        let sram = |version| {
            let request = EccSramErrorStatus {
                version,
                ..EccSramErrorStatus::default()
            };
            // SAFETY: a valid structure.
            out(request, |to| unsafe {
                nvmlDeviceGetSramEccErrorStatus(device, to)
            })
            .err()
        };
        assert_eq!(
            sram(version_of::<EccSramErrorStatus>(1)),
            Some(NO_PERMISSION)
        );
        assert_eq!(sram(version_of::<EccSramErrorStatus>(2)), Some(MISMATCH));
        let request = ConfComputeSettings::default();
        // SAFETY: a valid structure.
        let settings = out(request, |to| unsafe {
            nvmlSystemGetConfComputeSettings(to)
        });
        assert_eq!(settings, Err(MISMATCH));
        Ok(())
    })
}

#[test]
fn all_memory_is_protected_while_confidential_computing_is_on() -> Result<(), Error> {
    let test = test_name!("all_memory_is_protected_while_confidential_computing_is_on");
    let mut machine = quiet("hopper")?;
    machine.circumstances.confidential_computing = true;
    in_virtual_time(test, &machine, |_| {
        let device = nvml_device()?;
        let error = |code: i32| format!("code {code}");
        let used = || {
            // SAFETY: a valid pointer.
            out(Memory::default(), |to| unsafe {
                nvmlDeviceGetConfComputeProtectedMemoryUsage(device, to)
            })
            .map_err(error)
        };
        let before = used()?;
        context()?;
        alloc(64 << 20)?;
        let after = used()?;
        assert_eq!(after.used - before.used, (512 + 64) << 20);
        assert_eq!((after.total, after.free + after.used), (80 << 30, 80 << 30));
        // SAFETY: valid pointers and structures.
        unsafe {
            let sizes = out(ConfComputeMemSizeInfo::default(), |to| {
                nvmlDeviceGetConfComputeMemSizeInfo(device, to)
            })
            .map_err(error)?;
            assert_eq!((sizes.protected_kib, sizes.unprotected_kib), (80 << 20, 0));
            let caps = out(ConfComputeSystemCaps::default(), |to| {
                nvmlSystemGetConfComputeCapabilities(to)
            })
            .map_err(error)?;
            assert_eq!((caps.cpu, caps.gpus), (3, 1));
            let request = ConfComputeSettings {
                version: version_of::<ConfComputeSettings>(1),
                ..ConfComputeSettings::default()
            };
            let found = out(request, |to| nvmlSystemGetConfComputeSettings(to)).map_err(error)?;
            assert_eq!((found.environment, found.feature), (2, 1));
        }
        Ok(())
    })
}

/// Reads the limits of a group.
fn limits(group: &Path) -> Result<(u64, u64, u64), i32> {
    let device = nvml_device().map_err(|_| -1)?;
    let group = c_text(group);
    let request = GetMemoryLimits {
        namespace: group.as_ptr(),
        soft_bytes: 9,
        hard_bytes: 9,
        used_bytes: 9,
    };
    // SAFETY: a valid structure, and a text that outlives the call.
    let found = out(request, |to| unsafe {
        nvmlDeviceGetMemoryLimits_v1(device, to)
    })?;
    Ok((found.soft_bytes, found.hard_bytes, found.used_bytes))
}

/// Sets the limits of a group.
fn limit(group: &Path, soft_bytes: u64, hard_bytes: u64) -> Result<(), i32> {
    let device = nvml_device().map_err(|_| -1)?;
    let group = c_text(group);
    let request = SetMemoryLimits {
        namespace: group.as_ptr(),
        soft_bytes,
        hard_bytes,
    };
    // SAFETY: a valid structure, and a text that outlives the call.
    out(request, |to| unsafe {
        nvmlDeviceSetMemoryLimits_v1(device, to)
    })
    .map(|_| ())
}

fn c_text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without nulls")
}

#[test]
fn the_call_limits_a_control_group_like_the_tool() -> Result<(), Error> {
    let test = test_name!("the_call_limits_a_control_group_like_the_tool");
    in_virtual_time(test, &quiet("hopper")?, |device| {
        let group = device.dir().join("cgroup").join("mine");
        assert_eq!(limits(&group), Err(OPERATING_SYSTEM), "no such group");
        std::fs::create_dir(&group)?;
        assert_eq!(limits(&group), Err(NOT_FOUND), "none set");
        let most = device.machine().memory.total_mib << 20;
        for (soft, hard) in [
            (2 << 30, 1 << 30),
            (0, most + 1),
            (0, 0),
            (most + 1, u64::MAX),
        ] {
            assert_eq!(limit(&group, soft, hard), Err(INVALID), "{soft} {hard}");
        }
        assert_eq!(limit(&group, 1 << 30, 4 << 30), Ok(()));
        assert_eq!(limits(&group), Ok((1 << 30, 4 << 30, 0)));
        std::fs::write(group.join("cgroup.procs"), std::process::id().to_string())?;
        context()?;
        let (_, _, of_context) = limits(&group).map_err(|code| format!("code {code}"))?;
        alloc(64 << 20)?;
        assert_eq!(
            limits(&group),
            Ok((1 << 30, 4 << 30, of_context + (64 << 20)))
        );
        assert!(alloc(4 << 30).is_err(), "over the limit");
        assert_eq!(limit(&group, 0, u64::MAX), Ok(()));
        assert_eq!(limits(&group), Err(NOT_FOUND), "cleared");
        alloc(4 << 30)?;
        Ok(())
    })
}

#[test]
fn setting_limits_needs_root() -> Result<(), Error> {
    let test = test_name!("setting_limits_needs_root");
    as_user(test, "hopper", no_tenant, || {
        let group = process::device()
            .map_err(|code| format!("{code:?}"))?
            .dir()
            .join("cgroup");
        assert_eq!(limit(&group, 0, 1 << 30), Err(NO_PERMISSION));
        Ok(())
    })
}

#[test]
fn older_drivers_have_no_group_limits() -> Result<(), Error> {
    let test = test_name!("older_drivers_have_no_group_limits");
    in_virtual_time(test, &quiet("turing")?, |device| {
        assert_eq!(limits(device.dir()), Err(NOT_SUPPORTED));
        assert_eq!(limit(device.dir(), 0, 1 << 30), Err(NOT_SUPPORTED));
        Ok(())
    })
}
