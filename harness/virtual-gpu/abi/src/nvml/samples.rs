//! Samples of the recent past, which the driver keeps for programs that poll seldom.
//!
//! Utilisation is that of windows which follow one another, as `nvmlDeviceGetUtilizationRates` has
//! the last of them; power and clocks are read from their meters fifty times a second, power
//! without the average of `nvmlDeviceGetPowerUsage`. The machine has no video engines, and no power
//! meter of a module around it.

use std::ffi::c_uint;

use super::fields::UNSIGNED_INT;
use super::library::catch_up;
use super::returns::{self, Return};
use super::target::device;
use super::types::Sample;
use super::utilization::{stamp_us, undivided};
use super::{DeviceHandle, check_not_null, put, put_each, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::state::{ONE, Reading};

/// `nvmlSamplingType_t`.
const TOTAL_POWER: u32 = 0;
const GPU_UTILIZATION: u32 = 1;
const MEMORY_UTILIZATION: u32 = 2;
const PROCESSOR_CLOCK: u32 = 5;
const MEMORY_CLOCK: u32 = 6;
/// `NVML_SAMPLINGTYPE_COUNT`.
const TYPES: u32 = 10;

entries! {
    fn nvmlDeviceGetSamples(
        handle: DeviceHandle, kind: c_uint, last_seen_us: u64, value_type: *mut c_uint,
        count: *mut c_uint, samples: *mut Sample,
    ) {
        let device = device(handle)?;
        check_not_null(value_type)?;
        let room = read(count)? as usize;
        if !samples.is_null() && room == 0 {
            return Err(returns::INVALID_ARGUMENT);
        }
        let found = since(&device, kind, last_seen_us)?;
        let filled = if samples.is_null() { found.len() } else { found.len().min(room) };
        put(value_type, UNSIGNED_INT)?;
        put(count, filled as c_uint)?;
        if samples.is_null() {
            return Ok(());
        }
        // The oldest come first, so a caller that goes on from the last stamp misses none.
        put_each(&found[..filled], samples)
    }
}

/// What is kept of a kind and is newer than that stamp, the oldest first.
fn since(device: &Device, kind: u32, last_seen_us: u64) -> Result<Vec<Sample>, Return> {
    let found = match kind {
        TOTAL_POWER => readings(device, |reading| reading.power_mw),
        GPU_UTILIZATION | MEMORY_UTILIZATION => windows(device, kind),
        PROCESSOR_CLOCK => {
            let mhz = u64::from(device.machine().sm_clock_mhz());
            readings(device, |reading| mhz * reading.clock / ONE)
        }
        MEMORY_CLOCK => {
            let mhz = u64::from(device.machine().gpu.memory_clock_mhz);
            readings(device, |_| mhz)
        }
        // Encoder, decoder, module power, JPEG, optical flow.
        3 | 4 | 7..TYPES => Err(returns::NOT_SUPPORTED),
        _ => Err(returns::INVALID_ARGUMENT),
    }?;
    let stamped = found.into_iter().map(|(at_ns, value)| Sample {
        time_stamp_us: stamp_us(device, at_ns),
        value,
    });
    let newer: Vec<_> = stamped.filter(|s| s.time_stamp_us > last_seen_us).collect();
    if newer.is_empty() {
        return Err(returns::NOT_FOUND);
    }
    Ok(newer)
}

/// A figure of each reading of the meters, with its instant.
fn readings(device: &Device, figure: impl Fn(&Reading) -> u64) -> Result<Vec<(u64, u64)>, Return> {
    catch_up(device)?;
    Ok(device.shared().read(|state| {
        let readings = state.readings.iter();
        readings
            .map(|reading| (reading.at_ns, figure(reading)))
            .collect()
    })?)
}

/// The percentages of each full window, with its end. A divided device has none (nvml.h).
fn windows(device: &Device, kind: u32) -> Result<Vec<(u64, u64)>, Return> {
    undivided(device)?;
    catch_up(device)?;
    Ok(device.shared().read(|state| {
        let percents = state.windows.iter().map(|window| {
            let percent = match kind {
                GPU_UTILIZATION => window.percent,
                _ => window.dram_percent,
            };
            (window.at_ns, u64::from(percent))
        });
        percents.collect()
    })?)
}
