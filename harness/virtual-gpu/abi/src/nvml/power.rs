//! Power, energy, the power limit, and the temperature that follows from them.

use std::ffi::c_uint;

use super::types::Temperature;
use super::{DeviceHandle, check_not_null, check_version, put, read};
use gpubench_virtual_gpu_driver::nvml::power::{self, Limits, temperature_c};
use gpubench_virtual_gpu_driver::nvml::target::device;

figures! {
    fn nvmlDeviceGetPowerUsage(device) -> u32 {
        Ok(power::usage_mw(device)?)
    }

    fn nvmlDeviceGetTotalEnergyConsumption(device) -> u64 {
        Ok(power::energy_mj(device)?)
    }

    fn nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetEnforcedPowerLimit(device) -> u32 {
        Ok(Limits::of(device.machine()).current_mw)
    }
}

entries! {
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
