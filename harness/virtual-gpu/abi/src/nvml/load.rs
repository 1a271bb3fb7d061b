//! What the device does: clocks, power, temperature, utilisation, memory, processes, and the
//! figures that are asked for by number.

use std::ffi::{c_int, c_uint};

use super::returns::{self, Return};
use super::types::{
    Bar1Memory, FieldValue, Memory, MemoryV2, NO_INSTANCES, ProcessInfo, ProcessInfoV1,
    ProcessUtilizationSample, Temperature, Utilization,
};
use super::{DeviceHandle, check_not_null, check_version, put, put_list, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::nvml::clocks::{self, Which, clock_mhz};
use gpubench_virtual_gpu_driver::nvml::fields::{Figure, field};
use gpubench_virtual_gpu_driver::nvml::health::{self, errors};
use gpubench_virtual_gpu_driver::nvml::library::{device, target};
use gpubench_virtual_gpu_driver::nvml::memory::{MemoryUse, use_of, window_bytes};
use gpubench_virtual_gpu_driver::nvml::power::{self, Limits, temperature_c};
use gpubench_virtual_gpu_driver::nvml::processes::{Running, compute, mps_clients};
use gpubench_virtual_gpu_driver::nvml::utilization::{self, ProcessShare, SHARES};

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

    fn nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization(
        handle: DeviceHandle, percent: *mut c_uint, period_us: *mut c_uint,
    ) {
        let (used, over_us) = utilization::video(&*device(handle)?)?;
        check_not_null(percent)?;
        check_not_null(period_us)?;
        put(percent, used)?;
        put(period_us, over_us)
    }

    fn nvmlDeviceGetProcessUtilization(
        handle: DeviceHandle, samples: *mut ProcessUtilizationSample, count: *mut c_uint,
        last_seen_us: u64,
    ) {
        let device = device(handle)?;
        check_not_null(count)?;
        if samples.is_null() {
            put(count, SHARES as c_uint)?;
            return Err(returns::INSUFFICIENT_SIZE);
        }
        put_list(&utilization::since(&device, last_seen_us)?, count, samples)
    }

    fn nvmlDeviceGetMemoryInfo(handle: DeviceHandle, memory: *mut Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        put(memory, use_of(&device, target)?.into())
    }

    fn nvmlDeviceGetMemoryInfo_v2(handle: DeviceHandle, memory: *mut MemoryV2) {
        let (device, target) = target(handle)?;
        let version = check_version(memory, 2)?;
        let MemoryUse { total, reserved, free, used } = use_of(&device, target)?;
        put(memory, MemoryV2 { version, total, reserved, free, used })
    }

    fn nvmlDeviceGetBAR1MemoryInfo(handle: DeviceHandle, memory: *mut Bar1Memory) {
        let (device, target) = target(handle)?;
        check_not_null(memory)?;
        let total = window_bytes(&device, target)?;
        put(memory, Bar1Memory { total, free: total, used: 0 })
    }

    fn nvmlDeviceGetEccMode(handle: DeviceHandle, current: *mut c_uint, pending: *mut c_uint) {
        let device = device(handle)?;
        check_not_null(current)?;
        check_not_null(pending)?;
        health::has_ecc(&device)?;
        put(current, 1)?;
        put(pending, 1)
    }

    fn nvmlDeviceGetTotalEccErrors(
        handle: DeviceHandle, error: c_uint, counter: c_uint, count: *mut u64,
    ) {
        check_not_null(count)?;
        let (device, target) = target(handle)?;
        put(count, errors(&device, target, error, counter)?)
    }

    fn nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        let (device, target) = target(handle)?;
        put_list(&compute(&device, target)?, count, infos)
    }

    // The first form has no instances.
    fn nvmlDeviceGetComputeRunningProcesses(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfoV1,
    ) {
        let (device, target) = target(handle)?;
        put_list(&compute(&device, target)?, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfoV1,
    ) {
        target(handle)?;
        put_list(&NO_PROCESS, count, infos)
    }

    fn nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        target(handle)?;
        put_list(&NO_PROCESS, count, infos)
    }

    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        handle: DeviceHandle, count: *mut c_uint, infos: *mut ProcessInfo,
    ) {
        let (device, target) = target(handle)?;
        put_list(&mps_clients(&device, target)?, count, infos)
    }

    fn nvmlDeviceGetFieldValues(handle: DeviceHandle, count: c_int, values: *mut FieldValue) {
        let device = device(handle)?;
        check_not_null(values)?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0);
        for index in 0..count.ok_or(returns::INVALID_ARGUMENT)? {
            let field = values.add(index);
            put(field, evaluate(&device, read(field)?)?)?;
        }
        Ok(())
    }
}

figures! {
    fn nvmlDeviceGetPerformanceState(_) -> u32 {
        // NVML_PSTATE_0: the clocks never go down.
        Ok(0)
    }

    fn nvmlDeviceGetCurrentClocksEventReasons,
        nvmlDeviceGetCurrentClocksThrottleReasons(device) -> u64 {
        Ok(clocks::reasons(device)?)
    }

    fn nvmlDeviceGetPowerUsage(device) -> u32 { Ok(power::usage_mw(device)?) }
    fn nvmlDeviceGetTotalEnergyConsumption(device) -> u64 { Ok(power::energy_mj(device)?) }
    fn nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetEnforcedPowerLimit(device) -> u32 {
        Ok(Limits::of(device.machine()).current_mw)
    }

    fn nvmlDeviceGetUtilizationRates(device) -> Utilization {
        let (gpu, memory) = utilization::rates(device)?;
        Ok(Utilization { gpu, memory })
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
    put(mhz, clock_mhz(&device, kind, which)?)
}

impl From<ProcessShare> for ProcessUtilizationSample {
    fn from(share: ProcessShare) -> Self {
        Self {
            time_stamp_us: share.stamp_us,
            pid: share.pid,
            sm_util: share.sm_percent,
            mem_util: share.dram_percent,
            ..Self::default()
        }
    }
}

impl From<MemoryUse> for Memory {
    /// In this form, memory that the driver reserves counts as used.
    fn from(MemoryUse { total, free, .. }: MemoryUse) -> Self {
        Self { total, free, used: total - free }
    }
}

impl From<Running> for ProcessInfoV1 {
    fn from(Running { pid, bytes: used_gpu_memory, .. }: Running) -> Self {
        Self { pid, used_gpu_memory }
    }
}

impl From<Running> for ProcessInfo {
    fn from(running: Running) -> Self {
        let (gpu_instance_id, compute_instance_id) = running.instance.unwrap_or(NO_INSTANCES);
        Self {
            pid: running.pid,
            used_gpu_memory: running.bytes,
            gpu_instance_id,
            compute_instance_id,
        }
    }
}

/// The graphics processes, which this device never has.
const NO_PROCESS: [Running; 0] = [];

/// `nvmlValueType_t`.
pub(super) const UNSIGNED_INT: u32 = 1;
const UNSIGNED_LONG_LONG: u32 = 3;

fn evaluate(device: &Device, request: FieldValue) -> Result<FieldValue, Return> {
    let (figure, stamp_us) = field(device, request.field_id, request.scope_id)?;
    let (value_type, value, result) = match figure {
        Ok(Figure::Int(value)) => (UNSIGNED_INT, u64::from(value), 0),
        Ok(Figure::Long(value)) => (UNSIGNED_LONG_LONG, value, 0),
        Err(error) => (request.value_type, request.value, Return::from(error).0),
    };
    Ok(FieldValue {
        timestamp_us: stamp_us as i64,
        latency_us: 0,
        value_type,
        result,
        value,
        ..request
    })
}
