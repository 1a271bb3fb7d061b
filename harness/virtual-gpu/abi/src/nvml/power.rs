//! Power, energy, the power limit, and the temperature that follows from them.

use std::ffi::c_uint;

use super::returns;
use super::types::Temperature;
use super::{DeviceHandle, check_not_null, check_version, put, read};
use gpubench_virtual_gpu_driver::nvml::library::privileged;
use gpubench_virtual_gpu_driver::nvml::power::{self, Limits, temperature_c};
use gpubench_virtual_gpu_driver::nvml::target::device;

figures! {
    fn nvmlDeviceGetPowerUsage(device) -> u32 {
        Ok(power::usage_mw(device)?)
    }

    fn nvmlDeviceGetTotalEnergyConsumption(device) -> u64 {
        Ok(power::energy_mj(device)?)
    }

    fn nvmlDeviceGetPowerManagementMode(_) -> u32 {
        Ok(1)
    }

    fn nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetEnforcedPowerLimit(device) -> u32 {
        Ok(Limits::of(device.machine()).current_mw)
    }

    fn nvmlDeviceGetPowerManagementDefaultLimit(device) -> u32 {
        Ok(Limits::of(device.machine()).default_mw)
    }

    fn nvmlDeviceGetNumFans(_) -> u32 {
        // As on server boards, which have no fans of their own.
        Ok(0)
    }

    fn nvmlDeviceGetPowerSource(_) -> u32 {
        // NVML_POWER_SOURCE_AC.
        Ok(0)
    }
}

entries! {
    fn nvmlDeviceGetPowerManagementLimitConstraints(
        handle: DeviceHandle, least_mw: *mut c_uint, most_mw: *mut c_uint,
    ) {
        let limits = Limits::of(device(handle)?.machine());
        check_not_null(least_mw)?;
        check_not_null(most_mw)?;
        put(least_mw, limits.least_mw)?;
        put(most_mw, limits.most_mw)
    }

    fn nvmlDeviceSetPowerManagementLimit(handle: DeviceHandle, _limit_mw: c_uint) {
        let device = device(handle)?;
        privileged(&device)?;
        // The cap is the machine file's.
        Err(returns::NOT_SUPPORTED)
    }

    fn nvmlDeviceGetTemperature(handle: DeviceHandle, sensor: c_uint, celsius: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(celsius)?;
        put(celsius, temperature_c(&device, sensor)?)
    }

    fn nvmlDeviceGetTemperatureV(handle: DeviceHandle, temperature: *mut Temperature) {
        let device = device(handle)?;
        check_version(temperature, 1)?;
        let request = read(temperature)?;
        let found = temperature_c(&device, request.sensor)?;
        let answer = Temperature { temperature: i32::try_from(found).unwrap_or(0), ..request };
        put(temperature, answer)
    }
}
