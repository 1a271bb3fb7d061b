//! Field values: figures by number.

use super::Error;
use super::clocks::capped_ns;
use super::health::{CORRECTED, UNCORRECTED, errors_found, has_ecc, remapped};
use super::history::stamp_us;
use super::link::moved;
use super::power::{Limits, average_mw, energy_mj, instant_mw};
use crate::device::Device;
use crate::planted::answer;
use gpubench_virtual_gpu_model::machine::Mig;
use gpubench_virtual_gpu_model::simulation::fault::was_fatal;

/// One more than the largest number in nvml.h 13.4 and in 13.0 (`NVML_FI_MAX`); what is beyond it,
/// an H100 80GB HBM3 refused (driver 580.159.04, 2026-11-22).
const FIELDS: u32 = 308;
const FIELDS_BEFORE: u32 = 274;
/// `NVML_POWER_SCOPE_GPU`: the other scopes are modules and memories.
const SCOPE_GPU: u32 = 0;

/// A figure of one of the types that occur.
#[derive(Debug, Clone, Copy)]
pub enum Figure {
    Int(u32),
    Long(u64),
}

/// The figure of that number, and when it was read, in microseconds.
pub fn field(
    device: &Device,
    field: u32,
    scope: u32,
) -> Result<(Result<Figure, Error>, u64), Error> {
    let figure = match answer(&format!("field {field}")).and_then(|planted| planted.value) {
        Some(value) => Ok(Figure::Long(value)),
        None => figure_of(device, field, scope),
    };
    let at_ns = device.shared().read(|state| state.now_ns)?;
    Ok((figure, stamp_us(device, at_ns)))
}

/// The recovery action that the machine plants, after a fatal fault.
fn recovery_action(device: &Device) -> Result<u32, Error> {
    let planted = device.machine().defects.fault_recovery_action;
    if planted == 0 {
        return Ok(0);
    }
    let fatal = device.shared().read(was_fatal)?;
    Ok(if fatal { planted } else { 0 })
}

/// The figure of that number, as nvml.h numbers them (`NVML_FI_DEV_...`).
fn figure_of(device: &Device, field: u32, scope: u32) -> Result<Figure, Error> {
    let limits = Limits::of(device.machine());
    let is_power = matches!(field, 185..=190 | 192);
    if is_power && scope != SCOPE_GPU {
        return Err(if scope <= 2 { Error::NotSupported } else { Error::InvalidArgument });
    }
    let known = if device.machine().is_after_cuda_13_0() { FIELDS } else { FIELDS_BEFORE };
    match field {
        // ECC_CURRENT and ECC_PENDING, which no call changes.
        1 | 2 => has_ecc(device).map(|()| Figure::Long(1)),
        // ECC_SBE_VOL_TOTAL, ECC_DBE_VOL_TOTAL, ECC_SBE_AGG_TOTAL, ECC_DBE_AGG_TOTAL: errors of a
        // single bit are corrected.
        3 | 5 => errors_found(device, CORRECTED).map(Figure::Long),
        4 | 6 => errors_found(device, UNCORRECTED).map(Figure::Long),
        // PERF_POLICY_POWER and PERF_POLICY_TOTAL_APP_CLOCKS: only the cap holds clocks down.
        74 | 80 => capped_ns(device).map(Figure::Long),
        // PERF_POLICY_THERMAL; SW_THERM_SLOWDOWN, HW_THERM_SLOWDOWN, HW_POWER_BRAKE_SLOWDOWN: no
        // heat slows this device, and it has no brake.
        75 | 269..=271 => Ok(Figure::Long(0)),
        // TOTAL_ENERGY_CONSUMPTION and ENERGY.
        83 | 191 => energy_mj(device).map(Figure::Long),
        // REMAPPED_COR, REMAPPED_UNC, REMAPPED_PENDING, REMAPPED_FAILURE.
        142..=145 => {
            let rows = remapped(device)?[field as usize - 142];
            Ok(Figure::Long(rows.into()))
        }
        // PCIE_REPLAY_COUNTER and PCIE_REPLAY_ROLLOVER_COUNTER: the link loses nothing.
        94 | 95 => Ok(Figure::Int(0)),
        // IS_RESETLESS_MIG_SUPPORTED.
        184 => {
            let resetless = |mig: &Mig| u32::from(mig.resetless);
            Ok(Figure::Int(device.machine().mig.as_ref().map_or(0, resetless)))
        }
        // POWER_AVERAGE.
        185 => average_mw(device)?.map(Figure::Int).ok_or(Error::NotSupported),
        // POWER_INSTANT.
        186 => instant_mw(device).map(Figure::Int),
        // POWER_MIN_LIMIT, POWER_MAX_LIMIT, POWER_DEFAULT_LIMIT.
        187 => Ok(Figure::Int(limits.least_mw)),
        188 => Ok(Figure::Int(limits.most_mw)),
        189 => Ok(Figure::Int(limits.default_mw)),
        // POWER_CURRENT_LIMIT and POWER_REQUESTED_LIMIT.
        190 | 192 => Ok(Figure::Int(limits.current_mw)),
        // IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE: profiles can be queried while the mode is off.
        199 => Ok(Figure::Int(u32::from(device.machine().mig.is_some()))),
        // PCIE_COUNT_TX_BYTES and PCIE_COUNT_RX_BYTES, as the device sends and receives: counters
        // of 32 bits, which begin again.
        197 => Ok(Figure::Int(moved(device, 1)?.1 as u32)),
        198 => Ok(Figure::Int(moved(device, 0)?.1 as u32)),
        // GET_GPU_RECOVERY_ACTION: no fault outlasts its context, unless the machine plants that.
        230 => recovery_action(device).map(Figure::Int),
        1.. if field < known => Err(Error::NotSupported),
        _ => Err(Error::InvalidArgument),
    }
}
