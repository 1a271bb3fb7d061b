//! Power, energy, the power limit, and the temperature that follows from them.

use super::Error;
use super::history::Record;
use super::library::{catch_up, library};
use crate::code::refuse;
use crate::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;

/// Length of the average that newer chips report as their power (nvml.h,
/// `nvmlDeviceGetPowerUsage`).
const AVERAGE_NS: u64 = 1_000_000_000;
/// Temperature with no power drawn.
const AMBIENT_C: f64 = 30.0;
/// Rise at full power: a planted value of the right order; no document states one.
const RISE_AT_MAX_C: f64 = 50.0;
/// Picojoules in a millijoule.
const PJ_PER_MJ: u64 = 1_000_000_000;

/// The power as NVML reports it: the average, or what is drawn now on chips without one.
pub fn usage_mw(device: &Device) -> Result<u32, Error> {
    match average_mw(device)? {
        Some(power_mw) => Ok(power_mw),
        None => instant_mw(device),
    }
}

/// The limits of the power. They cannot be changed here: without a lowest limit in the machine
/// file, the current one is the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub least_mw: u32,
    pub current_mw: u32,
    pub default_mw: u32,
    pub most_mw: u32,
}

impl Limits {
    /// Those of a machine.
    pub fn of(machine: &Machine) -> Self {
        let milli = |watts: f64| (watts * 1000.0).round().max(0.0) as u32;
        let (cap_mw, max_mw) = (milli(machine.power.cap_w), milli(machine.power.max_w));
        let most_mw = max_mw.max(cap_mw);
        Self {
            least_mw: machine.power.min_w.map_or(cap_mw, milli),
            current_mw: cap_mw,
            default_mw: most_mw,
            most_mw,
        }
    }
}

pub fn instant_mw(device: &Device) -> Result<u32, Error> {
    catch_up(device)?;
    let power_mw = device.shared().read(|state| state.power_mw)?;
    Ok(u32::try_from(power_mw).unwrap_or(u32::MAX))
}

/// The power averaged over a second, on chips that give it: Ampere and newer, but not GA100. The
/// average reaches back no further than this program's first reading.
pub(super) fn average_mw(device: &Device) -> Result<Option<u32>, Error> {
    let capability = device.machine().compute_capability();
    if capability.0 < 8 || capability == (8, 0) {
        return Ok(None);
    }
    let latest_mw = instant_mw(device)?;
    let now = Record::read(device)?;
    let mut library = library()?;
    let first = library.history.before(now.at_ns.saturating_sub(AVERAGE_NS)).cloned();
    library.history.push(now.clone());
    Ok(Some(first.and_then(|first| mean_mw(&first, &now)).unwrap_or(latest_mw)))
}

/// Mean power between two records; none over no time. Picojoules a nanosecond are milliwatts.
fn mean_mw(first: &Record, last: &Record) -> Option<u32> {
    let energy_pj = last.energy_pj.checked_sub(first.energy_pj)?;
    let mean = energy_pj.checked_div(last.at_ns.checked_sub(first.at_ns)?)?;
    u32::try_from(mean).ok()
}

/// Energy used since the device was started.
pub fn energy_mj(device: &Device) -> Result<u64, Error> {
    catch_up(device)?;
    Ok(device.shared().read(|state| state.energy_pj / PJ_PER_MJ)?)
}

/// Temperature of the chip: ambient plus a rise in proportion to the power drawn now. The sink has
/// no heat capacity, so that the reading is a function of the state alone.
pub fn temperature_c(device: &Device, sensor: u32) -> Result<u32, Error> {
    // NVML_TEMPERATURE_GPU is the only sensor.
    refuse(sensor != 0, Error::InvalidArgument)?;
    let power_w = f64::from(instant_mw(device)?) / 1000.0;
    let share = power_w / device.machine().power.max_w.max(f64::MIN_POSITIVE);
    Ok((AMBIENT_C + RISE_AT_MAX_C * share).round().clamp(0.0, 200.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::mean_mw;
    use crate::nvml::history::Record;

    #[test]
    fn a_mean_needs_time_and_is_energy_over_it() {
        let at = |at_ns, energy_pj| Record { at_ns, energy_pj, processes: Vec::new() };
        assert_eq!(mean_mw(&at(0, 0), &at(1_000_000_000, 42_000_000_000_000)), Some(42_000));
        assert_eq!(mean_mw(&at(5, 7), &at(5, 7)), None);
        assert_eq!(mean_mw(&at(5, 9), &at(6, 7)), None);
    }
}
