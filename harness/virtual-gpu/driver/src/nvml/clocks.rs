//! Clocks, and why they are held back.
//!
//! The machine file sets the clocks and no call changes them. Only the power cap slows the SMs
//! down; the model has no thermal slowdown and no power brake.

use super::Error;
use super::library::catch_up;
use crate::device::Device;
use gpubench_virtual_gpu_model::machine::Machine;
use gpubench_virtual_gpu_model::state::{GpuInstance, NONE, ONE};

/// `nvmlClockType_t`.
const GRAPHICS: u32 = 0;
const SM: u32 = 1;
const MEMORY: u32 = 2;
const VIDEO: u32 = 3;

/// `nvmlClocksEventReasonGpuIdle`: nothing runs.
const REASON_IDLE: u64 = 1;
/// `nvmlClocksEventReasonApplicationsClocksSetting`: the application clocks are set lower.
const REASON_SET: u64 = 2;
/// `nvmlClocksEventReasonSwPowerCap`: the power cap holds the clock down.
const REASON_SW_POWER_CAP: u64 = 4;
/// Which clock of a kind is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The current clock.
    Now,
    /// The application clock.
    Application,
    /// The highest.
    Max,
    /// The highest, which is the default application clock.
    Default,
}

/// A clock. The SMs have theirs now as the power cap leaves it.
pub fn clock_mhz(device: &Device, kind: u32, which: Which) -> Result<u32, Error> {
    let set_mhz = set_mhz(device.machine(), kind, which)?;
    if which != Which::Now || !matches!(kind, GRAPHICS | SM) {
        return Ok(set_mhz);
    }
    catch_up(device)?;
    let clock = device.shared().read(|state| state.clock)?;
    Ok((u64::from(set_mhz) * clock / ONE) as u32)
}

/// A clock as the machine file sets it.
fn set_mhz(machine: &Machine, kind: u32, which: Which) -> Result<u32, Error> {
    match kind {
        GRAPHICS | SM if matches!(which, Which::Now | Which::Application) => {
            Ok(machine.sm_clock_mhz())
        }
        GRAPHICS | SM => Ok(machine.gpu.sm_clock_mhz),
        MEMORY => Ok(machine.gpu.memory_clock_mhz),
        VIDEO if matches!(which, Which::Now | Which::Max) => {
            machine.gpu.video_clock_mhz.ok_or(Error::NotSupported)
        }
        // Video has no application clock.
        VIDEO => Err(Error::NotSupported),
        _ => Err(Error::InvalidArgument),
    }
}

/// Time during which the power cap held the clock down.
pub(super) fn capped_ns(device: &Device) -> Result<u64, Error> {
    catch_up(device)?;
    Ok(device.shared().read(|state| state.capped_ns)?)
}

/// The reasons for which clocks are held back now.
pub fn reasons(device: &Device) -> Result<u64, Error> {
    catch_up(device)?;
    let (busy, capped) = device.shared().read(|state| {
        let kernels = state.engines.live().iter().any(|engine| engine.running);
        let copies = |instance: &GpuInstance| instance.copies.iter().any(|c| c.stream != NONE);
        let copying = state.instances.live().iter().any(copies);
        (kernels || copying, kernels && state.clock < ONE)
    })?;
    let machine = device.machine();
    let set = machine.sm_clock_mhz() < machine.gpu.sm_clock_mhz;
    Ok(match (busy, capped) {
        (false, _) => REASON_IDLE,
        (true, true) => REASON_SW_POWER_CAP,
        (true, false) if set => REASON_SET,
        (true, false) => 0,
    })
}
