//! Figures that depend on who asks, or on what stands around the machine.
#![expect(unsafe_code, reason = "the interface under test is a C interface")]

use gpubench_virtual_gpu::abi::nvml::calls::*;
use gpubench_virtual_gpu::abi::nvml::types::{
    ConfComputeMemSizeInfo, ConfComputeSettings, ConfComputeSystemCaps, EccSramErrorStatus, Memory,
    version_of,
};

use crate::alone;
use crate::nvml_support::mig::out;
use crate::nvml_support::{Error, alloc, as_user, context, nobody, nvml_device, quiet};

const NO_PERMISSION: i32 = 4;
const MISMATCH: i32 = 25;

#[test]
fn errors_of_sram_are_for_root_and_versions_are_checked() -> Result<(), Error> {
    let test = "guarded::errors_of_sram_are_for_root_and_versions_are_checked";
    as_user(test, "hopper", nobody, || {
        let device = nvml_device()?;
        let sram = |version| {
            let asked = EccSramErrorStatus {
                version,
                ..EccSramErrorStatus::default()
            };
            // SAFETY: a valid structure.
            out(asked, |to| unsafe {
                nvmlDeviceGetSramEccErrorStatus(device, to)
            })
            .err()
        };
        assert_eq!(
            sram(version_of::<EccSramErrorStatus>(1)),
            Some(NO_PERMISSION)
        );
        assert_eq!(sram(version_of::<EccSramErrorStatus>(2)), Some(MISMATCH));
        let asked = ConfComputeSettings::default();
        // SAFETY: a valid structure.
        let settings = out(asked, |to| unsafe { nvmlSystemGetConfComputeSettings(to) });
        assert_eq!(settings, Err(MISMATCH));
        Ok(())
    })
}

#[test]
fn all_memory_is_protected_while_confidential_computing_is_on() -> Result<(), Error> {
    let test = "guarded::all_memory_is_protected_while_confidential_computing_is_on";
    let mut machine = quiet("hopper")?;
    machine.circumstances.confidential_computing = true;
    alone(test, &machine, |_| {
        let device = nvml_device()?;
        let told = |code: i32| format!("code {code}");
        let used = || {
            // SAFETY: a valid place.
            out(Memory::default(), |to| unsafe {
                nvmlDeviceGetConfComputeProtectedMemoryUsage(device, to)
            })
            .map_err(told)
        };
        let before = used()?;
        context()?;
        alloc(64 << 20)?;
        let after = used()?;
        assert_eq!(after.used - before.used, (512 + 64) << 20);
        assert_eq!((after.total, after.free + after.used), (80 << 30, 80 << 30));
        // SAFETY: valid places and structures.
        unsafe {
            let sizes = out(ConfComputeMemSizeInfo::default(), |to| {
                nvmlDeviceGetConfComputeMemSizeInfo(device, to)
            })
            .map_err(told)?;
            assert_eq!((sizes.protected_kib, sizes.unprotected_kib), (80 << 20, 0));
            let caps = out(ConfComputeSystemCaps::default(), |to| {
                nvmlSystemGetConfComputeCapabilities(to)
            })
            .map_err(told)?;
            assert_eq!((caps.cpu, caps.gpus), (3, 1));
            let asked = ConfComputeSettings {
                version: version_of::<ConfComputeSettings>(1),
                ..ConfComputeSettings::default()
            };
            let found = out(asked, |to| nvmlSystemGetConfComputeSettings(to)).map_err(told)?;
            assert_eq!((found.environment, found.feature), (2, 1));
        }
        Ok(())
    })
}
