//! GPM, the performance monitor of Hopper and newer: counters between two samples.
//!
//! Figures are relative to what the sample was taken of: the device, a GPU instance, or the compute
//! instance behind a MIG device. Units of the chip that the interpreter cannot use read 0: a module
//! whose PTX uses them is refused when it is loaded. Metrics that the model does not have are not
//! supported.

use std::ffi::{CStr, c_char, c_uint};
use std::mem::offset_of;
use std::ptr::null;

use super::library::{catch_up, library};
use super::link::moved_by;
use super::objects::Sample;
use super::returns::{self, Return};
use super::target::{Target, device, target};
use super::{DeviceHandle, check_not_null, put, read};
use gpubench_virtual_gpu_driver::device::Device;
use gpubench_virtual_gpu_driver::handles::Handle;
use gpubench_virtual_gpu_driver::shm::QueueView;
use gpubench_virtual_gpu_model::mig;
use gpubench_virtual_gpu_model::state::{ONE, Resource, State, Usage};

/// First major compute capability with the monitor (nvml.h).
const SINCE: u32 = 9;
/// `NVML_GPM_SUPPORT_VERSION` and `NVML_GPM_METRICS_GET_VERSION`.
const VERSION: u32 = 1;
/// `NVML_GPM_METRIC_MAX` of nvml.h 13.4.
pub const METRICS: usize = 477;
/// Refresh interval of the counters (nvml.h); over a shorter time they carry no information.
const REFRESH_NS: u64 = 100_000_000;
const MIB: f64 = (1 << 20) as f64;

/// `nvmlGpmSupport_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct GpmSupport {
    pub version: u32,
    pub is_supported: u32,
}

/// `nvmlGpmMetric_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GpmMetric {
    pub metric_id: u32,
    pub result: i32,
    pub value: f64,
    pub short_name: *const c_char,
    pub long_name: *const c_char,
    pub unit: *const c_char,
}

/// `nvmlGpmMetricsGet_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GpmMetricsGet {
    pub version: u32,
    pub count: u32,
    pub first: Handle,
    pub second: Handle,
    pub metrics: [GpmMetric; METRICS],
}

entries! {
    fn nvmlGpmQueryDeviceSupport(handle: DeviceHandle, support: *mut GpmSupport) {
        let (device, _) = target(handle)?;
        let request = read(support)?;
        if request.version != VERSION {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        let is_supported = u32::from(is_supported(&device));
        put(support, GpmSupport { is_supported, ..request })
    }

    fn nvmlGpmSampleAlloc(sample: *mut Handle) {
        let mut library = library()?;
        check_not_null(sample)?;
        let handle = library.samples.insert(None)?;
        put(sample, handle)
    }

    fn nvmlGpmSampleFree(sample: Handle) {
        library()?.samples.remove(sample).map(drop)
    }

    fn nvmlGpmSampleGet(handle: DeviceHandle, sample: Handle) {
        let (device, target) = target(handle)?;
        keep(&device, sample, |state, side| match target {
            Target::Whole => Some(of_the_device(state, side, &device)),
            Target::Engine(row) => Some(of_an_engine(state, side, row)),
        })
    }

    fn nvmlGpmMigSampleGet(handle: DeviceHandle, instance_id: c_uint, sample: Handle) {
        let device = device(handle)?;
        keep(&device, sample, |state, side| {
            let (row, _) = mig::instances(state).find(|(_, row)| row.id == instance_id)?;
            Some(of_an_instance(state, side, row))
        })
    }

    fn nvmlGpmMetricsGet(get: *mut GpmMetricsGet) {
        check_not_null(get)?;
        // Only as many metrics are read as the count says that there are.
        let version = read(get.cast::<u32>())?;
        let count = read(&raw const (*get).count)?;
        let handles = [read(&raw const (*get).first)?, read(&raw const (*get).second)?];
        if version != VERSION {
            return Err(returns::ARGUMENT_VERSION_MISMATCH);
        }
        if count as usize > METRICS {
            return Err(returns::INVALID_ARGUMENT);
        }
        let [first, second] = both(handles)?;
        for index in 0..count as usize {
            let offset = offset_of!(GpmMetricsGet, metrics) + index * size_of::<GpmMetric>();
            let metric = get.cast::<u8>().add(offset).cast::<GpmMetric>();
            put(metric, evaluate(read(metric)?, &first, &second))?;
        }
        Ok(())
    }
}

fn is_supported(device: &Device) -> bool {
    device.machine().compute_capability().0 >= SINCE
}

/// Takes a sample and keeps it under its handle.
fn keep(
    device: &Device,
    handle: Handle,
    read: impl FnOnce(&State, &QueueView<'_>) -> Option<Sample>,
) -> Result<(), Return> {
    if !is_supported(device) {
        return Err(returns::NOT_SUPPORTED);
    }
    library()?.samples.get_mut(handle)?;
    catch_up(device)?;
    let sample = device.transact(|state, side| read(state, side))?;
    let sample = sample.ok_or(returns::NOT_FOUND)?;
    *library()?.samples.get_mut(handle)? = Some(sample);
    Ok(())
}

fn of_the_device(state: &State, side: &QueueView<'_>, device: &Device) -> Sample {
    let mut used = Usage::default();
    for engine in state.engines.live() {
        used.add(&engine.used, 1);
    }
    let instances = state.instances.live().iter();
    let moved = instances.map(|instance| moved_by(state, side, instance));
    Sample {
        of: 0,
        at_ns: state.now_ns,
        busy_ns: state.busy_ns,
        used,
        moved: moved.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]),
        sm_count: device.machine().gpu.sm_count,
        sm_share: ONE,
        bandwidth: ONE,
    }
}

fn of_an_engine(state: &State, side: &QueueView<'_>, row: u32) -> Sample {
    let engine = &state.engines.rows[row as usize];
    let instance = &state.instances.rows[engine.instance as usize];
    Sample {
        of: engine.generation,
        at_ns: state.now_ns,
        busy_ns: engine.busy_ns,
        used: engine.used,
        moved: moved_by(state, side, instance),
        sm_count: engine.sm_count,
        sm_share: engine.sm_share,
        bandwidth: instance.bandwidth,
    }
}

fn of_an_instance(state: &State, side: &QueueView<'_>, row: u32) -> Sample {
    let instance = &state.instances.rows[row as usize];
    let mut sample = Sample {
        of: instance.generation,
        at_ns: state.now_ns,
        busy_ns: 0,
        used: Usage::default(),
        moved: moved_by(state, side, instance),
        sm_count: instance.sm_count,
        sm_share: 0,
        bandwidth: instance.bandwidth,
    };
    for (_, engine) in mig::engines(state, row) {
        // That of the busiest instance: a sum would count overlapping times twice.
        sample.busy_ns = sample.busy_ns.max(engine.busy_ns);
        sample.used.add(&engine.used, 1);
        sample.sm_share += engine.sm_share;
    }
    sample
}

/// Two samples of the same target.
fn both(handles: [Handle; 2]) -> Result<[Sample; 2], Return> {
    let mut library = library()?;
    let [first, second] = handles.map(|handle| {
        let sample = *library.samples.get_mut(handle)?;
        sample.ok_or(returns::INVALID_ARGUMENT)
    });
    let (first, second) = (first?, second?);
    if first.of != second.of {
        return Err(returns::INVALID_ARGUMENT);
    }
    Ok([first, second])
}

fn evaluate(request: GpmMetric, first: &Sample, second: &Sample) -> GpmMetric {
    let known = NAMES.iter().find(|(id, ..)| *id == request.metric_id);
    let (short_name, long_name, unit) = known.map_or((null(), null(), null()), |known| {
        (known.1.as_ptr(), known.2.as_ptr(), known.3.as_ptr())
    });
    let (result, value) = match metric(request.metric_id, first, second) {
        Ok(value) => (0, value),
        Err(error) => (error.0, 0.0),
    };
    GpmMetric {
        metric_id: request.metric_id,
        result,
        value,
        short_name,
        long_name,
        unit,
    }
}

const PERCENT: &CStr = c"%";
const RATE: &CStr = c"MiB/s";

/// Number, short name, long name and unit of every metric that there is.
const NAMES: [(u32, &CStr, &CStr, &CStr); 17] = [
    (1, c"GRACT", c"Graphics Engine Active", PERCENT),
    (2, c"SMUTIL", c"SM Activity", PERCENT),
    (3, c"SMOCC", c"SM Occupancy", PERCENT),
    (4, c"INTUTIL", c"Integer Activity", PERCENT),
    (5, c"TENSOR", c"Tensor Activity", PERCENT),
    (6, c"DFMAT", c"DFMA Tensor Activity", PERCENT),
    (7, c"HMMAT", c"HMMA Tensor Activity", PERCENT),
    (8, c"DMMAT", c"DMMA Tensor Activity", PERCENT),
    (9, c"IMMAT", c"IMMA Tensor Activity", PERCENT),
    (10, c"DRAMA", c"DRAM Activity", PERCENT),
    (11, c"FP64A", c"FP64 Activity", PERCENT),
    (12, c"FP32A", c"FP32 Activity", PERCENT),
    (13, c"FP16A", c"FP16 Activity", PERCENT),
    (20, c"PCITX", c"PCIe Bytes Sent", RATE),
    (21, c"PCIRX", c"PCIe Bytes Received", RATE),
    (60, c"NVLRX", c"NVLink Bytes Received", RATE),
    (61, c"NVLTX", c"NVLink Bytes Sent", RATE),
];

/// A metric over the time between two samples.
fn metric(id: u32, first: &Sample, second: &Sample) -> Result<f64, Return> {
    if id == 0 || id as usize >= METRICS {
        return Err(returns::INVALID_ARGUMENT);
    }
    if !NAMES.iter().any(|(known, ..)| *known == id) {
        return Err(returns::NOT_SUPPORTED);
    }
    let (Some(dt_ns), Some(busy_ns)) = (
        second.at_ns.checked_sub(first.at_ns),
        second.busy_ns.checked_sub(first.busy_ns),
    ) else {
        // In the wrong order.
        return Err(returns::INVALID_ARGUMENT);
    };
    if dt_ns < REFRESH_NS {
        return Err(returns::NO_DATA);
    }
    let time = dt_ns as f64;
    let share = |resource: Resource, whole: u64| {
        let at = resource as usize;
        let used = second.used.shares[at].saturating_sub(first.used.shares[at]);
        100.0 * used as f64 / (time * whole.max(1) as f64)
    };
    let sms = second.used.sms.saturating_sub(first.used.sms) as f64;
    let rate = |direction: usize| {
        let bytes = second.moved[direction].saturating_sub(first.moved[direction]);
        bytes as f64 / MIB / (time / 1e9)
    };
    Ok(match id {
        1 => 100.0 * busy_ns as f64 / time,
        2 => 100.0 * sms / (time * f64::from(second.sm_count.max(1))),
        3 => share(Resource::SmSlots, second.sm_share),
        4 => share(Resource::Int, second.sm_share),
        // Products of halves are the only ones that the interpreter knows.
        5 | 7 => share(Resource::Tensor, second.sm_share),
        // Products of doubles and of integers, and halves outside the tensor cores.
        6 | 8 | 9 | 13 => 0.0,
        10 => share(Resource::Dram, second.bandwidth),
        11 => share(Resource::Fp64, second.sm_share),
        12 => share(Resource::Fp32, second.sm_share),
        // Sent by the device is copied to the host.
        20 => rate(1),
        21 => rate(0),
        // NVLink, which the boards of Hopper have: with no second device, nothing goes over it.
        60 | 61 => 0.0,
        _ => return Err(returns::NOT_SUPPORTED),
    })
}
