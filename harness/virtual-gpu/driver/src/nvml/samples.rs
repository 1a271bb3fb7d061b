//! Samples of the recent past, which the driver keeps for programs that poll seldom.
//!
//! Utilisation is that of windows which follow one another; power and clocks are read from their
//! meters fifty times a second, power without an average. The machine has no video engines, and no
//! power meter of a module around it.

use super::Error;
use super::library::catch_up;
use super::mig::check_undivided;
use super::timestamp::stamp_us;
use crate::device::Device;
use gpubench_virtual_gpu_model::state::{ONE, Reading};

/// `nvmlSamplingType_t`.
const TOTAL_POWER: u32 = 0;
const GPU_UTILIZATION: u32 = 1;
const MEMORY_UTILIZATION: u32 = 2;
const PROCESSOR_CLOCK: u32 = 5;
const MEMORY_CLOCK: u32 = 6;
/// `NVML_SAMPLINGTYPE_COUNT`.
const TYPES: u32 = 10;

/// A figure of the past.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub stamp_us: u64,
    pub value: u64,
}

/// What is kept of a kind and is newer than that stamp, the oldest first.
pub fn since(device: &Device, kind: u32, last_seen_us: u64) -> Result<Vec<Sample>, Error> {
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
        3 | 4 | 7..TYPES => Err(Error::NotSupported),
        _ => Err(Error::InvalidArgument),
    }?;
    let stamped = found.into_iter().map(|(at_ns, value)| Sample {
        stamp_us: stamp_us(device, at_ns),
        value,
    });
    let newer: Vec<_> = stamped.filter(|s| s.stamp_us > last_seen_us).collect();
    if newer.is_empty() {
        return Err(Error::NotFound);
    }
    Ok(newer)
}

/// A figure of each reading of the meters, with its instant.
fn readings(device: &Device, figure: impl Fn(&Reading) -> u64) -> Result<Vec<(u64, u64)>, Error> {
    catch_up(device)?;
    Ok(device.shared().read(|state| {
        let readings = state.readings.iter();
        readings
            .map(|reading| (reading.at_ns, figure(reading)))
            .collect()
    })?)
}

/// The percentages of each full window, with its end. A divided device has none (nvml.h).
fn windows(device: &Device, kind: u32) -> Result<Vec<(u64, u64)>, Error> {
    check_undivided(device)?;
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
