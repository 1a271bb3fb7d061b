//! Clocks, performance state, and why clocks are held back.
//!
//! The machine file sets the clocks and no call changes them, so the supported ones are the highest
//! and the application clock, if that is lower. Only the power cap slows the SMs down; the model
//! has no thermal slowdown and no power brake.

use std::ffi::c_uint;

use super::library::catch_up;
use super::returns::{self, Return};
use super::target::device;
use super::types::ViolationTime;
use super::utilization::stamp_us;
use super::{DeviceHandle, check_not_null, put, put_list};
use gpubench_virtual_gpu_driver::device::Device;
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
/// Every reason that an H100 80GB HBM3 supports (driver 580.159.04, 2026-11-22). Here the others
/// never hold: there is no sync boost, no thermal slowdown and no power brake.
const ALL_REASONS: u64 = 0x1ff;

entries! {
    fn nvmlDeviceGetClockInfo(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Now, mhz)
    }

    fn nvmlDeviceGetMaxClockInfo(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Max, mhz)
    }

    fn nvmlDeviceGetApplicationsClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Application, mhz)
    }

    fn nvmlDeviceGetDefaultApplicationsClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::Default, mhz)
    }

    fn nvmlDeviceGetMaxCustomerBoostClock(handle: DeviceHandle, kind: c_uint, mhz: *mut c_uint) {
        put_clock(handle, kind, Which::CustomerBoost, mhz)
    }

    fn nvmlDeviceGetClock(handle: DeviceHandle, kind: c_uint, id: c_uint, mhz: *mut c_uint) {
        match id {
            // NVML_CLOCK_ID_CURRENT, APP_CLOCK_TARGET and APP_CLOCK_DEFAULT.
            0 => put_clock(handle, kind, Which::Now, mhz),
            1 => put_clock(handle, kind, Which::Application, mhz),
            2 => put_clock(handle, kind, Which::Default, mhz),
            3 => put_clock(handle, kind, Which::CustomerBoost, mhz),
            _ => Err(returns::INVALID_ARGUMENT),
        }
    }

    fn nvmlDeviceGetViolationStatus(handle: DeviceHandle, policy: c_uint, to: *mut ViolationTime) {
        let device = device(handle)?;
        check_not_null(to)?;
        let violation_ns = held_ns(&device, policy)?;
        let at_ns = device.shared().read(|state| state.now_ns)?;
        put(to, ViolationTime { reference_us: stamp_us(&device, at_ns), violation_ns })
    }

    fn nvmlDeviceGetSupportedMemoryClocks(
        handle: DeviceHandle, count: *mut c_uint, mhz: *mut c_uint,
    ) {
        put_list(&[device(handle)?.machine().gpu.memory_clock_mhz], count, mhz)
    }

    fn nvmlDeviceGetSupportedGraphicsClocks(
        handle: DeviceHandle, memory_mhz: c_uint, count: *mut c_uint, mhz: *mut c_uint,
    ) {
        let device = device(handle)?;
        let machine = device.machine();
        if memory_mhz != machine.gpu.memory_clock_mhz {
            return Err(returns::NOT_FOUND);
        }
        let all = [machine.gpu.sm_clock_mhz, machine.sm_clock_mhz()];
        let differ = all[0] != all[1];
        put_list(&all[..1 + usize::from(differ)], count, mhz)
    }
}

figures! {
    fn nvmlDeviceGetPerformanceState(_) -> u32 {
        // NVML_PSTATE_0: the clocks never go down.
        Ok(0)
    }

    fn nvmlDeviceGetPowerState(_) -> u32 {
        Ok(0)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons,
        nvmlDeviceGetCurrentClocksThrottleReasons(device) -> u64 {
        reasons(device)
    }

    fn nvmlDeviceGetSupportedClocksEventReasons,
        nvmlDeviceGetSupportedClocksThrottleReasons(_) -> u64 {
        Ok(ALL_REASONS)
    }
}

/// Which clock of a kind is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The current clock.
    Now,
    /// The application clock.
    Application,
    /// The highest.
    Max,
    /// The highest, which is the default application clock.
    Default,
    /// The highest to which the vendor of the board lets it boost.
    CustomerBoost,
}

fn clock_mhz(machine: &Machine, kind: u32, which: Which) -> Result<u32, Return> {
    match kind {
        GRAPHICS | SM if matches!(which, Which::Now | Which::Application) => {
            Ok(machine.sm_clock_mhz())
        }
        GRAPHICS | SM => Ok(machine.gpu.sm_clock_mhz),
        // The memory has no boost clock, and video has no application clock.
        MEMORY if which == Which::CustomerBoost => Err(returns::NOT_SUPPORTED),
        MEMORY => Ok(machine.gpu.memory_clock_mhz),
        VIDEO if matches!(which, Which::Now | Which::Max) => {
            machine.gpu.video_clock_mhz.ok_or(returns::NOT_SUPPORTED)
        }
        VIDEO => Err(returns::NOT_SUPPORTED),
        _ => Err(returns::INVALID_ARGUMENT),
    }
}

/// Stores a clock.
unsafe fn put_clock(
    handle: DeviceHandle,
    kind: u32,
    which: Which,
    mhz: *mut c_uint,
) -> Result<(), Return> {
    let device = device(handle)?;
    check_not_null(mhz)?;
    let mut found = clock_mhz(device.machine(), kind, which)?;
    if which == Which::Now && matches!(kind, GRAPHICS | SM) {
        catch_up(&device)?;
        let clock = device.shared().read(|state| state.clock)?;
        found = (u64::from(found) * clock / ONE) as u32;
    }
    put(mhz, found)
}

/// Time during which the power cap held the clock down.
pub(super) fn capped_ns(device: &Device) -> Result<u64, Return> {
    catch_up(device)?;
    Ok(device.shared().read(|state| state.capped_ns)?)
}

/// How long a policy (`nvmlPerfPolicyType_t`) has held the clock down.
fn held_ns(device: &Device, policy: u32) -> Result<u64, Return> {
    match policy {
        // POWER, and TOTAL_APP_CLOCKS: held below the application clocks for any reason.
        0 | 10 => capped_ns(device),
        // THERMAL: no heat slows this device.
        1 => Ok(0),
        // SYNC_BOOST, BOARD_LIMIT, LOW_UTILIZATION, RELIABILITY, TOTAL_BASE_CLOCKS.
        2..=5 | 11 => Err(returns::NOT_SUPPORTED),
        _ => Err(returns::INVALID_ARGUMENT),
    }
}

fn reasons(device: &Device) -> Result<u64, Return> {
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
