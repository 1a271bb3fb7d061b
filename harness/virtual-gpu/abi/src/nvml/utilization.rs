//! How busy the device is, as a whole and by process.
//!
//! The device's figures are those of the model's last full window. A process's figures cover the
//! time since the last call of the program, at least one window.

use std::ffi::c_uint;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::history::Record;
use super::library::{catch_up_with_the_living, library};
use super::returns::{self, Return};
use super::target::device;
use super::types::{
    ProcessUtilizationInfo, ProcessUtilizationSample, ProcessesUtilizationInfo, Utilization,
};
use super::{DeviceHandle, check_not_null, check_version, put, put_list, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_model::state::{FRACTION_BITS, PROCESSES};

figures! {
    fn nvmlDeviceGetUtilizationRates(device) -> Utilization {
        undivided(device)?;
        super::library::catch_up(device)?;
        Ok(device.shared().read(|state| Utilization {
            gpu: state.window.last_percent,
            memory: state.window.last_dram_percent,
        })?)
    }
}

entries! {
    fn nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization(
        handle: DeviceHandle, percent: *mut c_uint, period_us: *mut c_uint,
    ) {
        undivided(&*device(handle)?)?;
        check_not_null(percent)?;
        check_not_null(period_us)?;
        // No video engine has work here. An H100 80GB HBM3 measures over this period (driver
        // 580.159.04, 2026-11-22).
        put(percent, 0)?;
        put(period_us, 100_000)
    }

    fn nvmlDeviceGetProcessUtilization(
        handle: DeviceHandle, samples: *mut ProcessUtilizationSample, count: *mut c_uint,
        last_seen_us: u64,
    ) {
        let device = device(handle)?;
        check_not_null(count)?;
        if samples.is_null() {
            put(count, PROCESSES as c_uint)?;
            return Err(returns::INSUFFICIENT_SIZE);
        }
        put_list(&since(&device, last_seen_us)?, count, samples)
    }

    fn nvmlDeviceGetProcessesUtilizationInfo(
        handle: DeviceHandle, info: *mut ProcessesUtilizationInfo,
    ) {
        let device = device(handle)?;
        check_version(info, 1)?;
        let request = read(info)?;
        let count = &raw mut (*info).samples;
        if request.processes.is_null() {
            put(count, PROCESSES as c_uint)?;
            return Err(returns::INSUFFICIENT_SIZE);
        }
        put_list(&since(&device, request.last_seen_us)?, count, request.processes)
    }
}

impl From<ProcessUtilizationSample> for ProcessUtilizationInfo {
    fn from(sample: ProcessUtilizationSample) -> Self {
        Self {
            time_stamp_us: sample.time_stamp_us,
            pid: sample.pid,
            sm_util: sample.sm_util,
            mem_util: sample.mem_util,
            ..Self::default()
        }
    }
}

/// Microseconds as NVML stamps its samples: since 1970 in wall time, on the clock the model's own.
pub(super) fn stamp_us(device: &Device, at_ns: u64) -> u64 {
    if device.is_virtual_time() {
        return at_ns / 1000;
    }
    (unix_origin_ns(device) + at_ns) / 1000
}

/// The last instant of the model's clock that has that stamp.
fn instant_ns(device: &Device, stamp_us: u64) -> u64 {
    let last_ns = stamp_us.saturating_mul(1000).saturating_add(999);
    if device.is_virtual_time() {
        return last_ns;
    }
    last_ns.saturating_sub(unix_origin_ns(device))
}

/// Unix time at which the device's wall time began. Computed once, so that a stamp means the same
/// instant in every call, also after the host's clock was set.
fn unix_origin_ns(device: &Device) -> u64 {
    static ORIGIN_NS: OnceLock<u64> = OnceLock::new();
    *ORIGIN_NS.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        // A host clock before 1970 is answered with stamps that count from the device's start.
        let now_ns = since_1970.map_or(0, |time| time.as_nanos() as u64);
        now_ns.saturating_sub(device.session().wall_now_ns())
    })
}

/// Refuses while the device is divided: nvml.h has no utilisation then, not even of the whole
/// device.
pub(super) fn undivided(device: &Device) -> Result<(), Return> {
    if device.shared().read(|state| state.mig.current)? {
        Err(returns::NOT_SUPPORTED)
    } else {
        Ok(())
    }
}

/// One sample for each process that had the device since that stamp.
fn since(device: &Device, last_seen_us: u64) -> Result<Vec<ProcessUtilizationSample>, Return> {
    undivided(device)?;
    catch_up_with_the_living(device)?;
    let now = Record::read(device)?;
    let mut library = library()?;
    let last_seen_ns = instant_ns(device, last_seen_us);
    let first = library
        .history
        .before(last_seen_ns)
        .cloned()
        .ok_or(returns::NOT_FOUND)?;
    let window_ns = now.at_ns - first.at_ns.min(now.at_ns);
    if window_ns < device.machine().rules().utilisation_window_ns {
        return Err(returns::NOT_FOUND);
    }
    library.history.push(now.clone());
    drop(library);
    let mut found = Vec::new();
    let percent =
        |part: u128, whole: u128| ((part * 100 + whole / 2) / whole.max(1)).min(100) as u32;
    let window = u128::from(window_ns);
    for had in &now.processes {
        // A slot that was given to another process of the same number counts anew.
        let before = first.of(had.pid);
        let sm_util = percent(had.busy_ns.saturating_sub(before.busy_ns).into(), window);
        if sm_util == 0 {
            continue;
        }
        let dram = had.dram.saturating_sub(before.dram);
        found.push(ProcessUtilizationSample {
            pid: had.pid,
            time_stamp_us: stamp_us(device, now.at_ns),
            sm_util,
            mem_util: percent(dram, window << FRACTION_BITS),
            ..ProcessUtilizationSample::default()
        });
    }
    if found.is_empty() {
        Err(returns::NOT_FOUND)
    } else {
        Ok(found)
    }
}
