//! How busy the device is, as a whole and by process. A divided device reports neither (nvml.h).
//!
//! The device's figures are those of the model's last full window. A process's figures cover the
//! time since the last call of the program, at least one window.

use super::Error;
use super::history::{Record, instant_ns, stamp_us};
use super::library::{catch_up, catch_up_with_the_living, library};
use super::mig::check_undivided;
use crate::code::refuse;
use crate::device::Device;
use gpubench_virtual_gpu_model::state::{FRACTION_BITS, PROCESSES};

/// The largest number of processes in one answer.
pub const SHARES: usize = PROCESSES;

/// What a process had of the device.
#[derive(Debug, Clone, Copy)]
pub struct ProcessShare {
    pub pid: u32,
    pub stamp_us: u64,
    pub sm_percent: u32,
    pub dram_percent: u32,
}

/// Percentages of the last window in which the SMs and the DRAM were busy.
pub fn rates(device: &Device) -> Result<(u32, u32), Error> {
    check_undivided(device)?;
    catch_up(device)?;
    let window = device.shared().read(|state| state.window)?;
    Ok((window.last_percent, window.last_dram_percent))
}

/// Percentage and period of the video engines. None has work here; an H100 80GB HBM3 measures over
/// this period (driver 580.159.04, 2026-11-22).
pub fn video(device: &Device) -> Result<(u32, u32), Error> {
    check_undivided(device)?;
    Ok((0, 100_000))
}

/// One sample for each process that had the device since that stamp.
pub fn since(device: &Device, last_seen_us: u64) -> Result<Vec<ProcessShare>, Error> {
    check_undivided(device)?;
    catch_up_with_the_living(device)?;
    let now = Record::read(device)?;
    let mut library = library()?;
    let last_seen_ns = instant_ns(device, last_seen_us);
    let first = library.history.before(last_seen_ns).cloned().ok_or(Error::NotFound)?;
    let window_ns = now.at_ns - first.at_ns.min(now.at_ns);
    refuse(window_ns < device.machine().rules().utilisation_window_ns, Error::NotFound)?;
    library.history.push(now.clone());
    drop(library);
    let mut found = Vec::new();
    let percent =
        |part: u128, whole: u128| ((part * 100 + whole / 2) / whole.max(1)).min(100) as u32;
    let window = u128::from(window_ns);
    for had in &now.processes {
        // A slot that was given to another process of the same number counts anew.
        let before = first.of(had.pid);
        let sm_percent = percent(had.busy_ns.saturating_sub(before.busy_ns).into(), window);
        if sm_percent == 0 {
            continue;
        }
        let dram = had.dram.saturating_sub(before.dram);
        // The first process on the device is misreported, where that is planted.
        let error = 1.0 + device.machine().defects.nvml_share_error;
        let factor = if found.is_empty() { error } else { 1.0 };
        let sm_percent = (f64::from(sm_percent) * factor).round().min(100.0) as u32;
        found.push(ProcessShare {
            pid: had.pid,
            stamp_us: stamp_us(device, now.at_ns),
            sm_percent,
            dram_percent: percent(dram, window << FRACTION_BITS),
        });
    }
    if found.is_empty() { Err(Error::NotFound) } else { Ok(found) }
}
