//! The counters that telemetry records. A counter that the device does not have has no reading.

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use super::nvml::Nvml;

/// The metric of the reasons for reduced clocks, as a bit mask.
pub const THROTTLE_REASONS: &str = "throttle_reasons";

/// One reading of one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub metric: &'static str,
    pub value: f64,
    pub unit: &'static str,
}

impl Nvml {
    /// The clock of the SMs now; `None` where NVML does not report it.
    #[must_use]
    pub fn sm_clock_mhz(&self) -> Option<f64> {
        let device = self.device().ok()?;
        device.clock_info(Clock::SM).ok().map(f64::from)
    }

    /// The temperature of the GPU now; `None` where NVML does not report it.
    #[must_use]
    pub fn temperature_c(&self) -> Option<f64> {
        let device = self.device().ok()?;
        let temperature = device.temperature(TemperatureSensor::Gpu);
        temperature.ok().map(f64::from)
    }

    /// One reading of every counter that the device has.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        let mut out = Vec::new();
        let Ok(device) = self.device() else {
            return out;
        };
        let mut push = |metric, value: Option<f64>, unit| {
            out.extend(value.map(|value| Reading { metric, value, unit }));
        };
        let number = |value: Result<u32, NvmlError>| value.ok().map(f64::from);
        push("power", number(device.power_usage()), "mW");
        let energy = device.total_energy_consumption().ok().map(|mj| mj as f64);
        push("energy", energy, "mJ");
        push("sm_clock", number(device.clock_info(Clock::SM)), "MHz");
        push("memory_clock", number(device.clock_info(Clock::Memory)), "MHz");
        push("temperature", self.temperature_c(), "C");
        let utilisation = device.utilization_rates().ok();
        push("gpu_utilisation", utilisation.as_ref().map(|u| f64::from(u.gpu)), "percent");
        push("memory_utilisation", utilisation.map(|u| f64::from(u.memory)), "percent");
        push("memory_used", device.memory_info().ok().map(|m| m.used as f64), "bytes");
        push(THROTTLE_REASONS, self.throttle_reasons().ok().map(|bits| bits as f64), "bits");
        let processes = self.compute_pids().ok().map(|pids| pids.len() as f64);
        push("compute_processes", processes, "count");
        out
    }
}
